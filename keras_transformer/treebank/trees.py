"""Constituency trees, and the Penn Treebank brackets that they are kept in.

`(S (NP (DT The) (NN fox)) (VP (VBD slept)) (. .))` is a tree: a bracket with a word is
a leaf with its part-of-speech tag, any other is a constituent with its label. Words
stand in the treebank's form, where "(" is "-LRB-": `escape` brings them there.

Nothing here recurses, so that a tree may be as deep as its sentence is long.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence

from keras_transformer import text_files

# The tag of what the treebank adds without a word being there: traces.
TRACE_TAG = "-NONE-"

# The label of what is around a sentence of several parts in a cleaned tree.
TOP = "TOP"

# What the events of `walk` are called.
OPEN, LEAF, CLOSE = "open", "leaf", "close"

# The bracket that treebanks and parsers put around the sentence's own.
_OUTER_LABELS = frozenset({"", "ROOT", TOP, "S1"})

# ASCII: a no-break space is part of a word.
_TOKEN = re.compile(r"[()]|[^()\s]+", re.ASCII)
_NO_LABEL = re.compile(r"[()\s]", re.ASCII)
_NO_WORD = re.compile(r"\s", re.ASCII)
_WITHOUT_FUNCTION = re.compile(r"-.*|.[^-=]*", re.DOTALL)

_ROUND = {"(": "-LRB-", ")": "-RRB-"}
# What stands for a bracket that is a word.
BRACKETS = _ROUND | {"[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A word with its part-of-speech tag.

    Raises:
        ValueError: If the tag or the word is empty or has white space, or the tag a
            round bracket.
    """

    tag: str
    word: str

    def __post_init__(self):
        if not self.tag or _NO_LABEL.search(self.tag):
            raise ValueError(
                "`tag` must be without white space and round brackets, and not empty. "
                f"Received: tag={self.tag!r}."
            )
        if not self.word or _NO_WORD.search(self.word):
            raise ValueError(
                "`word` must be without white space, and not empty. "
                f"Received: word={self.word!r}."
            )


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A constituent: a label over at least one constituent or word.

    `str` gives its brackets on one line.

    Args:
        label: Such as "NP"; empty for the treebank's outermost bracket.
        children: From left to right.

    Raises:
        ValueError: If the label has white space or round brackets, or there are no
            children.
    """

    label: str
    children: tuple[Tree | Leaf, ...]

    def __post_init__(self):
        if _NO_LABEL.search(self.label):
            raise ValueError(
                "`label` must be without white space and round brackets. "
                f"Received: label={self.label!r}."
            )
        if not isinstance(self.children, tuple) or not self.children:
            raise ValueError(
                "`children` must be a tuple with at least one tree or leaf. "
                f"Received: children={self.children!r} under {self.label!r}."
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        pairs = itertools.zip_longest(_flat(self), _flat(other))
        return all(left == right for left, right in pairs)

    def __hash__(self) -> int:
        return hash(tuple(_flat(self)))

    def __str__(self) -> str:
        return write(self)

    def __repr__(self) -> str:
        return f"<Tree {write(self)}>"

    @property
    def leaves(self) -> list[Leaf]:
        """Words with their tags, from left to right."""
        return [node for kind, node in walk(self) if kind == LEAF]

    @property
    def words(self) -> list[str]:
        """The sentence."""
        return [leaf.word for leaf in self.leaves]

    @property
    def tags(self) -> list[str]:
        """The part-of-speech tag of each word."""
        return [leaf.tag for leaf in self.leaves]


@dataclasses.dataclass(frozen=True)
class Constituent:
    """A label over words `start` up to, not including, `end`."""

    label: str
    start: int
    end: int


def walk(tree: Tree) -> Iterator[tuple[str, Tree | Leaf]]:
    """Yield what is met from left to right, as (event, node).

    The event is OPEN and, when its children have been met, CLOSE for each tree, and
    LEAF for each leaf.
    """
    yield OPEN, tree
    stack = [(tree, iter(tree.children))]
    while stack:
        node, children = stack[-1]
        child = next(children, None)
        if child is None:
            stack.pop()
            yield CLOSE, node
        elif isinstance(child, Leaf):
            yield LEAF, child
        else:
            yield OPEN, child
            stack.append((child, iter(child.children)))


def constituents(tree: Tree) -> list[Constituent]:
    """Return every constituent with its span, in the order of opening brackets."""
    found: list[Constituent | None] = []
    opened = []  # where in `found`, and at which word
    position = 0
    for kind, node in walk(tree):
        if kind == OPEN:
            opened.append((len(found), position))
            found.append(None)
        elif kind == LEAF:
            position += 1
        else:
            index, start = opened.pop()
            found[index] = Constituent(node.label, start, position)
    return found


def depth(tree: Tree) -> int:
    """Return the number of constituents around the most deeply nested word."""
    now = deepest = 0
    for kind, _ in walk(tree):
        now += (kind == OPEN) - (kind == CLOSE)
        deepest = max(deepest, now)
    return deepest


def escape(word: str) -> str:
    """Return a word in the treebank's form, in which no round bracket is left.

    A word that is a bracket of any kind becomes its name, such as "-LRB-" or "-LCB-";
    a round bracket within a word does too: ":)" becomes ":-RRB-".
    """
    if word in BRACKETS:
        return BRACKETS[word]
    return word.replace("(", _ROUND["("]).replace(")", _ROUND[")"])


def write(tree: Tree) -> str:
    """Return the tree as brackets on one line, its words escaped."""
    parts = []
    for kind, node in walk(tree):
        if kind == OPEN:
            parts.append(f" ({node.label}")
        elif kind == LEAF:
            parts.append(f" ({node.tag} {escape(node.word)})")
        else:
            parts.append(")")
    return "".join(parts)[1:]


def write_trees(path: str | os.PathLike | None, trees: Sequence[Tree | None]) -> None:
    """Write one tree a line, or to standard output for None.

    A tree that is None gives an empty line: there is no parse of this sentence.
    """
    text_files.write_lines(
        path, ["" if tree is None else write(tree) for tree in trees]
    )


def without_function(label: str) -> str:
    """Return a label without what "-" or "=" adds: "NP-SBJ-1" and "NP=2" are "NP".

    A label that begins with "-" is whole: "-LRB-".
    """
    found = _WITHOUT_FUNCTION.match(label)
    return found[0] if found else label


def clean(tree: Tree) -> Tree:
    """Return the tree as parsers learn it and are scored on.

    Traces are gone, and constituents that had nothing else; function labels are gone
    (`without_function`); and so is the outermost bracket that is unlabelled or named
    ROOT, TOP or S1, unless the sentence falls apart without it: then it is TOP.

    Raises:
        ValueError: If no word is left.
    """
    stack: list[list[Tree | Leaf]] = [[]]
    for kind, node in walk(tree):
        if kind == OPEN:
            stack.append([])
        elif kind == LEAF:
            if node.tag != TRACE_TAG:
                stack[-1].append(node)
        else:
            children = stack.pop()
            if children:
                label = without_function(node.label)
                stack[-1].append(Tree(label, tuple(children)))
    if not stack[0]:
        raise ValueError(f"The tree has no words but traces. Received: {tree}.")
    return _without_outer(stack[0][0])


def from_string(text: str) -> Tree:
    """Return the one tree that is written in `text`.

    Raises:
        ValueError: If the brackets are not those of one tree.
    """
    return _parse(text.split("\n"), "text", 1, may_be_several=False)


@dataclasses.dataclass(frozen=True)
class Treebank:
    """What `read_trees` read.

    Attributes:
        trees: In the order of the files. None where an empty or bad line stands for a
            missing parse (`allow_empty`).
        places: Of each tree, its file and line, for messages.
        problems: What was wrong with each bad tree that was left out.
    """

    trees: list[Tree | None]
    places: list[str]
    problems: list[str]

    @property
    def num_bad(self) -> int:
        """Number of bad trees."""
        return len(self.problems)


def read_trees(
    path: str | os.PathLike,
    *,
    one_a_line: bool = False,
    allow_empty: bool = False,
    skip_bad: bool = False,
) -> Treebank:
    """Read trees in Penn Treebank brackets, uncleaned.

    A tree takes one line or several; it begins with a bracket in the first column, and
    the lines that continue it are indented, as in the Penn Treebank: so a bracket too
    few is found where it is. Blank lines mean nothing. Both change with `one_a_line`.

    Args:
        path: A file, plain or .gz, or a folder, whose files *.mrg and *.mrg.gz are
            read in sorted order, those of its folders too (wsj/00/*.mrg).
        one_a_line: Whether line n is tree n. Then an empty line is bad, and several
            brackets beside each other are one tree under an unlabelled bracket, as
            EVALB takes them.
        allow_empty: With `one_a_line`: whether an empty line gives None in place of a
            tree, and with `skip_bad` a bad one too, so that line n stays tree n.
        skip_bad: Whether to go on after a bad tree; else it is an error.

    Raises:
        FileNotFoundError: If there is no such file, or none in the folder.
        ValueError: If a tree is bad, or a line no UTF-8; the message names file and
            line. Or if `allow_empty` comes without `one_a_line`.
    """
    if allow_empty and not one_a_line:
        raise ValueError(
            "`allow_empty` needs `one_a_line`. Received: one_a_line=False, "
            "allow_empty=True."
        )
    bank = Treebank([], [], [])
    for file in _files(pathlib.Path(path)):
        lines = text_files.read_lines(file)
        chunks = enumerate(([line] for line in lines), 1) if one_a_line else None
        for number, chunk in chunks or _chunks(lines):
            tree = None
            try:
                if chunk[0].strip() or not allow_empty:
                    tree = _parse(chunk, str(file), number, may_be_several=one_a_line)
            except ValueError as error:
                if not skip_bad:
                    raise
                bank.problems.append(str(error))
            if tree is not None or allow_empty:
                bank.trees.append(tree)
                bank.places.append(f"{file}, line {number}")
    return bank


def _flat(tree: Tree) -> Iterator[tuple[str, str | Leaf]]:
    """Yield what makes a tree equal to another."""
    for kind, node in walk(tree):
        yield kind, node if kind == LEAF else node.label


def _without_outer(tree: Tree) -> Tree:
    while tree.label in _OUTER_LABELS:
        child = tree.children[0]
        if len(tree.children) > 1 or isinstance(child, Leaf):
            return Tree(TOP, tree.children)
        tree = child
    return tree


def _files(path: pathlib.Path) -> list[pathlib.Path]:
    if not path.is_dir():
        return [path]
    found = sorted([*path.rglob("*.mrg"), *path.rglob("*.mrg.gz")])
    if not found:
        raise FileNotFoundError(f"No file *.mrg or *.mrg.gz in {path} or its folders.")
    return found


def _chunks(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of each tree, with the number of the first."""
    first, chunk = 0, []
    for number, line in enumerate(lines, start=1):
        if line.startswith("(") and chunk:
            yield first, chunk
            chunk = []
        if line.strip() and not chunk:
            first = number
        if line.strip() or chunk:
            chunk.append(line)
    if chunk:
        yield first, chunk


@dataclasses.dataclass(slots=True)
class _Bracket:
    """An open bracket with what was read of it."""

    line: int
    label: str | None = None
    word: str | None = None
    children: list[Tree | Leaf] = dataclasses.field(default_factory=list)


# NLTK's reader names neither file nor line, accepts what is no tree (words beside
# constituents, empty brackets) and recurses where its trees are walked: hence our own.
def _parse(lines: Sequence[str], name: str, first: int, may_be_several: bool) -> Tree:
    """Return the tree written in these lines.

    Args:
        lines: Of one tree.
        name: Of the file, for messages.
        first: Number of the first line in it.
        may_be_several: Whether brackets beside each other are a tree.
    """
    roots: list[Tree | Leaf] = []
    stack: list[_Bracket] = []

    def bad(line: int, problem: str) -> ValueError:
        return ValueError(f"{name}, line {line}: {problem}")

    for number, line in enumerate(lines, start=first):
        for token in _TOKEN.findall(line):
            if token == "(":
                if stack and stack[-1].word is not None:
                    raise bad(number, _word_not_alone(stack[-1].word))
                if roots and not stack and not may_be_several:
                    raise bad(
                        number,
                        "a second tree begins before the line ends, or on an indented "
                        "line. Begin each tree in the first column of a line.",
                    )
                stack.append(_Bracket(number))
            elif token == ")":
                if not stack:
                    raise bad(number, "a closing bracket has no opening one.")
                closed = stack.pop()
                (stack[-1].children if stack else roots).append(
                    _finished(closed, stack, bad)
                )
            elif not stack:
                raise bad(number, f"{token!r} stands outside all brackets.")
            elif stack[-1].children or stack[-1].word is not None:
                raise bad(number, _word_not_alone(token))
            elif stack[-1].label is None:
                stack[-1].label = token
            else:
                stack[-1].word = token
    if stack:
        raise bad(
            stack[-1].line,
            f"a bracket is not closed; {len(stack)} closing missing in the tree that "
            f"begins in line {first}.",
        )
    if not roots:
        raise bad(first, "a tree is needed, and the line is empty.")
    is_whole = len(roots) == 1 and isinstance(roots[0], Tree)
    tree = roots[0] if is_whole else Tree("", tuple(roots))
    if all(tag == TRACE_TAG for tag in tree.tags):
        raise bad(first, "the tree has no words but traces.")
    return tree


def _finished(
    bracket: _Bracket,
    around: Sequence[_Bracket],
    bad: Callable[[int, str], ValueError],
) -> Tree | Leaf:
    """Return what a bracket is now that it is closed."""
    if bracket.word is not None:
        return Leaf(bracket.label, bracket.word)
    if not bracket.children:
        label = bracket.label or ""
        raise bad(bracket.line, f"the bracket ({label}) has no words.")
    if bracket.label is None and any(outer.label is not None for outer in around):
        raise bad(bracket.line, "only the outermost bracket may be without a label.")
    return Tree(bracket.label or "", tuple(bracket.children))


def _word_not_alone(word: str) -> str:
    return f"the word {word!r} must be alone in a bracket with its tag: (NN word)."
