"""Drawings of handwritten trees."""

import re
from xml.etree import ElementTree

import pytest

from keras_transformer.treebank import drawing, trees

FOX = "(S (NP (DT The) (XX fox)) (VP (VBD slept) (PP (IN in) (NP (NN bed)))) (. .))"
SVG = "{http://www.w3.org/2000/svg}"


def test_text_has_a_line_for_each_constituent_and_word():
    """The unknown tag "XX" is not drawn."""
    assert drawing.draw_text(trees.from_string(FOX)).splitlines() == [
        "S",
        "├─ NP",
        "│  ├─ DT The",
        "│  └─ fox",
        "├─ VP",
        "│  ├─ VBD slept",
        "│  └─ PP",
        "│     ├─ IN in",
        "│     └─ NP",
        "│        └─ NN bed",
        "└─ . .",
    ]


def texts_of(svg):
    """Return (text, x, y) of every text in the drawing."""
    found = [
        (node.text, int(node.get("x")), int(node.get("y")))
        for node in ElementTree.fromstring(svg).iter(f"{SVG}text")
    ]
    return found


def test_svg_has_the_words_in_order_in_one_row_and_no_texts_at_the_same_position():
    svg = drawing.draw_svg(trees.from_string(FOX))
    texts = texts_of(svg)
    labels = "S NP DT The fox VP VBD slept PP IN in NP NN bed . ."
    assert [text for text, _, _ in texts] == labels.split()
    lowest = max(y for _, _, y in texts)
    row = [(text, x) for text, x, y in texts if y == lowest]
    assert [text for text, _ in row] == ["The", "fox", "slept", "in", "bed", "."]
    assert [x for _, x in row] == sorted(x for _, x in row)
    assert len({(x, y) for _, x, y in texts}) == len(texts)
    # Every node except the root has a line to its parent.
    lines = [*ElementTree.fromstring(svg).iter(f"{SVG}line")]
    assert len(lines) == len(texts) - 1
    assert not re.search(r"href|url\(|@import", svg)


def test_texts_of_a_row_do_not_overlap():
    tree = "(A-LONG-LABEL (B (XX a)) (OTHER (XX 狗狗狗狗)) (C (XX b)))"
    rows = {}
    for text, x, y in texts_of(drawing.draw_svg(trees.from_string(tree))):
        rows.setdefault(y, []).append((x, 18 if text[0] == "狗" else 9, len(text)))
    for row in rows.values():
        edges = [(x - size * count / 2, x + size * count / 2) for x, size, count in row]
        for (_, right), (left, _) in zip(edges, edges[1:], strict=False):
            assert right < left


def test_a_constituent_is_centered_above_its_words():
    """Both words have the same width, so NP is halfway between them."""
    middle = {
        text: x
        for text, x, _ in texts_of(
            drawing.draw_svg(trees.from_string("(NP (XX abc) (XX def))"))
        )
    }
    assert middle["NP"] * 2 == pytest.approx(middle["abc"] + middle["def"], abs=1)


def test_several_trees_are_drawn_below_each_other_in_one_document():
    one, two = trees.from_string(FOX), trees.from_string("(X (XX a) (XX b))")
    root = ElementTree.fromstring(drawing.draw_svg([one, two]))
    assert [node.text for node in root.iter(f"{SVG}title")] == [
        "The fox slept in bed .",
        "a b",
    ]
    first, second = (
        [int(node.get("y")) for node in group.iter(f"{SVG}text")]
        for group in root.iter(f"{SVG}g")
    )
    assert max(first) < min(second) < int(root.get("height"))
    with pytest.raises(ValueError, match="a tree or several trees. Received: none"):
        drawing.draw_svg([])


def test_control_characters_are_replaced_and_xml_is_escaped():
    tree = trees.Tree("", (trees.Leaf("XX", "<\x1b&"),))
    assert drawing.draw_text(tree) == "()\n└─ <\N{REPLACEMENT CHARACTER}&"
    assert texts_of(drawing.draw_svg(tree))[1][0] == "<\N{REPLACEMENT CHARACTER}&"


def test_a_tree_deeper_than_the_recursion_limit_is_drawn():
    tree = trees.Tree("S", (trees.Leaf("XX", "a"),))
    for _ in range(3000):
        tree = trees.Tree("S", (tree,))
    assert drawing.draw_text(tree).count("\n") == 3001
    assert drawing.draw_svg(tree).count("<text") == 3002
