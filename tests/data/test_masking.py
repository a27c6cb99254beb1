"""Placeholders in training pairs."""

import collections
import re

import numpy as np
import pytest

from keras_transformer.config import PairEncoding
from keras_transformer.data import masking
from keras_transformer.documents.protection import Glossary, Term

ALWAYS = PairEncoding(placeholders=8, placeholder_rate=0.999999)
SOURCE = "See http://a.org/b?c=1, Anna: 3.5 (iPhone) and and in 7 7."
TARGET = "Anna, siehe \u201ehttp://a.org/b?c=1\u201c: iPhone in 3.5, 7 und and."


def draw(seed=0):
    return np.random.default_rng(seed)


def test_numbers_names_and_addresses_of_both_texts_become_placeholders():
    source, target = masking.PairMasking(ALWAYS).mask(SOURCE, TARGET, draw())
    symbols = re.findall("<ph[1-8]>", source)
    assert len(set(symbols)) == len(symbols) == 4
    assert sorted(symbols) == sorted(re.findall("<ph[1-8]>", target))
    bare = [re.sub("</?p[ch][0-9]>", "_", text) for text in (source, target)]
    tagged = [re.sub("_+", "_", text) for text in bare]
    assert tagged == [
        "See _, _: _ (_) and and in 7 7.",
        "_, siehe \u201e_\u201c: _ in _, 7 und and.",
    ]
    # Two pairs of tags, each around the same placeholder in both texts.
    pairs = [
        sorted(re.findall(r"<pc(\d)>(.*?)</pc\1>", side)) for side in (source, target)
    ]
    assert len(pairs[0]) == 2
    assert pairs[0] == pairs[1]


def test_the_same_seed_draws_the_same_placeholders():
    mask = masking.PairMasking(ALWAYS).mask
    found = {mask(SOURCE, TARGET, draw(seed)) for seed in range(20)}
    assert len(found) > 10
    again = {mask(SOURCE, TARGET, draw(seed)) for seed in range(20)}
    assert again == found


def test_the_rate_says_how_many_spans_are_replaced():
    encoding = PairEncoding(placeholders=4, placeholder_rate=0.25)
    random, counts = draw(), collections.Counter()
    for _ in range(2000):
        masked, _ = masking.PairMasking(encoding).mask("Anna 1", "1 Anna", random)
        counts["ph"] += masked.count("<ph")
        counts["pc"] += masked.count("<pc")
    assert counts["ph"] == pytest.approx(1000, abs=120)
    # There is one pair of tags, for one of the two spans.
    assert counts["pc"] == pytest.approx(2000 * (1 - 0.75**2), abs=120)


@pytest.mark.parametrize(
    "texts", [("", ""), ("a b", "a b"), ("Ein <B1>", "Zwei <B1> </B2>")]
)
def test_words_in_small_letters_stay(texts):
    assert masking.PairMasking(ALWAYS).mask(*texts, draw()) == texts


def test_more_spans_than_placeholders_stay():
    text = " ".join(map(str, range(20)))
    source, target = masking.PairMasking(ALWAYS).mask(text, text, draw())
    assert source == target
    assert len(re.findall("<ph", source)) == 8
    assert len(re.findall("<pc", source)) == 2


def test_terms_become_placeholders_where_the_target_has_their_translation():
    glossary = Glossary(
        [
            Term("dog", "Hund"),
            Term("hot dog", "Hotdog"),
            Term("US", "USA", is_exact=True),
            Term("Acme", None),
            Term("cat", "Katze"),
        ]
    )
    mask = masking.PairMasking(ALWAYS, glossary).mask

    def without_numbers(source, target):
        pair = mask(source, target, draw())
        return tuple(
            re.sub(r"</?pc\d>", "", re.sub(r"ph\d", "ph", side)) for side in pair
        )

    assert without_numbers("A Dog eats a hot dog.", "Ein Hund isst ein Hotdog.") == (
        "A <ph> eats a <ph>.",
        "Ein <ph> isst ein <ph>.",
    )
    # Not "us", another inflection, a part of a word, a term that occurs twice.
    for texts in (
        ("it helps us", "es hilft USA"),
        ("a dog", "des Hundes"),
        ("a dogma", "ein Hund"),
        ("a dog and a dog", "ein Hund"),
    ):
        assert mask(*texts, draw()) == texts
    assert without_numbers("the US, ACME", "die USA, ACME") == (
        "the <ph>, <ph>",
        "die <ph>, <ph>",
    )


def test_a_tag_leaves_the_words_of_both_texts_as_they_are():
    glossary = Glossary([Term("dog", "Hund")])
    encoding = PairEncoding(placeholders=4, placeholder_rate=0.5)
    masking_of_pairs = masking.PairMasking(encoding, glossary)
    found = {masking_of_pairs.mask("a dog", "ein Hund", draw(n)) for n in range(200)}
    assert ("a <pc1>dog</pc1>", "ein <pc1>Hund</pc1>") in found


@pytest.mark.parametrize(
    ("source", "target", "masked"),
    [
        ("我有3只狗，用GPT。", "I have 3 dogs.", "我有_只狗，用GPT。"),
        ("1 250 000 people", "1 250 000 Leute", "_ people"),
        ("+49 30 1234567 or 5km", "5km, +49 30 1234567", "_ or _"),
        # A word with combining marks is in small letters.
        ("हिन्दी है", "हिन्दी छ", "हिन्दी है"),
    ],
)
def test_spans_are_those_that_are_protected(source, target, masked):
    """Before, nothing was found in Chinese, and a number was three spans."""
    found, _ = masking.PairMasking(ALWAYS).mask(source, target, draw())
    found = re.sub("</?pc[0-9]>", "", found)
    assert re.sub("<ph[0-9]>", "_", found) == masked


def test_terms_of_scripts_without_spaces_become_placeholders():
    glossary = Glossary([Term("狗", "dog"), Term("कम", "less")])
    mask = masking.PairMasking(ALWAYS, glossary).mask
    for pair, count in (
        (("我的狗很老", "my dog is old"), 1),
        (("कमी है", "less"), 0),
    ):
        assert [text.count("<ph") for text in mask(*pair, draw())] == [count, count]


def test_markers_before_texts_stay():
    """Before, terms and names in `>>DE<<` and `<News>` became placeholders."""
    glossary = Glossary([Term("de", "de"), Term("news", "news")])
    mask = masking.PairMasking(ALWAYS, glossary).mask
    markers = (">>de<<", "<news>", ">>DE<<")
    for prefix in (">>de<< <news> ", ">>DE<< "):
        source, target = mask(f"{prefix}A 5", "de news DE A 5", draw(), markers)
        assert source.startswith(prefix)
        assert source.count("<ph") == target.count("<ph") == 2
