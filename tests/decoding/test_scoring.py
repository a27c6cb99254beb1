"""The length penalty, the token probabilities and the best continuations."""

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding import NEGATIVE_INFINITY, length_penalty, scoring


def test_length_penalty_is_that_of_gnmt():
    """((5 + length) / 6) ** alpha: 1 at length 1; 2 ** alpha at 7; 4 ** alpha at 19."""
    penalties = length_penalty(tf.constant([1, 7, 19]), 0.6)
    np.testing.assert_allclose(penalties, [1.0, 1.5157166, 2.2973967], rtol=1e-6)
    assert penalties.dtype == tf.float32


def test_power_is_the_length_penalty_of_marian():
    penalties = length_penalty(tf.constant([1, 4, 9]), 0.5, "power")
    np.testing.assert_allclose(penalties, [1.0, 2.0, 3.0], rtol=1e-6)


def test_alpha_zero_switches_the_length_penalty_off():
    np.testing.assert_array_equal(length_penalty(tf.constant([1, 7, 113]), 0.0), 1.0)


def test_scores_divide_by_the_penalty_and_leave_the_impossible_alone():
    log_probs = tf.constant([-3.0, NEGATIVE_INFINITY, math.nan])
    config = DecodingConfig(length_penalty_alpha=1.0)
    scores = scoring.normalized_scores(log_probs, tf.constant([7, 7, 7]), config)
    np.testing.assert_array_equal(scores, [-1.5, NEGATIVE_INFINITY, NEGATIVE_INFINITY])


def continuations(log_probs, logits, count):
    logits = tf.constant(logits, tf.float32)
    before = log_probs - scoring.log_totals(logits)
    return [part.numpy() for part in scoring.top_continuations(before, logits, count)]


def test_continuations_add_the_log_softmax_of_their_token():
    """p = (0.2, 0.3, 0.5), its logits moved by 11; after a hypothesis of p = 0.7."""
    logits = np.log([[[0.2, 0.3, 0.5]]]) + 11.0
    log_probs, _, tokens = continuations(np.log([[0.7]], dtype=np.float32), logits, 3)
    np.testing.assert_allclose(np.exp(log_probs), [[0.35, 0.21, 0.14]], rtol=1e-5)
    np.testing.assert_array_equal(tokens, [[2, 1, 0]])


@pytest.mark.parametrize(
    "row",
    [
        [math.nan, 0.0, 1.0],
        [math.inf, 0.0, 1.0],
        [-math.inf, -math.inf, -math.inf],
    ],
)
def test_logits_that_are_no_distribution_make_every_token_impossible(row):
    logits = [[row, [0.0, 0.0, -math.inf]]]
    log_probs, slots, _ = continuations(np.zeros([1, 2], np.float32), logits, 6)
    half = math.log(0.5)
    np.testing.assert_allclose(log_probs[0, :2], [half, half], rtol=1e-6)
    np.testing.assert_array_equal(slots[0, :2], [1, 1])
    np.testing.assert_array_equal(log_probs[0, 2:], [NEGATIVE_INFINITY] * 4)


@given(
    st.integers(1, 700), st.integers(1, 100), st.integers(1, 500), st.integers(0, 2**20)
)
@settings(max_examples=60, deadline=None)
def test_top_continuations_equal_a_plain_top_k_with_ties(
    vocab_size, count, levels, seed
):
    """Few levels make many ties; the first slot and then the lower id must win."""
    rng = np.random.default_rng(seed)
    choices = rng.integers(0, levels, size=(2, 3, vocab_size)).astype(np.float32)
    choices[rng.random(choices.shape) < 0.1] = -np.inf
    count = min(count, 3 * vocab_size)
    before = -rng.integers(0, 3, size=(2, 3)).astype(np.float32)
    scores = (choices + before[:, :, np.newaxis]).reshape(2, -1)
    scores = np.maximum(scores, np.float32(NEGATIVE_INFINITY))
    order = np.argsort(-scores, axis=-1, kind="stable")[:, :count]

    log_probs, slots, tokens = scoring.top_continuations(
        tf.constant(before), tf.constant(choices), count
    )

    wanted = np.take_along_axis(scores, order, axis=-1)
    np.testing.assert_array_equal(log_probs, wanted)
    is_real = wanted > NEGATIVE_INFINITY
    place = slots.numpy() * vocab_size + tokens.numpy()
    np.testing.assert_array_equal(place[is_real], order[is_real])
    assert (tokens.numpy() < vocab_size).all()


def test_what_fills_the_last_block_is_never_a_token():
    """331 words fill six blocks of 64 but for 53, and only two are possible."""
    logits = np.full((1, 1, 331), -np.inf, np.float32)
    logits[0, 0, [17, 330]] = -2.0, -1.0
    log_probs, _, tokens = continuations(np.zeros([1, 1], np.float32), logits, 4)
    np.testing.assert_array_equal(tokens[0, :2], [330, 17])
    np.testing.assert_array_equal(log_probs[0, 2:], NEGATIVE_INFINITY)
    assert tokens.max() == 330


def test_fewer_continuations_than_asked_for_leave_impossible_ones():
    logits = [[[0.0, -math.inf, 0.0]]]
    log_probs, slots, tokens = continuations(np.zeros([1, 1], np.float32), logits, 5)
    np.testing.assert_allclose(log_probs[0, :2], [math.log(0.5)] * 2, rtol=1e-6)
    np.testing.assert_array_equal(log_probs[0, 2:], [NEGATIVE_INFINITY] * 3)
    np.testing.assert_array_equal(tokens[0, :2], [0, 2])
    np.testing.assert_array_equal(slots, [[0] * 5])
