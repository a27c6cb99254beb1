"""Constituency trees, and reading and writing them in Penn Treebank brackets.

`(S (NP (DT The) (NN fox)) (VP (VBD slept)) (. .))` is a tree: a bracket with a word is
a leaf with a part-of-speech tag, any other bracket is a constituent with a label. Words
are written in the treebank's form, in which "(" is "-LRB-" (see `escape`).

All functions are iterative, so very deep trees do not hit Python's recursion limit.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence

from keras_transformer import text_files, wording

# Tag of traces (empty elements), which stand for no word of the sentence.
TRACE_TAG = "-NONE-"

# Root label of a cleaned tree whose sentence has several parts.
TOP = "TOP"

# Events of `walk`.
OPEN, LEAF, CLOSE = "open", "leaf", "close"

# Labels of the extra root that treebanks and parsers add.
_OUTER_LABELS = frozenset({"", "ROOT", TOP, "S1"})

# ASCII: a no-break space is part of a word.
_TOKEN = re.compile(r"[()]|[^()\s]+", re.ASCII)
_NO_LABEL = re.compile(r"[()\s]", re.ASCII)
_NO_WORD = re.compile(r"\s", re.ASCII)
_LABEL_BEFORE_FUNCTION = re.compile(r"-.*|.[^-=]*", re.DOTALL)

_ROUND = {"(": "-LRB-", ")": "-RRB-"}
# Names of words that are brackets.
BRACKETS = _ROUND | {"[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A word with its part-of-speech tag.

    Raises:
        ValueError: If the tag or the word is empty or contains white space, or the tag
            contains a round bracket.

    Examples:
        >>> kt.parsing.Leaf(tag="NN", word="fox").word
        'fox'
    """

    tag: str
    word: str

    def __post_init__(self):
        if not self.tag or _NO_LABEL.search(self.tag):
            raise ValueError(
                "`tag` must not be empty, or contain white space or round brackets. "
                f"Received: tag={self.tag!r}."
            )
        if not self.word or _NO_WORD.search(self.word):
            raise ValueError(
                "`word` must not be empty or contain white space. "
                f"Received: word={self.word!r}."
            )


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A constituent: a label over at least one constituent or word.

    `str(tree)` is its brackets on one line.

    Args:
        label: Such as "NP"; empty for the treebank's outermost bracket.
        children: From left to right.

    Raises:
        ValueError: If the label contains white space or round brackets, or there are no
            children.

    Examples:
        >>> leaves = kt.parsing.Leaf("DT", "the"), kt.parsing.Leaf("NN", "fox")
        >>> tree = kt.parsing.Tree("NP", leaves)
        >>> print(tree, tree.words)
        (NP (DT the) (NN fox)) ['the', 'fox']
    """

    label: str
    children: tuple[Tree | Leaf, ...]

    def __post_init__(self):
        if _NO_LABEL.search(self.label):
            raise ValueError(
                "`label` must not contain white space or round brackets. "
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
    """A label over the words from `start` to `end` (exclusive)."""

    label: str
    start: int
    end: int


def walk(tree: Tree) -> Iterator[tuple[str, Tree | Leaf]]:
    """Yield (event, node) in depth-first order, from left to right.

    Each tree yields OPEN before its children and CLOSE after them; each leaf yields
    LEAF.
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
    opened = []  # index in `found`, and index of the first word
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
    current = deepest = 0
    for kind, _ in walk(tree):
        current += (kind == OPEN) - (kind == CLOSE)
        deepest = max(deepest, current)
    return deepest


def escape(word: str) -> str:
    """Return a word in the treebank's form, which has no round brackets.

    A word that is a bracket of any kind becomes its name, such as "-LRB-" or "-LCB-".
    Round brackets inside a word are replaced too: ":)" becomes ":-RRB-".
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
    """Write one tree per line.

    Args:
        path: The file to write; None: standard output.
        trees: The trees; None (a sentence without parse) is written as an empty line.

    Examples:
        >>> tree = kt.parsing.Tree("NP", (kt.parsing.Leaf("NN", "fox"),))
        >>> kt.parsing.write_trees("new.mrg", [tree])
        >>> kt.parsing.read_trees("new.mrg").trees[0] == tree
        True
    """
    text_files.write_lines(
        path, ["" if tree is None else write(tree) for tree in trees]
    )


def strip_function(label: str) -> str:
    """Return a label without its function and index: "NP" for "NP-SBJ-1" and "NP=2".

    A label that begins with "-", such as "-LRB-", is returned unchanged.
    """
    found = _LABEL_BEFORE_FUNCTION.match(label)
    return found[0] if found else label


def clean(tree: Tree) -> Tree:
    """Return the tree in the form used for training and scoring.

    Removes traces and constituents that contain only traces, function labels
    (`strip_function`), and an outermost bracket that is unlabeled or named ROOT, TOP or
    S1. If that bracket has several children, or a word, it becomes TOP instead.

    Raises:
        ValueError: If no word is left.

    Examples:
        >>> tree = kt.parsing.read_trees("trees.mrg").trees[0]
        >>> print(tree)
        ( (S (NP-SBJ (DT the) (NN fox)) (VP (VBZ barks))))
        >>> print(kt.parsing.clean(tree))
        (S (NP (DT the) (NN fox)) (VP (VBZ barks)))
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
                label = strip_function(node.label)
                stack[-1].append(Tree(label, tuple(children)))
    if not stack[0]:
        raise ValueError(f"The tree has no words, only traces. Received: {tree}.")
    return _without_outer(stack[0][0])


def from_string(text: str) -> Tree:
    """Parse one tree in Penn Treebank brackets.

    Raises:
        ValueError: If the text is not exactly one tree.
    """
    return _parse(text.split("\n"), "text", 1, may_be_several=False)


@dataclasses.dataclass(frozen=True)
class Treebank:
    """The result of `read_trees`.

    Attributes:
        trees: The trees in file order; None for a missing parse (`allow_empty`).
        locations: File and line of each tree, for messages.
        problems: One error message for each bad tree that was left out.
    """

    trees: list[Tree | None]
    locations: list[str]
    problems: list[str]


def read_trees(
    path: str | os.PathLike,
    *,
    one_per_line: bool = False,
    allow_empty: bool = False,
    skip_bad: bool = False,
) -> Treebank:
    """Read trees in Penn Treebank brackets, without cleaning them.

    A tree has one or more lines. As in the Penn Treebank, it starts with a bracket in
    the first column and its other lines are indented, so a missing bracket is reported
    for the right tree. Blank lines are ignored. `one_per_line` changes both rules.

    Args:
        path: A file (also .gz), or a folder, in which all files *.mrg and *.mrg.gz are
            read in sorted order, including subfolders (wsj/00/*.mrg).
        one_per_line: Whether line n is tree n. An empty line is then bad, and several
            brackets on a line are one tree under an unlabeled bracket, as in EVALB.
        allow_empty: With `one_per_line`: whether an empty line (and with `skip_bad` a
            bad one) gives None, so that line n stays tree n.
        skip_bad: Whether to continue after a bad tree instead of raising.

    Raises:
        FileNotFoundError: If the file does not exist, or the folder contains none.
        ValueError: If a tree is bad or a line is not valid UTF-8 (the message names
            file and line), or if `allow_empty` is used without `one_per_line`.

    Examples:
        >>> bank = kt.parsing.read_trees("trees.mrg")
        >>> len(bank.trees)
        1
    """
    if allow_empty and not one_per_line:
        raise ValueError(
            "`allow_empty` needs `one_per_line`. Received: one_per_line=False, "
            "allow_empty=True."
        )
    bank = Treebank([], [], [])
    for file in _files(pathlib.Path(path)):
        lines = text_files.read_lines(file)
        chunks = enumerate(([line] for line in lines), 1) if one_per_line else None
        for number, chunk in chunks or _chunks(lines):
            tree = None
            try:
                if chunk[0].strip() or not allow_empty:
                    tree = _parse(chunk, str(file), number, may_be_several=one_per_line)
            except ValueError as error:
                if not skip_bad:
                    raise
                bank.problems.append(str(error))
            if tree is not None or allow_empty:
                bank.trees.append(tree)
                bank.locations.append(f"{file}, line {number}")
    return bank


def _flat(tree: Tree) -> Iterator[tuple[str, str | Leaf]]:
    """Yield the events and labels that define equality of trees."""
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
    """Yield the number of the first line and the lines of each tree."""
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
    """An open bracket and its content so far."""

    line: int
    label: str | None = None
    word: str | None = None
    children: list[Tree | Leaf] = dataclasses.field(default_factory=list)


# Not NLTK's reader: its errors name neither file nor line, it accepts malformed trees
# (words beside constituents, empty brackets), and its tree traversal is recursive.
def _parse(lines: Sequence[str], name: str, first: int, may_be_several: bool) -> Tree:
    """Return the tree written in these lines.

    Args:
        lines: The lines of one tree.
        name: File name, for messages.
        first: Line number of the first line.
        may_be_several: Whether several top-level brackets form one tree.
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
                        "a second tree starts on the same line, or on an indented "
                        "line. Start each tree in the first column of a line.",
                    )
                stack.append(_Bracket(number))
            elif token == ")":
                if not stack:
                    raise bad(number, "a closing bracket has no opening bracket.")
                closed = stack.pop()
                (stack[-1].children if stack else roots).append(
                    _finished(closed, stack, bad)
                )
            elif not stack:
                raise bad(number, f"{token!r} is outside all brackets.")
            elif stack[-1].children or stack[-1].word is not None:
                raise bad(number, _word_not_alone(token))
            elif stack[-1].label is None:
                stack[-1].label = token
            else:
                stack[-1].word = token
    if stack:
        raise bad(
            stack[-1].line,
            "a bracket is not closed; the tree that starts in line "
            f"{first} needs {wording.count(len(stack), 'more closing bracket')}.",
        )
    if not roots:
        raise bad(first, "a tree is needed, but the line is empty.")
    is_whole = len(roots) == 1 and isinstance(roots[0], Tree)
    tree = roots[0] if is_whole else Tree("", tuple(roots))
    if all(tag == TRACE_TAG for tag in tree.tags):
        raise bad(first, "the tree has no words, only traces.")
    return tree


def _finished(
    bracket: _Bracket,
    around: Sequence[_Bracket],
    bad: Callable[[int, str], ValueError],
) -> Tree | Leaf:
    """Return the leaf or tree of a closed bracket."""
    if bracket.word is not None:
        return Leaf(bracket.label, bracket.word)
    if not bracket.children:
        label = bracket.label or ""
        raise bad(bracket.line, f"the bracket ({label}) has no words.")
    if bracket.label is None and any(outer.label is not None for outer in around):
        raise bad(bracket.line, "only the outermost bracket may have no label.")
    return Tree(bracket.label or "", tuple(bracket.children))


def _word_not_alone(word: str) -> str:
    return f"the word {word!r} must be alone in a bracket with its tag: (NN word)."
