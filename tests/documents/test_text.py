"""Sentences of plain text, found as marked by hand, and put back where they were."""

import re
import time

import hypothesis
import pytest
from hypothesis import strategies

from keras_transformer.documents import text
from keras_transformer.spans import Glossary, Term
from tests.documents.marked_texts import (
    SIGNS,
    check_ends,
    english_texts,
    long_sentence,
)

# What layouts are made of, more often than any text would have it.
LAYOUT = strategies.text(
    alphabet='ab .!?,\n\r\t\v\f\x1c\x85\u2028\u00a0\u200b\ufeff\u0301。“”"(1)-*>#🙂'
)


def ends_found(document):
    position, ends = 0, []
    for around, sentence in zip(document.around, document.texts(), strict=False):
        position += len(around) + len(sentence)
        ends.append(position)
    return ends


def test_sentences_of_twenty_texts_are_found_as_marked_by_hand(repository):
    """At least 98 % of them, and at most 2 % that are none."""
    texts = english_texts(repository)
    check_ends(texts, [ends_found(text.segment(each, "en")) for each, _ in texts])


def test_layout_stays_and_words_are_translated():
    given = "> * Dr. Ward left.  He ran!\r\n\r\n\t1. Yes\u00a0\n---\n 42 \nEnd"
    document = text.segment(given, "en")
    assert document.texts() == ("Dr. Ward left.", "He ran!", "Yes", "End")
    assert document.join(["A", "B", "C\nD", ""]) == (
        "> * A  B\r\n\r\n\t1. C D\u00a0\n---\n 42 \n"
    )


@pytest.mark.parametrize(("line", "sentence"), SIGNS)
def test_signs_at_the_beginning_of_a_line_are_not_translated(line, sentence):
    assert text.segment(line, "en").texts() == (sentence,)


@hypothesis.settings(deadline=None, max_examples=300)
@hypothesis.given(
    strategies.text() | LAYOUT | strategies.text(alphabet="\ud83d\ude00 a."),
    strategies.sampled_from(("en", "de", "zh_CN", "")),
    strategies.none() | strategies.integers(1, 3),
)
def test_sentences_put_back_give_the_text(given, language, max_tokens):
    document = text.segment(given, language, max_tokens)
    assert document.join(document.texts()) == given
    for sentence in document.texts():
        assert sentence == sentence.strip()
        assert len(sentence.splitlines()) == 1


@pytest.mark.parametrize(
    ("language", "count"),
    [("de-AT", 2), ("deu_Latn", 2), ("en", 3), ("", 3), ("xx", 3)],
)
def test_languages_have_their_own_rules(language, count):
    """An unknown one has the abbreviations of all, but no ordinal numbers."""
    given = "Das ist z.B. Dr. Maier am 3. Termin. Er ging."
    assert len(text.segment(given, language).texts()) == count


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ("We use Yahoo! Mail every day.", 1),
        ("We use Yahoo! It is old.", 2),
        ("We use Yahoo!", 1),
        ("We use Ask! Mail every day.", 2),
    ],
)
def test_a_term_of_a_glossary_does_not_end_a_sentence(given, count):
    """Unless the next word often begins one."""
    terms = Glossary([Term("Yahoo!", None)])
    assert len(text.segment(given, "en", terms=terms).texts()) == count
    assert len([*text.sentence_spans(given, "en", terms)]) == count


def test_words_with_a_stop_inside_are_not_divided():
    assert text.segment("Use Node.Js here.", "en").texts() == ("Use Node.Js here.",)


def test_a_space_is_added_where_the_script_of_the_source_has_none():
    document = text.segment("你好。世界很大！", "zh")
    assert document.texts() == ("你好。", "世界很大！")
    assert document.join(["Hello.", "The world is big!"]) == "Hello. The world is big!"


@hypothesis.given(strategies.text(min_size=2) | LAYOUT)
def test_a_division_is_the_text_in_two_parts(given):
    found = text.divide(given)
    if found is None:
        assert len(given) < 2 or "\u0301" in given or not given.isascii()
        return
    assert found.first + found.between + found.second == given
    assert found.first and found.second


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a, b c d e f g h", ("a, b c d", " ", "e f g h")),
        ("aa bb, cc dd; ee", ("aa bb,", " ", "cc dd; ee")),
        ("costs 1,000,000 now", ("costs", " ", "1,000,000 now")),
        ("你好，世界很大", ("你好，", "", "世界很大")),
        ("abcd", ("ab", "", "cd")),
        ("abe\u0301xy", ("ab", "", "e\u0301xy")),
        ("a", None),
        ("", None),
    ],
)
def test_sentences_are_divided_at_clauses_then_words_then_letters(given, expected):
    assert text.divide(given) == expected


@hypothesis.settings(deadline=None, max_examples=300)
@hypothesis.given(strategies.text(alphabet="ab ,<>\u2014\n") | LAYOUT)
def test_a_division_between_words_is_not_within_a_tag(given):
    """As looking ahead from the place would tell."""
    found = text.divide(given)
    if found and found.between:
        assert not re.match("[^<>]*>", found.second)


@pytest.mark.parametrize(
    "part",
    [
        *("ab ", "a, ", "<b>a</b> ", "狗，"),
        *(pytest.param(each, marks=pytest.mark.long) for each in ("<a ", "a> ", "! ")),
    ],
)
def test_the_time_grows_with_the_length(part):
    """Also of a long paragraph without ends of sentences."""
    given = "a" + part * (200_000 // len(part))
    began = time.process_time()
    document = text.segment(given, "en", 512)
    assert time.process_time() - began < 7
    assert document.texts()


def test_far_too_long_sentences_are_divided_at_once():
    """Into parts of at most 8 characters per token."""
    document = text.segment(long_sentence(), "en", max_tokens=20)
    assert all(len(part) <= 160 for part in document.texts())
    assert sum(part.endswith(",") for part in document.texts()) > 25
    assert document.join(document.texts()) == long_sentence()


def test_translations_must_be_as_many_as_sentences():
    document = text.segment("One. Two.", "en")
    with pytest.raises(ValueError, match=r"one item for each .* 1 for 2\."):
        document.join(["Eins."])
