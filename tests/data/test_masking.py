"""Placeholders in training pairs."""

import collections
import re

import numpy as np
import pytest

from keras_transformer.config import PairEncoding
from keras_transformer.data import masking

ALWAYS = PairEncoding(placeholders=8, placeholder_rate=0.999999)
SOURCE = "See http://a.org/b?c=1, Anna: 3.5 (iPhone) and and in 7 7."
TARGET = "Anna, siehe \u201ehttp://a.org/b?c=1\u201c: iPhone in 3.5, 7 und and."


def draw(seed=0):
    return np.random.default_rng(seed)


def test_numbers_names_and_addresses_of_both_texts_become_placeholders():
    source, target = masking.mask(SOURCE, TARGET, ALWAYS, draw())
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
    found = {masking.mask(SOURCE, TARGET, ALWAYS, draw(seed)) for seed in range(20)}
    assert len(found) > 10
    again = {masking.mask(SOURCE, TARGET, ALWAYS, draw(seed)) for seed in range(20)}
    assert again == found


def test_the_rate_says_how_many_spans_are_replaced():
    encoding = PairEncoding(placeholders=4, placeholder_rate=0.25)
    random, counts = draw(), collections.Counter()
    for _ in range(2000):
        masked, _ = masking.mask("Anna 1", "1 Anna", encoding, random)
        counts["ph"] += masked.count("<ph")
        counts["pc"] += masked.count("<pc")
    assert counts["ph"] == pytest.approx(1000, abs=120)
    # There is one pair of tags, for one of the two spans.
    assert counts["pc"] == pytest.approx(2000 * (1 - 0.75**2), abs=120)


@pytest.mark.parametrize(
    "texts", [("", ""), ("a b", "a b"), ("Ein <B1>", "Zwei <B1> </B2>")]
)
def test_words_in_small_letters_stay(texts):
    assert masking.mask(*texts, ALWAYS, draw()) == texts


def test_more_spans_than_placeholders_stay():
    text = " ".join(map(str, range(20)))
    source, target = masking.mask(text, text, ALWAYS, draw())
    assert source == target
    assert len(re.findall("<ph", source)) == 8
    assert len(re.findall("<pc", source)) == 2
