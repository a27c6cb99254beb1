"""Spans put into lines, and what is counted of their translations."""

import random

import pytest

from benchmarks.lib import marked_lines

TERMS = {"dog": "Hund", "hat": "Hut", "car": "Auto", "park": "Park", "ball": "Ball"}
LINE = marked_lines.MarkedLine(
    "", (("url", "https://a1.org/x"), ("number", "77"), ("tag", "b"), ("term", "Hund"))
)


def test_each_line_gets_one_to_four_spans_among_its_words():
    draw, sizes, kinds = random.Random(1), set(), set()
    for _ in range(200):
        line = marked_lines.mark("A dog runs .", TERMS, draw)
        sizes.add(len(line.spans))
        kinds.update(kind for kind, _ in line.spans)
        wanted = {wanted: word for word, wanted in TERMS.items()}
        for kind, span in line.spans:
            if kind == "tag":
                assert f"<{span}>" in line.text and f"</{span}>" in line.text
            else:
                assert line.text.count(wanted.get(span, span)) == 1
            # The line has it already.
            assert span != "Hund"
        words = line.text.replace("<", " <").replace(">", "> ").split()
        assert [word for word in words if word in ("A", "dog", "runs", ".")] == [
            *("A", "dog", "runs", ".")
        ]
    assert sizes == {1, 2, 3, 4}
    assert kinds == set(marked_lines.KINDS)


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("77 <b>Hund</b> https://a1.org/x", [True, True, True, True]),
        ("77 77 </b>Hunde<b> https://a1.org/x1", [True, False, False, True]),
        ("7 <b>Katze https://b1.org/x", [False, False, False, False]),
        ("<b></b><b></b>", [False, False, False, False]),
    ],
)
def test_a_span_is_kept_if_the_translation_has_it_once(translation, expected):
    assert marked_lines.kept(LINE, translation) == expected


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("ein Hund", True),
        ("<b>ein <i>Hund</i></b>", True),
        ("<b>ein <i>Hund</b></i>", False),
        ("<b>ein", False),
        ("ein</b>", False),
    ],
)
def test_tags_are_nested_if_they_close_in_order(translation, expected):
    assert marked_lines.is_nested(translation) == expected


def test_spans_are_counted_by_kind():
    lines = [LINE, LINE]
    found = marked_lines.counts(lines, ["77 <b>Hund</b>", "Hund 77 <b>"])
    assert found == {
        "kept_urls": 0,
        "kept_numbers": 2,
        "kept_tags": 1,
        "kept_terms": 2,
        "nested_lines": 1,
    }
