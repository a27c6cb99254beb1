"""The sentences of hard lines, in text and in a graph, as marked by hand."""

import itertools
from typing import NamedTuple

import pytest
import tensorflow as tf

from keras_transformer.documents import graph_text, text
from tests.documents.marked_texts import check_right, read_table

# Number of lines that are right. The goal is 98 %: raise these when more are right.
RIGHT_IN_TEXT = 148
RIGHT_IN_GRAPH = 137


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
    """Lines with terms count, although `text.segment` takes no terms yet."""
    found = [[*text.segment(line.line, line.language).sentences] for line in lines]
    check_right(wrong_lines(lines, found), len(lines), RIGHT_IN_TEXT)


def test_graph_has_the_marked_sentences(lines):
    """Lines with terms are left out, because a graph has no glossary."""
    lines = [line for line in lines if not line.terms]
    groups = itertools.groupby(lines, key=lambda line: line.language)
    found = [each for _, group in groups for each in sentences_in_graph([*group])]
    check_right(wrong_lines(lines, found), len(lines), RIGHT_IN_GRAPH)
