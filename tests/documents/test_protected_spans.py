"""The spans that are protected in hard lines, as marked by hand."""

import re
from typing import NamedTuple

import pytest

from keras_transformer.documents import protection
from keras_transformer.documents.protection import Protection, Term
from tests.documents.marked_texts import check_right, read_table

# Number of lines that are right: all.
RIGHT = 85

_MARKED = re.compile("⟦([a-z]+) ([^⟧]*)⟧")


class Line(NamedTuple):
    """A row of the table."""

    script: str
    terms: tuple[str, ...]
    symbols: tuple[str, ...]
    line: str
    # Where each span begins and ends.
    spans: list[tuple[int, int]]
    kinds: list[str]


@pytest.fixture(scope="module")
def lines(repository):
    rows = read_table(repository / "tests" / "documents" / "protected_spans.tsv")
    return [line_of(*row) for row in rows]


def line_of(script, terms, symbols, marked):
    line, spans, kinds = "", [], []
    before, *parts = _MARKED.split(marked)
    line += before
    for kind, original, after in zip(*(parts[n::3] for n in range(3)), strict=True):
        spans.append((len(line), len(line) + len(original)))
        kinds.append(kind)
        line += original + after
    terms, symbols = (tuple(filter(None, s.split("|"))) for s in (terms, symbols))
    return Line(script, terms, symbols, line, spans, kinds)


def spans_found(line):
    """Return where spans are found. All symbols are passed as language tokens."""
    terms = [Term(term, None) for term in line.terms]
    protected = Protection(protection.KINDS, terms, tokens=line.symbols)
    return [(span.start, span.end) for span in protected.protect(line.line).spans]


def marked(line, spans):
    """Return a line with brackets around spans."""
    ends = sorted([*((end, "⟧") for _, end in spans), *((n, "⟦") for n, _ in spans)])
    text = line.line
    for place, bracket in reversed(ends):
        text = text[:place] + bracket + text[place:]
    return f"{line.script}: {text}"


def test_the_table_has_many_lines_of_many_scripts(lines):
    assert len(lines) >= 60
    assert len({(line.terms, line.line) for line in lines}) == len(lines)
    assert len({line.script for line in lines}) >= 8
    kinds = [kind for line in lines for kind in line.kinds]
    assert set(kinds) == {*protection.KINDS, "terms"}
    assert sum(not line.spans for line in lines) >= 4
    for line in lines:
        assert not set("⟦⟧") & set(line.line)
        assert all(line.line.startswith(symbol) for symbol in line.symbols[:1])


def test_the_marked_spans_are_protected_and_no_others(lines):
    """Kinds are not compared, because a `Span` does not have one."""
    wrong = [
        marked(line, found)
        for line in lines
        if (found := spans_found(line)) != line.spans
    ]
    check_right(wrong, len(lines), RIGHT)
