"""Trees as sequences of symbols, as in "Grammar as a Foreign Language", and back.

Vinyals et al. 2015 (arXiv 1412.7449), as the paper's §6.3 follows it. The tree
`(S (NP (DT The) (NN fox)) (VP (VBD slept)))` is written

    (S (NP XX XX )NP (VP XX )VP )S

where each opening and closing label is one symbol, and "XX" stands for the next word,
whatever its tag. So the decoder writes structure only; words come from the sentence,
and the tags that scoring needs from gold or from `tags_of`.

With `keep_tags` each word is written as its tag, `(S (NP DT NN )NP (VP VBD )VP )S`, as
the paper's authors do in tensor2tensor. The decoder then tags as well, and sees by the
tags before it how far it has come.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from keras_transformer.treebank import trees

# Stands for the next word of the sentence.
WORD = "XX"

# The tag of a word that is no punctuation, where only its form is known.
UNKNOWN_TAG = "XX"

# What the Penn Treebank tags so, whatever is around it.
WORDS_OF_TAG = {
    ",": ",",
    ".": ". ? !",
    ":": ": ; -- ... - \N{EN DASH} \N{EM DASH} \N{HORIZONTAL ELLIPSIS}",
    "``": "`` ` \N{LEFT DOUBLE QUOTATION MARK}",
    "''": "'' \" \N{RIGHT DOUBLE QUOTATION MARK}",
    "-LRB-": "( [ { -LRB- -LSB- -LCB-",
    "-RRB-": ") ] } -RRB- -RSB- -RCB-",
}
_TAG_OF_WORD = {
    word: tag for tag, words in WORDS_OF_TAG.items() for word in words.split()
}


def tag_of(word: str) -> str:
    """Return the tag that scoring needs, from the form of the word alone.

    EVALB leaves out punctuation, which it knows by its tag; no other tag changes
    brackets. Tagging accuracy means nothing with these.

    Returns:
        The Penn Treebank's tag of punctuation and brackets, else "XX".
    """
    return _TAG_OF_WORD.get(word, UNKNOWN_TAG)


def tags_of(words: Sequence[str]) -> list[str]:
    """Return `tag_of` each word of a sentence, and of "'" what the sentence tells.

    "'" closes a quotation where "`" has opened one, and is a possessive elsewhere. Of
    68 in the Penn Treebank's sample, 67 are so.
    """
    tags = []
    num_open = 0
    for word in words:
        tag = tag_of(word)
        num_open += word == "`"
        if word == "'" and num_open:
            tag = "''"
            num_open -= 1
        tags.append(tag)
    return tags


def joined_tags(words: Sequence[str], predicted: Sequence[str]) -> list[str]:
    """Return `tags_of` the words, and what a parser wrote for those without a tag.

    Punctuation, which EVALB leaves out by its tag, goes by the form alone.
    """
    return [
        tag if tag != UNKNOWN_TAG or other in WORDS_OF_TAG else other
        for tag, other in zip(tags_of(words), predicted, strict=True)
    ]


def linearise(tree: trees.Tree, keep_tags: bool = False) -> list[str]:
    """Return the symbols of a cleaned tree.

    Args:
        tree: The tree.
        keep_tags: Whether a word is written as its tag; else as "XX".

    Raises:
        ValueError: If a bracket has no label.
    """
    symbols = []
    for kind, node in trees.walk(tree):
        if kind == trees.LEAF:
            symbols.append(node.tag if keep_tags else WORD)
        elif not node.label:
            raise ValueError(
                "Every bracket must have a label; `trees.clean` removes the outermost "
                f"without. Received: {tree}."
            )
        else:
            symbols.append(f"({node.label}" if kind == trees.OPEN else f"){node.label}")
    return symbols


def delinearise(
    labels: Sequence[str],
    words: Sequence[str],
    tags: Sequence[str],
    word_symbols: Collection[str] = (WORD,),
) -> trees.Tree:
    """Return the tree of symbols as `linearise` writes them.

    Args:
        labels: "(" or ")" with a label, or a symbol for a word.
        words: Of the sentence, as many as there are symbols for them.
        tags: Of each word, gold or from `tags_of`.
        word_symbols: What stands for a word.

    Raises:
        ValueError: If these symbols are no tree over these words; the message says at
            which symbol.
    """
    if len(words) != len(tags):
        raise ValueError(
            "`tags` must have one tag for each of `words`. Received: "
            f"{len(words)} words, {len(tags)} tags."
        )
    leaves = [trees.Leaf(tag, word) for tag, word in zip(tags, words, strict=True)]
    root = None
    position = 0
    stack: list[tuple[str, list]] = []
    for number, symbol in enumerate(labels, start=1):
        place = f"Symbol {number}, {symbol!r},"
        if root is not None:
            raise ValueError(f"{place} comes after the tree's end.")
        if symbol in word_symbols:
            if not stack:
                raise ValueError(f"{place} stands for a word outside all brackets.")
            if position == len(leaves):
                raise ValueError(f"{place} has no word: there are {len(leaves)}.")
            stack[-1][1].append(leaves[position])
            position += 1
        elif is_opening(symbol):
            stack.append((symbol[1:], []))
        elif is_closing(symbol):
            root = _close(stack, symbol[1:], place)
        else:
            raise ValueError(
                f"{place} must stand for a word ({', '.join(word_symbols)}), or be "
                'a "(" or ")" with a label: "(NP".'
            )
    if root is None:
        missing = " ".join(f"){label}" for label, _ in reversed(stack)) or "a tree"
        raise ValueError(f"After {len(labels)} symbols, this is missing: {missing}.")
    if position < len(leaves):
        raise ValueError(
            f"The symbols stand for {position} words, and there are {len(leaves)}."
        )
    return root


def repair(
    labels: Sequence[str],
    num_words: int,
    root: str = "S",
    word_symbols: Collection[str] = (WORD,),
) -> list[str]:
    """Return a well-formed sequence over `num_words` words, close to `labels`.

    For comparison with decoding that is well-formed by construction. What is a tree
    already stays as it is. Else, from left to right: a closing label also closes what
    is open within it, and is left out where none such is open; words beyond the last,
    empty constituents and unknown symbols are left out; the first bracket goes around
    all that follows; missing words go where the sequence ends.

    Args:
        labels: Any symbols.
        num_words: Length of the sentence, at least 1.
        root: Label around all, where a word comes before any bracket.
        word_symbols: What stands for a word; for one that is missing, "XX" does.

    Raises:
        ValueError: If `num_words` is below 1.
    """
    if num_words < 1:
        raise ValueError(
            f"`num_words` must be at least 1. Received: num_words={num_words}."
        )
    repaired: list[str] = []
    stack: list[str] = []
    position = 0

    def close() -> None:
        label = stack.pop()
        if is_opening(repaired[-1]):  # nothing is in it
            repaired.pop()
        else:
            repaired.append(f"){label}")

    def add_word(symbol: str) -> None:
        if not stack:
            stack.append(root)
            repaired.append(f"({root}")
        repaired.append(symbol)

    for symbol in labels:
        if symbol in word_symbols and position < num_words:
            add_word(symbol)
            position += 1
        elif is_opening(symbol):
            stack.append(symbol[1:])
            repaired.append(symbol)
        elif is_closing(symbol) and symbol[1:] in stack[1:]:
            while stack[-1] != symbol[1:]:
                close()
            close()
    for _ in range(position, num_words):
        add_word(WORD)
    while stack:
        close()
    return repaired


def is_opening(symbol: str) -> bool:
    """Whether a symbol opens a constituent."""
    return len(symbol) > 1 and symbol[0] == "("


def is_closing(symbol: str) -> bool:
    """Whether a symbol closes a constituent."""
    return len(symbol) > 1 and symbol[0] == ")"


def _close(stack: list[tuple[str, list]], label: str, place: str) -> trees.Tree | None:
    """Close the innermost constituent; return the tree if that was the last."""
    if not stack:
        raise ValueError(f"{place} closes what was not opened.")
    opened, children = stack.pop()
    if opened != label:
        raise ValueError(f"{place} must be {f'){opened}'!r}, which is open.")
    if not children:
        raise ValueError(f"{place} closes a constituent without words.")
    tree = trees.Tree(label, tuple(children))
    if not stack:
        return tree
    stack[-1][1].append(tree)
    return None
