"""Rows in groups of about one length: which, and that their answers come back."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference import full_pass
from keras_transformer.inference.length_groups import first_group, in_groups
from tests.small_models import make_parser, make_translator


@pytest.mark.parametrize(
    ("lengths", "wanted"),
    [
        ([400] + [20] * 31, 1),
        # Two groups of 9 * 100 + 31 * 20 positions for 40 * 100.
        ([100] * 9 + [20] * 31, 9),
        # The first of three groups: 1,000 + 31 * 100 positions for 32,000.
        ([1000] + [100] * 11 + [20] * 20, 1),
        ([20] * 32, 32),
        ([400], 1),
        # Apart 400 + 20 positions for 800: too few are saved for steps of their own.
        ([400, 20], 2),
        # Apart 16 * 3,000 + 16 * 2,000 for 32 * 3,000: less than half is saved.
        ([3000] * 16 + [2000] * 16, 32),
    ],
)
def test_long_rows_go_first_where_padding_others_costs_more(lengths, wanted):
    assert int(first_group(tf.constant(lengths))) == wanted


def test_each_group_is_as_wide_as_its_longest_and_answers_keep_their_places():
    lengths = tf.constant([3, 3, 50, 3, 1000] * 13)
    groups = []

    def answer(rows, width):
        groups.append((len(rows), int(width)))
        # As a search answers: only as wide as the group needs.
        return rows, tf.tile(rows[:, tf.newaxis], [1, int(width) // 50])

    found = (tf.zeros([65], tf.int32), tf.fill([65, 20], -7))
    numbers, wide = in_groups(lengths, tf.range(65), answer, found)
    assert groups == [(13, 1000), (13, 50), (39, 3)]
    np.testing.assert_array_equal(numbers, range(65))
    for row, length in enumerate(lengths.numpy()):
        count = length // 50
        assert wide[row].numpy().tolist() == [row] * count + [-7] * (20 - count)


def test_answers_may_be_empty():
    """As those of texts without words."""
    rows = tf.zeros([3, 5])
    ones = tf.ones([3], tf.int32)
    answers = in_groups(ones, rows, lambda rows, _: rows[:, :0], tf.zeros([3, 0]))
    assert answers.shape == [3, 0]


def test_no_rows_are_no_group():
    found = tf.zeros([0, 5])
    nobody = tf.zeros([0], tf.int32)
    assert in_groups(nobody, nobody, pytest.fail, found).shape == (0, 5)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("kind", ["translator", "parser"])
def test_one_long_text_pads_no_short_ones(kind, monkeypatch):
    """Keys and values of a source, which every step attends to, are as wide."""
    if kind == "translator":
        searcher = make_translator(beam_size=2)
        answer = searcher.translate_batch
    else:
        searcher = make_parser(beam_size=2)
        answer = searcher.parse_batch
    encoded, start = [], full_pass.start

    def recorded(model, tokens):
        shape = tf.shape(tokens)
        tf.numpy_function(lambda sizes: encoded.append(sizes.tolist()), [shape], [])
        return start(model, tokens)

    monkeypatch.setattr(full_pass, "start", recorded)
    short, long = ["one", "A"] * 31, ["2 , 3 , 5 , 7 " * 9]
    texts = [*short[:30], *long, *short[30:]]
    mixed = answer(tf.constant(texts))
    assert encoded == [[1, 23], [62, 5]]
    encoded.clear()
    apart = [answer(tf.constant(group)) for group in (short[:30], long, short[30:])]
    assert encoded == [[30, 5], [1, 23], [32, 5]]
    for name, values in mixed.items():
        wanted = np.concatenate([part[name] for part in apart])
        if values.dtype.is_floating:
            np.testing.assert_allclose(values, wanted, atol=1e-5)
        else:
            np.testing.assert_array_equal(values, wanted)


def test_padding_within_a_row_is_kept():
    """A row is only cut where nothing but padding follows."""
    translator = make_translator()
    pad = translator.model.config.pad_id
    tokens = tf.constant([[5, pad, 6, pad, pad], [pad] * 5])
    assert translator.widths(tokens).numpy().tolist() == [3, 1]
