"""Habits of losses."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_habits.models import VOCAB_SIZE, arrays


def sample():
    """Labels with padding, and logits of them."""
    labels = arrays()[1]
    logits = np.random.default_rng(3).normal(size=(*labels.shape, VOCAB_SIZE))
    return labels, logits.astype("float32")


@pytest.mark.parametrize("ignore_class", [None, 0])
@pytest.mark.parametrize("weights", [None, np.array([1, 0, 2, 1, 0.5, 1], "float32")])
def test_a_loss_called_by_itself_is_the_mean_that_keras_takes(ignore_class, weights):
    labels, logits = sample()
    ours = kt.LabelSmoothedCrossEntropy(0.0, ignore_class=ignore_class)
    options = {"from_logits": True, "ignore_class": ignore_class}
    keras_loss = keras.losses.SparseCategoricalCrossentropy(**options)
    if weights is not None:
        weights = np.repeat(weights[:, None], labels.shape[1], axis=1)
    np.testing.assert_allclose(
        ours(labels, logits, sample_weight=weights),
        keras_loss(labels, logits, sample_weight=weights),
        rtol=1e-5,
    )


def test_a_mask_of_the_logits_leaves_out_padding():
    labels, logits = sample()
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    masked = keras.ops.array(logits)
    masked._keras_mask = keras.ops.array(labels != 0)
    token_losses = loss.call(labels, logits).numpy()
    np.testing.assert_allclose(
        loss(labels, masked), token_losses[labels != 0].mean(), rtol=1e-5
    )


@pytest.mark.parametrize("reduction", ["sum", "none", "mean_with_sample_weight"])
def test_a_loss_has_the_reductions_of_keras_and_saves_them(reduction):
    labels, logits = sample()
    ours = kt.LabelSmoothedCrossEntropy(0.0, reduction=reduction, ignore_class=0)
    again = kt.LabelSmoothedCrossEntropy.from_config(ours.get_config())
    expected = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=reduction, ignore_class=0
    )
    for loss in (ours, again):
        np.testing.assert_allclose(
            loss(labels, logits), expected(labels, logits), rtol=1e-4, atol=1e-5
        )
