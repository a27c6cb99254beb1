"""One definition of white space and of blank texts, in Python and in graphs."""

import sys
import unicodedata

import pytest
import tensorflow as tf

from keras_transformer import white_space
from keras_transformer.inference.clean_text import clean, num_words_before

# Of every code point: at the end of a text alone, and between letters.
CHARACTERS = [
    chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000
]
# Nothing to translate: white space, control and format, marks, private use.
BLANK = [
    *("", " ", "  ", "\t", "\r\n", "\x00", "\x1f", "\x85", "\u00a0", "\u1680"),
    *("\u2003", "\u2028", "\u2029", "\u200b", "\u200e\u200f", "\u2060", "\ufeff"),
    *("\u202a\u202c", "\u2067 \u2069"),
    *("\u3000", "\u3164", "\u2800", "\u00a0 \u200b\t", "\u200d", "\u200c", "\u0301"),
    *("\ufe0f", "\U000e0067", "\ue000", "\u00ad"),
]
# A letter, a number, a punctuation mark or a symbol of some script.
NOT_BLANK = [
    *("a", "Ж", "犬", "ก", "ـ", "5", "\u0665", "½", "Ⅷ", ".", "\u3002", "\u2014"),
    *("\u060c", "+", "\u20ac", "\U0001f600", "\u2764\ufe0f", "\ufffd", " \u00a0- "),
    "\U0001f3f4\U000e0067\U000e0062\U000e007f",
]
# At the end of a word, these belong to it.
KEPT = [
    "e\u0301",
    "\u0647\u200d",
    "\u0645\u06cc\u200c",
    "\u2764\ufe0f",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
]


def cleaned(texts, markers=()):
    found = clean(tf.constant(texts), markers).numpy()
    return [text.decode() for text in found]


@pytest.mark.parametrize("text", BLANK)
def test_texts_without_anything_to_translate_are_blank(text):
    assert white_space.is_blank(text)
    assert cleaned([text]) == [""]


@pytest.mark.parametrize("text", NOT_BLANK)
def test_texts_with_a_letter_number_mark_or_symbol_are_not(text):
    assert not white_space.is_blank(text)
    assert cleaned([text]) == [white_space.strip(text)] != [""]


@pytest.mark.parametrize("word", KEPT)
@pytest.mark.parametrize("space", ["", "\u00a0", " \ufeff\n"])
def test_joiners_and_tags_stay_at_the_end_of_their_word(word, space):
    assert white_space.strip(space + word + space) == word
    assert cleaned([space + word + space]) == [word]


def test_white_space_of_unicode_is_white_space_here():
    missing = {each for each in CHARACTERS if each.isspace()} - {*white_space.SPACES}
    assert missing == set()


@pytest.mark.parametrize("around", ["\u202a{}\u202c", "\u2066{}\u2069\n", "{}\u202e"])
def test_marks_of_direction_at_the_ends_are_no_text(around):
    text = around.format("A \u2067dog\u2069.")
    assert white_space.strip(text) == "A \u2067dog\u2069."
    assert cleaned([text]) == ["A \u2067dog\u2069."]


def test_graphs_strip_what_python_strips():
    texts = [f"{each}a{each}b{each}" for each in CHARACTERS]
    assert cleaned(texts) == [white_space.strip(text) for text in texts]


def test_graphs_and_python_agree_about_blank_texts():
    """But for marks that one of their versions of Unicode does not have."""
    found = cleaned(CHARACTERS)
    differing = [
        each
        for each, text in zip(CHARACTERS, found, strict=True)
        if (text == "") != white_space.is_blank(each)
    ]
    assert len(differing) < 100
    categories = {unicodedata.category(each)[0] for each in differing}
    assert categories <= {"C", "M"}
    assert all(each > "\u0c00" for each in differing)


def test_bytes_that_are_not_utf8_are_text():
    assert clean(tf.constant([b" \xff\t", b"\xed\xa0\x80"])).numpy().tolist() == [
        b"\xff",
        b"\xed\xa0\x80",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (">>de<< \u00a0A dog.\u200b", ">>de<< A dog."),
        ("\ufeff>>de<<\t<news>\u3000A dog.", ">>de<< <news> A dog."),
        (">>de<<A dog.", ">>de<<A dog."),
        ("A >>de<< \u00a0 dog.", "A >>de<< \u00a0 dog."),
        # A symbol that the vocabulary does not have.
        (">>fr<< \u00a0A dog.", ">>fr<< \u00a0A dog."),
        (">>de<<", ""),
        (" >>de<< \u00a0\n", ""),
        (">>de<< <news> \u200b", ""),
        ("<news> <news>", ""),
        (">>de<< \u0301", ""),
        (">>de<< .", ">>de<< ."),
    ],
)
def test_markers_before_a_text_are_no_part_of_it(text, found):
    assert cleaned([text], [">>de<<", "<news>"]) == [found]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("A dog.", 0),
        ("  A dog. ", 0),
        ("\u00a0A dog.\u200b", 0),
        ("\u00a0 A dog. \t", 1),
        ("\u3000 \t A dog.", 2),
        ("犬 \xff. \n", 0),
        (">>de<< A dog.", 0),
        (">>de<<\u00a0A dog.", -1),
        (" \n >>de<< \u200b A dog.", 2),
        ("\t >>de<<\u00a0<news> A dog.", 0),
        ("", 0),
    ],
)
def test_words_of_white_space_before_a_text_are_counted(text, number):
    given = tf.constant([text])
    cleaned = clean(given, [">>de<<", "<news>"])
    assert num_words_before(given, cleaned).numpy() == [number]
