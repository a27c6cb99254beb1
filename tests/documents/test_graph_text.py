"""Sentences found in a graph, as marked by hand, and put back where they were."""

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from keras_transformer.documents import graph_text
from tests.documents.marked_texts import (
    SIGNS,
    check_ends,
    english_texts,
    long_sentence,
)
from tests.documents.test_text import LAYOUT


def segment(*texts, language="en"):
    return graph_text.segment(tf.constant(texts, tf.string), language)


def sentences(pieces):
    return [sentence.decode() for sentence in pieces.sentences().numpy()]


def ends_found(pieces, row):
    position, ends = 0, []
    for text, its_row, is_sentence in zip(
        *(part.numpy() for part in pieces), strict=True
    ):
        position += len(text.decode()) if its_row == row else 0
        if is_sentence and its_row == row:
            ends.append(position)
    return ends


def is_longer_than(limit):
    return lambda texts: tf.strings.length(texts, unit="UTF8_CHAR") > limit


def test_sentences_of_twenty_texts_are_found_as_marked_by_hand(repository):
    """At least 98 % of them, and at most 2 % that are none."""
    texts = english_texts(repository)
    pieces = segment(*(text for text, _ in texts))
    check_ends(texts, [ends_found(pieces, row) for row in range(len(texts))])


def test_layout_stays_and_words_are_translated():
    given = "> * Dr. Ward left.  He ran!\r\n\r\n\t1. Yes\u00a0\n---\n 42 \nEnd"
    pieces = segment("", given, " \n", "Go")
    assert sentences(pieces) == ["Dr. Ward left.", "He ran!", "Yes", "End", "Go"]
    translations = tf.constant(["A", "B", "C\nD", "", "E"])
    joined = graph_text.join(pieces, translations, 4)
    assert [text.decode() for text in joined.numpy()] == [
        "",
        "> * A  B\r\n\r\n\t1. C D\u00a0\n---\n 42 \n",
        " \n",
        "E",
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        *SIGNS,
        (">one", "one"),
        ("a -> b", "a -> b"),
        (">>de<< one", ">>de<< one"),
    ],
)
def test_signs_at_the_beginning_of_a_line_are_not_translated(line, sentence):
    assert sentences(segment(line)) == [sentence]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He saw Dr. J. R. Smith. She did not.", 2),
        ("It was built in the U.S. Army camp. It is in the U.S. The end.", 3),
        ("See Fig. 3. No. Not No. 7.", 3),
        ("At 7 p.m. we left. We met at 9 p.m. He came.", 3),
        ('"Are you coming?" asked Tom. "No."', 2),
        ("Use Node.Js 2.3 here... and go. (Or not.) \u00bfQu\u00e9? S\u00ed.", 4),
        ("\u4f60\u597d\u3002\u4e16\u754c\u5f88\u5927\uff01", 2),
    ],
)
def test_stops_end_a_sentence_or_an_abbreviation(text, expected):
    found = sentences(segment(text))
    assert len(found) == expected, found


def test_languages_have_their_own_ordinal_numbers():
    given = "Das ist z. B. Dr. Maier am 3. Termin. Er ging."
    assert len(sentences(segment(given, language="de_DE"))) == 2
    assert len(sentences(segment(given, language=""))) == 3


def test_a_space_is_added_where_the_script_of_the_source_has_none():
    pieces = segment("\u4f60\u597d\u3002\u4e16\u754c\uff01")
    joined = graph_text.join(pieces, tf.constant(["Hello.", "World!"]), 1)
    assert joined.numpy() == [b"Hello. World!"]
    assert graph_text.join(pieces, tf.constant(["\u597d", ""]), 1).numpy() == [
        "\u597d".encode()
    ]


@pytest.fixture(scope="module")
def there_and_back():
    """A function that divides texts at a limit and puts their own parts back."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string),
            tf.TensorSpec([], tf.int32),
        ]
    )
    def run(texts, limit):
        pieces, is_cut = graph_text.divide_long(
            graph_text.segment(texts, "en"), is_longer_than(limit)
        )
        found = pieces.sentences()
        return graph_text.join(pieces, found, tf.size(texts)), found, is_cut

    return run


@pytest.mark.long
@hypothesis.settings(deadline=None, max_examples=200)
@hypothesis.given(
    strategies.lists(strategies.text() | LAYOUT, max_size=3), strategies.integers(1, 9)
)
def test_sentences_put_back_give_the_texts(there_and_back, texts, limit):
    # NumPy's own strings lose NUL at the end.
    given = np.array([text.encode() for text in texts], object)
    back, found, is_cut = there_and_back(tf.constant(given, tf.string), limit)
    # A space between Chinese sentences whose "translations" are not.
    spaceless = [text.decode().replace(" ", "") for text in back.numpy()]
    texts = [text.replace("\0", "\ufffd").replace(" ", "") for text in texts]
    assert spaceless == texts
    for sentence in found.numpy():
        assert 1 <= len(sentence.decode()) <= limit
        assert len(sentence.splitlines()) == 1
    assert not any(is_cut)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a, b c d e f g h", ["a, b c d", "e f g h"]),
        ("aa bb, cc dd; ee", ["aa bb,", "cc dd; ee"]),
        ("costs 1,000,000 now", ["costs", "1,000,000 now"]),
        ("abcdefghijklmnopqrs", ["abcdefghi", "jklmnopqrs"]),
        (
            "\u4f60" * 5 + "\uff0c" + "\u597d" * 8,
            ["\u4f60" * 5 + "\uff0c", "\u597d" * 8],
        ),
    ],
)
def test_sentences_are_divided_at_clauses_then_words_then_letters(given, expected):
    pieces, _ = graph_text.divide_long(segment(given), is_longer_than(13))
    assert sentences(pieces) == expected


def test_a_sentence_of_900_words_is_divided_at_its_clauses():
    pieces, is_cut = graph_text.divide_long(
        segment(long_sentence()), is_longer_than(160)
    )
    parts = sentences(pieces)
    assert all(len(part) <= 160 for part in parts)
    assert sum(part.endswith(",") for part in parts) > 25
    assert " ".join(parts) == long_sentence()
    assert not any(is_cut)


def test_a_character_that_is_too_long_is_told():
    pieces, is_cut = graph_text.divide_long(segment("ab c"), is_longer_than(0))
    assert sentences(pieces) == ["a", "b", "c"]
    assert is_cut.numpy().tolist() == pieces.is_sentence.numpy().tolist()


def test_invalid_bytes_become_replacement_characters():
    assert sentences(segment(b"a\xff b.")) == ["a\ufffd b."]
