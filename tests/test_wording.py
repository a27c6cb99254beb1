"""Counts and durations as people write them."""

import pytest

from keras_transformer import wording


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps")]
)
def test_one_is_no_plural(number, said):
    assert wording.count(number, "step") == said


def test_counts_have_commas():
    assert wording.count(12_345, "pair") == "12,345 pairs"
    assert wording.count(12_345, "batch", "batches") == "12,345 batches"
    assert wording.count(1, "batch", "batches") == "1 batch"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.7, "1 min 0 s"),
        (130, "2 min 10 s"),
        (3599, "59 min 59 s"),
        (3599.8, "1 h 0 min"),
        (11_129, "3 h 5 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_durations_have_two_units(seconds, said):
    assert wording.duration(seconds) == said
