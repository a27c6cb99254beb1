"""Drawing trees: as text for a terminal, and as SVG.

All functions are iterative, so very deep trees do not hit Python's recursion limit.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Sequence
from xml.sax import saxutils

from keras_transformer.treebank import linearisation, trees

# Drawn for the empty label of the treebank's outermost bracket.
_NO_LABEL = "()"

# Control characters and noncharacters, which terminals and XML cannot show.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# In pixels. A monospaced character is 0.6 of the font size wide, an East Asian wide
# character twice as wide.
_FONT_SIZE = 14
_CHARACTER = 9
_GAP = 14
_ROW = 44
_MARGIN = 12
_STYLE = (
    "text{font:14px monospace;text-anchor:middle;fill:#1a1a1a}"
    ".word{font-weight:bold}"
    "line{stroke:#8a8a8a}"
)


@dataclasses.dataclass(slots=True)
class _Node:
    """A label, a tag or a word in a drawing."""

    text: str
    # Index of the parent; the root is its own parent.
    parent: int
    depth: int
    is_word: bool
    children: list[int] = dataclasses.field(default_factory=list)
    # Left edge and width of the subtree, in pixels.
    left: float = 0.0
    width: float = 0.0

    @property
    def middle(self) -> float:
        return self.left + self.width / 2


def draw_text(tree: trees.Tree) -> str:
    """Return a tree as indented text, one constituent or word per line.

    A tag is written before its word, except "XX", the unknown tag of
    `linearisation.tags_of`.

    Examples:
        >>> tree = kt.parsing.clean(kt.parsing.read_trees("trees.mrg").trees[0])
        >>> print(kt.parsing.draw_text(tree))
        S
        ├─ NP
        │  ├─ DT the
        │  └─ NN fox
        └─ VP
           └─ VBZ barks
    """
    lines = [_shown(tree.label or _NO_LABEL)]
    # For each open constituent: indentation of its children's lines, children left, and
    # number of children.
    stack = [("", iter(enumerate(tree.children, 1)), len(tree.children))]
    while stack:
        indent, children, count = stack[-1]
        number, child = next(children, (0, None))
        if child is None:
            stack.pop()
            continue
        is_last = number == count
        branch = indent + ("└─ " if is_last else "├─ ")
        if isinstance(child, trees.Leaf):
            tag = "" if child.tag == linearisation.UNKNOWN_TAG else f"{child.tag} "
            lines.append(branch + _shown(f"{tag}{child.word}"))
        else:
            lines.append(branch + _shown(child.label or _NO_LABEL))
            child_indent = indent + ("   " if is_last else "│  ")
            grandchildren = iter(enumerate(child.children, 1))
            stack.append((child_indent, grandchildren, len(child.children)))
    return "\n".join(lines)


def draw_svg(tree: trees.Tree | Sequence[trees.Tree]) -> str:
    """Return one SVG document with one tree, or with several below each other.

    Words are in one row, tags and constituents above them. The unknown tag "XX" is left
    out. The document has no external references.

    Raises:
        ValueError: If there are no trees.

    Examples:
        >>> tree = kt.parsing.clean(kt.parsing.read_trees("trees.mrg").trees[0])
        >>> kt.parsing.draw_svg(tree)[:4]
        '<svg'
    """
    several = [tree] if isinstance(tree, trees.Tree) else [*tree]
    if not several:
        raise ValueError("`tree` must be a tree or several trees. Received: none.")
    parts = []
    top = widest = _MARGIN
    for number, one in enumerate(several):
        top += _ROW * bool(number)
        drawn, width, height = _drawing(one, top)
        parts += drawn
        top += height
        widest = max(widest, width)
    width, height = round(widest + 2 * _MARGIN), round(top + _MARGIN)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}">',
            f"<style>{_STYLE}</style>",
            '<rect width="100%" height="100%" fill="white"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _drawing(tree: trees.Tree, top: float) -> tuple[list[str], float, float]:
    """Return the SVG elements of a tree, and their total width and height."""
    nodes = _nodes(tree)
    _arrange(nodes)
    word_row = max(node.depth for node in nodes)
    sentence = " ".join(node.text for node in nodes if node.is_word)
    parts = [f"<g><title>{saxutils.escape(sentence)}</title>"]

    def baseline(node):
        depth = word_row if node.is_word else node.depth
        return top + _FONT_SIZE + depth * _ROW

    for node in nodes[1:]:
        parent = nodes[node.parent]
        parts.append(
            f'<line x1="{parent.middle:.0f}" y1="{baseline(parent) + 5:.0f}" '
            f'x2="{node.middle:.0f}" y2="{baseline(node) - _FONT_SIZE:.0f}"/>'
        )
    for node in nodes:
        kind = ' class="word"' if node.is_word else ""
        parts.append(
            f'<text{kind} x="{node.middle:.0f}" y="{baseline(node):.0f}">'
            f"{saxutils.escape(node.text)}</text>"
        )
    return [*parts, "</g>"], nodes[0].width, _FONT_SIZE + word_row * _ROW + 5


def _nodes(tree: trees.Tree) -> list[_Node]:
    """Return the nodes of a drawing; each node comes before its children."""
    nodes: list[_Node] = []
    opened: list[int] = []

    def add(text: str, is_word: bool = False) -> None:
        parent = opened[-1] if opened else 0
        if nodes:
            nodes[parent].children.append(len(nodes))
        nodes.append(_Node(_shown(text), parent, len(opened), is_word))

    for kind, node in trees.walk(tree):
        if kind == trees.OPEN:
            add(node.label or _NO_LABEL)
            opened.append(len(nodes) - 1)
        elif kind == trees.CLOSE:
            opened.pop()
        elif node.tag == linearisation.UNKNOWN_TAG:
            add(node.word, is_word=True)
        else:
            add(node.tag)
            opened.append(len(nodes) - 1)
            add(node.word, is_word=True)
            opened.pop()
    return nodes


def _arrange(nodes: list[_Node]) -> None:
    """Set the left edge and width of every node: centered above its children."""

    def children_width(node):
        gaps = _GAP * max(len(node.children) - 1, 0)
        return gaps + sum(nodes[child].width for child in node.children)

    for node in reversed(nodes):
        node.width = max(_text_width(node.text), children_width(node))
    nodes[0].left = _MARGIN
    for node in nodes:
        left = node.left + (node.width - children_width(node)) / 2
        for child in node.children:
            nodes[child].left = left
            left += nodes[child].width + _GAP


def _text_width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return _CHARACTER * (len(text) + wide)


def _shown(text: str) -> str:
    return _UNPRINTABLE.sub(_REPLACEMENT, text)
