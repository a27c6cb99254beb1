"""The sentences of hard lines, in text and in a graph, as marked by hand."""

import itertools
import re
from typing import NamedTuple

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies

from keras_transformer.documents import graph_text, text
from keras_transformer.spans import Glossary, Term
from tests.documents.marked_texts import check_right, read_table
from tests.documents.test_text import LAYOUT

# Number of lines that are right. The goal is 98 %.
RIGHT_IN_TEXT = 237
RIGHT_IN_GRAPH = 228
# Real text, a sentence a line, of which five are joined.
NEWS = [f"newstest/newstest{year}" for year in range(2009, 2014)]
KNOWN = strategies.characters(exclude_categories=("Cn", "Cs"))
MARK_AT_END = re.compile("[.!?\u2026][\"'\u201d\u201c\u00bb\u00ab)]*$")


class Line(NamedTuple):
    """A row of the table."""

    language: str
    kind: str
    terms: tuple[str, ...]
    line: str
    sentences: list[str]


@pytest.fixture(scope="module")
def lines(repository):
    rows = read_table(repository / "tests" / "documents" / "hard_sentences.tsv")
    return [line_of(*row) for row in rows]


def glossary_of(terms):
    return Glossary(Term(term, None) for term in terms)


def line_of(language, kind, terms, marked):
    sentences = marked.rpartition("⊢")[2].split("‖")
    return Line(
        language,
        kind,
        tuple(filter(None, terms.split("|"))),
        marked.replace("⊢", "").replace("‖", ""),
        [sentence.strip() for sentence in sentences],
    )


def wrong_lines(lines, found):
    """Return what to show of each line whose sentences are not the marked ones."""
    return [
        f"{line.language} {line.kind}: {' ‖ '.join(sentences)}"
        for line, sentences in zip(lines, found, strict=True)
        if sentences != line.sentences
    ]


def sentences_in_graph(lines):
    """Return the sentences of each line; all lines have the same language."""
    pieces = graph_text.segment(
        tf.constant([line.line for line in lines]), lines[0].language
    )
    found = [[] for _ in lines]
    for piece, row, is_sentence in zip(*(part.numpy() for part in pieces), strict=True):
        if is_sentence:
            found[row].append(piece.decode())
    return found


def test_the_table_has_many_lines_of_many_languages(lines):
    assert len(lines) >= 120
    assert len({line.line for line in lines}) == len(lines)
    assert len({line.language for line in lines}) >= 12
    with_border = sum(len(line.sentences) > 1 for line in lines)
    assert 0.5 < with_border / len(lines) < 0.7
    for line in lines:
        assert all(line.sentences) and line.kind
        assert all(term in line.line for term in line.terms)


def test_text_has_the_marked_sentences(lines):
    found = [
        [
            *text.segment(
                line.line, line.language, terms=glossary_of(line.terms)
            ).sentences
        ]
        for line in lines
    ]
    check_right(wrong_lines(lines, found), len(lines), RIGHT_IN_TEXT)


def test_graph_has_the_marked_sentences(lines):
    """Lines with terms are left out, because a graph has no glossary."""
    lines = [line for line in lines if not line.terms]
    groups = itertools.groupby(lines, key=lambda line: line.language)
    found = [each for _, group in groups for each in sentences_in_graph([*group])]
    check_right(wrong_lines(lines, found), len(lines), RIGHT_IN_GRAPH)


@pytest.mark.parametrize("language", [None, "", "xx", "deu_Latn"])
def test_text_and_graph_have_the_same_sentences(lines, language):
    """In the language of a line, in none, and in another one."""
    if language is not None:
        lines = [line._replace(language=language) for line in lines]
    for _, group in itertools.groupby(lines, key=lambda line: line.language):
        same = [*group]
        assert sentences_in_graph(same) == [
            [*text.segment(line.line, line.language).sentences] for line in same
        ]


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
    strategies.text(KNOWN) | LAYOUT, strategies.sampled_from(("en", "de", "zh", ""))
)
def test_text_and_graph_have_the_same_sentences_of_any_text(given, language):
    """But for NUL, which a graph replaces, and letters that this Python lacks."""
    given = given.replace("\0", "")
    line = Line(language, "", (), given, [])
    expected = text.segment(given, language).sentences
    assert sentences_in_graph([line]) == [[*expected]]


@pytest.mark.parametrize("part", ["word ", "word, ", "\u72d7\uff0c", "a"])
def test_a_megabyte_without_a_full_stop_is_one_sentence(part):
    """In seconds: the rules read each word a few times, however long the text is."""
    given = part * (1_000_000 // len(part.encode()))
    assert text.segment(given, "en").sentences == (given.strip(),)
    assert sentences_in_graph([Line("en", "", (), given, [])]) == [[given.strip()]]


@pytest.mark.parametrize("language", ["en", "de"])
def test_lines_of_news_are_found_when_five_are_joined(shared_data, language):
    """At least 97 % of their ends; few others, as most lines are one sentence.

    Titles, which have no mark at their end, are left out.
    """
    news = [
        line for line in news_lines(shared_data, language) if MARK_AT_END.search(line)
    ]
    num_lines = num_found = num_others = 0
    for start in range(0, len(news), 5):
        joined = news[start : start + 5]
        lengths = itertools.accumulate(len(line) + 1 for line in joined)
        expected = {length - 1 for length in lengths}
        ends = {end for _, end in text.sentence_spans(" ".join(joined), language)}
        num_lines += len(expected)
        num_found += len(expected & ends)
        num_others += len(ends - expected)
    assert num_lines > 12_000
    assert num_found >= 0.97 * num_lines
    assert num_others <= 0.05 * num_lines


@pytest.mark.parametrize("language", ["en", "de"])
def test_text_and_graph_have_the_same_sentences_of_news(shared_data, language):
    news = news_lines(shared_data, language)
    joined = [" ".join(news[start : start + 5]) for start in range(0, 1000, 5)]
    found = sentences_in_graph([Line(language, "", (), each, []) for each in joined])
    assert found == [[*text.segment(each, language).sentences] for each in joined]


def news_lines(shared_data, language):
    """Return the lines of files of news, without their outer spaces and empty ones."""
    lines = []
    for name in NEWS:
        path = shared_data / f"{name}.{language}"
        if not path.is_file():
            pytest.skip(f"no real text: {path.name} is absent")
        lines += path.read_text(encoding="utf-8").split("\n")
    return [" ".join(line.split()) for line in lines if line.strip()]
