"""The length penalty, the token probabilities and the two-stage top-k."""

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


def test_extended_log_probs_add_the_log_softmax_of_the_chosen_tokens():
    """p = (0.2, 0.3, 0.5), its logits moved by 11; after a hypothesis of p = 0.7."""
    logits = tf.constant(np.log([[[0.2, 0.3, 0.5]]]) + 11.0, tf.float32)
    chosen = tf.gather(logits, [2, 0], axis=-1)
    extended = scoring.extended_log_probs(
        tf.math.log([[0.7]]), chosen, logits, tf.constant([[2]])
    )
    np.testing.assert_allclose(np.exp(extended), [[[0.35, 0.14]]], rtol=1e-5)


@pytest.mark.parametrize(
    "row",
    [
        [math.nan, 0.0, 1.0],
        [math.inf, 0.0, 1.0],
        [-math.inf, -math.inf, -math.inf],
    ],
)
def test_logits_that_are_no_distribution_make_every_token_impossible(row):
    logits = tf.constant([[row, [0.0, 0.0, -math.inf]]])
    extended = scoring.extended_log_probs(
        tf.zeros([1, 2]), logits, logits, tf.argmax(logits, axis=-1)
    )
    np.testing.assert_array_equal(extended[0, 0], [NEGATIVE_INFINITY] * 3)
    half = math.log(0.5)
    np.testing.assert_allclose(extended[0, 1], [half, half, NEGATIVE_INFINITY])


@given(
    st.integers(1, 700), st.integers(1, 11), st.integers(1, 500), st.integers(0, 2**20)
)
@settings(max_examples=60, deadline=None)
def test_top_tokens_equal_a_plain_top_k_with_ties(vocab_size, count, levels, seed):
    """Few levels make many ties; the lower id must come first in both."""
    rng = np.random.default_rng(seed)
    logits = rng.integers(0, levels, size=(2, 3, vocab_size)).astype(np.float32)
    logits[rng.random(logits.shape) < 0.1] = -np.inf
    count = min(count, vocab_size)
    order = np.argsort(-logits, axis=-1, kind="stable")[..., :count]
    values, ids = scoring.top_tokens(tf.constant(logits), count)
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(values, np.take_along_axis(logits, order, axis=-1))


def test_top_tokens_never_return_the_filler_of_the_last_block():
    """331 words fill six blocks of 64 but for 53, and only two are possible."""
    logits = np.full((1, 1, 331), -np.inf, np.float32)
    logits[0, 0, [17, 330]] = -2.0, -1.0
    _, ids = scoring.top_tokens(tf.constant(logits), 2)
    np.testing.assert_array_equal(ids[0, 0], [330, 17])
