"""Label smoothing (§5.4) against hand-worked numbers and dense labels."""

import math

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training.losses import (
    LabelSmoothedCrossEntropy,
    smoothing_entropy,
)


def dense(labels, logits, epsilon):
    """The definition: 1 - epsilon on the label, epsilon / (V - 1) elsewhere."""
    vocab_size = logits.shape[-1]
    wanted = np.full(logits.shape, epsilon / (vocab_size - 1))
    np.put_along_axis(wanted, labels[..., None], 1 - epsilon, -1)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    entropy = -(wanted * np.log(np.where(wanted > 0, wanted, 1))).sum(-1)
    return -(wanted * log_probs).sum(-1) - entropy, wanted


def data():
    draw = np.random.default_rng(2)
    logits = draw.normal(size=(3, 5, 13)).astype("float32")
    return draw.integers(0, 13, (3, 5)).astype("int32"), logits


def test_three_words_by_hand():
    """Even logits over 3 words: log 3 for the label, less the entropy of (.8, .1, .1).

    0.8 log 0.8 + 2 * 0.1 log 0.1 = -0.6390; log 3 = 1.0986; the difference is 0.4596.
    """
    loss, nll, _ = LabelSmoothedCrossEntropy(0.2).token_losses(
        tf.constant([[1]]), tf.zeros((1, 1, 3))
    )
    np.testing.assert_allclose(loss, [[0.4596]], atol=1e-4)
    np.testing.assert_allclose(nll, [[math.log(3)]], rtol=1e-6)
    assert abs(smoothing_entropy(0.2, 3) - 0.6390) < 1e-4


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
def test_loss_and_gradient_equal_those_of_dense_labels(epsilon, jit_compile):
    labels, logits = data()
    expected, wanted = dense(labels, logits, epsilon)
    weights = np.arange(15, dtype="float32").reshape(3, 5)
    loss_object = LabelSmoothedCrossEntropy(epsilon)

    @tf.function(jit_compile=jit_compile)
    def run(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss, nll, is_right = loss_object.token_losses(tf.constant(labels), logits)
            total = tf.reduce_sum(loss * weights)
        return loss, nll, is_right, tape.gradient(total, logits)

    loss, nll, is_right, gradient = run(tf.constant(logits))
    np.testing.assert_allclose(loss, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(nll, dense(labels, logits, 0.0)[0], rtol=1e-5)
    np.testing.assert_array_equal(is_right, labels == logits.argmax(-1))
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(
        gradient, (probs - wanted) * weights[..., None], atol=1e-5
    )


def test_labels_of_int64_have_the_same_gradient():
    labels, logits = data()
    loss, logits = LabelSmoothedCrossEntropy(0.1), tf.constant(logits)
    gradients = []
    for dtype in ("int32", "int64"):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = loss.call(labels.astype(dtype), logits)
        gradients.append(tape.gradient(losses, logits))
    np.testing.assert_array_equal(*gradients)


def test_a_perfect_model_has_loss_zero():
    labels, logits = data()
    _, wanted = dense(labels, logits, 0.1)
    loss, *_ = LabelSmoothedCrossEntropy(0.1).token_losses(
        tf.constant(labels), tf.constant(np.log(wanted), tf.float32)
    )
    np.testing.assert_allclose(loss, np.zeros((3, 5)), atol=1e-5)


def test_smoothing_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"`label_smoothing` must be in \[0, 1\)"):
        LabelSmoothedCrossEntropy(1.0)
