"""Trees as sequences of symbols, as in "Grammar as a Foreign Language", and back.

Vinyals et al. 2015 (arXiv 1412.7449), as the paper's §6.3 follows it. The tree
`(S (NP (DT The) (NN fox)) (VP (VBD slept)))` is written

    (S (NP XX XX )NP (VP XX )VP )S

where each opening and closing label is one symbol, and "XX" stands for the next word,
whatever its tag. The decoder writes only the structure. Words come from the sentence;
tags, which scoring needs, come from the gold tree or from `tags_of`.

With `keep_tags` each word is written as its tag, `(S (NP DT NN )NP (VP VBD )VP )S`, as
in the authors' tensor2tensor. The decoder then predicts tags too, and the tags written
so far help it to keep track of its position in the sentence.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from keras_transformer import config
from keras_transformer.treebank import trees

# Symbol for the next word of the sentence.
WORD = "XX"

# Tag of words other than punctuation, if only the form of the word is known.
UNKNOWN_TAG = "XX"

# Words that have the same tag in every context of the Penn Treebank.
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
    """Return the tag that bracket scoring needs, from the form of the word alone.

    EVALB ignores punctuation, which it recognizes by its tag; other tags do not affect
    brackets. Tagging accuracy is meaningless with these tags.

    Returns:
        The Penn Treebank's tag of punctuation and brackets, else "XX".

    Examples:
        >>> kt.parsing.tag_of("."), kt.parsing.tag_of("fox")
        ('.', 'XX')
    """
    return _TAG_OF_WORD.get(word, UNKNOWN_TAG)


def tags_of(words: Sequence[str]) -> list[str]:
    """Return `tag_of` each word of a sentence; the tag of "'" depends on the sentence.

    "'" is a closing quote if "`" has opened one, else a possessive. This is correct for
    67 of 68 occurrences in the Penn Treebank's sample.

    Examples:
        >>> kt.parsing.tags_of(["``", "Yes", "''", "."])
        ['``', 'XX', "''", '.']
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


def merge_tags(words: Sequence[str], predicted: Sequence[str]) -> list[str]:
    """Return `tags_of` for punctuation, and the predicted tags for other words.

    EVALB ignores punctuation by its tag, so predictions never add or remove it.
    """
    return [
        tag if tag != UNKNOWN_TAG or other in WORDS_OF_TAG else other
        for tag, other in zip(tags_of(words), predicted, strict=True)
    ]


def linearise(tree: trees.Tree, keep_tags: bool = False) -> list[str]:
    """Return the symbols of a cleaned tree.

    Args:
        tree: The tree.
        keep_tags: Whether to write a word as its tag instead of "XX".

    Raises:
        ValueError: If a bracket has no label.

    Examples:
        >>> tree = kt.parsing.clean(kt.parsing.read_trees("trees.mrg").trees[0])
        >>> kt.parsing.linearise(tree)
        ['(S', '(NP', 'XX', 'XX', ')NP', '(VP', 'XX', ')VP', ')S']
    """
    symbols = []
    for kind, node in trees.walk(tree):
        if kind == trees.LEAF:
            symbols.append(node.tag if keep_tags else WORD)
        elif not node.label:
            raise ValueError(
                "Every bracket must have a label; `trees.clean` removes an outermost "
                f"bracket without one. Received: {tree}."
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
    """Return the tree of a sequence of symbols, the inverse of `linearise`.

    Args:
        labels: Symbols: "(" or ")" with a label, or a word symbol.
        words: The words of the sentence, one per word symbol.
        tags: The tag of each word, from the gold tree or `tags_of`.
        word_symbols: The symbols that stand for a word.

    Raises:
        ValueError: If the symbols are not a tree over these words; the message names
            the symbol.

    Examples:
        >>> labels = ["(S", "(NP", "XX", "XX", ")NP", ")S"]
        >>> print(kt.parsing.delinearise(labels, ["the", "fox"], ["DT", "NN"]))
        (S (NP (DT the) (NN fox)))
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
        where = f"Symbol {number}, {symbol!r},"
        if root is not None:
            raise ValueError(f"{where} comes after the end of the tree.")
        if symbol in word_symbols:
            if not stack:
                raise ValueError(f"{where} stands for a word outside all brackets.")
            if position == len(leaves):
                raise ValueError(
                    f"{where} has no word: the sentence has {len(leaves)}."
                )
            stack[-1][1].append(leaves[position])
            position += 1
        elif is_opening(symbol):
            stack.append((symbol[1:], []))
        elif is_closing(symbol):
            root = _close(stack, symbol[1:], where)
        else:
            raise ValueError(
                f"{where} must be a word symbol ({', '.join(word_symbols)}), or "
                '"(" or ")" with a label, such as "(NP".'
            )
    if root is None:
        missing = " ".join(f"){label}" for label, _ in reversed(stack)) or "a tree"
        raise ValueError(f"After {len(labels)} symbols, this is missing: {missing}.")
    if position < len(leaves):
        raise ValueError(
            f"The symbols stand for {position} words, but the sentence has "
            f"{len(leaves)}."
        )
    return root


def repair(
    labels: Sequence[str],
    num_words: int,
    root: str = "S",
    word_symbols: Collection[str] = (WORD,),
) -> list[str]:
    """Return a well-formed sequence over `num_words` words, close to `labels`.

    Used for unconstrained decoding, as a baseline for the constrained search. A valid
    tree is returned unchanged. Otherwise, from left to right: a closing label also
    closes all constituents opened inside it, and is dropped if no such constituent is
    open; extra words, empty constituents and unknown symbols are dropped; the first
    bracket becomes the root of everything that follows; missing words are added at the
    end.

    Args:
        labels: Any symbols.
        num_words: Length of the sentence, at least 1.
        root: Label of the root if a word comes before any bracket.
        word_symbols: The symbols that stand for a word; "XX" is used for missing words.

    Raises:
        ValueError: If `num_words` is below 1.

    Examples:
        >>> kt.parsing.repair(["(S", "(NP", "XX", ")S"], num_words=2)
        ['(S', '(NP', 'XX', 'XX', ')NP', ')S']
    """
    config.check_at_least("num_words", num_words, 1)
    repaired: list[str] = []
    stack: list[str] = []
    position = 0

    def close() -> None:
        label = stack.pop()
        if is_opening(repaired[-1]):  # empty constituent
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
    """Return whether a symbol opens a constituent."""
    return len(symbol) > 1 and symbol[0] == "("


def is_closing(symbol: str) -> bool:
    """Return whether a symbol closes a constituent."""
    return len(symbol) > 1 and symbol[0] == ")"


def _close(stack: list[tuple[str, list]], label: str, where: str) -> trees.Tree | None:
    """Close the innermost constituent; return the tree if it was the root."""
    if not stack:
        raise ValueError(f"{where} closes a constituent that was not opened.")
    opened, children = stack.pop()
    if opened != label:
        raise ValueError(f"{where} must be {f'){opened}'!r}, which is open.")
    if not children:
        raise ValueError(f"{where} closes a constituent without words.")
    tree = trees.Tree(label, tuple(children))
    if not stack:
        return tree
    stack[-1][1].append(tree)
    return None
