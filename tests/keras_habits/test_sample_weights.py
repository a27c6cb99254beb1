"""Habits of `sample_weight`."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.batch import unpack
from tests.keras_habits.models import arrays, compiled, make_config
from tests.model.test_train_step import assert_same, trained_weights

SOURCE, TARGET = arrays()
KEPT = [0, 2, 3]
WEIGHTS = np.array([1, 0, 1, 1, 0, 0])


@pytest.fixture(scope="module")
def model():
    """For tests that change no weights."""
    return compiled()


def gradients_per_token(model, *data):
    """The mean gradients over tokens, and the mean loss."""
    gradients, sums, _ = model.batch_gradients(*data)
    batch = model._unpack(data)
    return [*gradients, sums[0] / model._count_tokens(batch)]


@pytest.mark.parametrize(
    "weights",
    [
        WEIGHTS,
        WEIGHTS.astype(bool),
        0.5 * WEIGHTS[:, None],
        np.repeat(WEIGHTS[:, None], 5, axis=1),
    ],
    ids=["integers", "booleans", "column", "tokens"],
)
def test_pairs_of_weight_zero_are_as_if_left_out(model, weights):
    found = gradients_per_token(model, SOURCE, TARGET, weights)
    assert_same(found, gradients_per_token(model, SOURCE[KEPT], TARGET[KEPT]))


def test_a_pair_of_weight_two_is_the_pair_twice(model):
    rows = np.repeat(np.arange(6), [1, 2, 1, 3, 1, 1])
    weights = np.array([1, 2, 1, 3, 1, 1])
    found = gradients_per_token(model, SOURCE, TARGET, weights)
    assert_same(found, gradients_per_token(model, SOURCE[rows], TARGET[rows]))


def test_tokens_have_weights_of_their_own(model):
    """Those of weight zero are as padding, but for what the decoder sees."""
    weights = np.ones(TARGET.shape)
    weights[:, 2:] = 0
    inputs = np.asarray(model.shift_right(TARGET))
    cut = np.where(weights, TARGET, 0)
    found = gradients_per_token(model, SOURCE, TARGET, weights)
    assert_same(found, gradients_per_token(model, (SOURCE, inputs), cut))


class TowardsFirst:
    """A guide whose loss is the attention that is not on the first token."""

    def token_losses(self, batch, cross_weights):
        return 1.0 - cross_weights[0][:, 0, :, 0]


@pytest.mark.parametrize("kind", ["guide", "r_drop", "packed"])
def test_weights_hold_for_all_that_is_added_to_the_loss(kind):
    options = {"guide": TowardsFirst()} if kind == "guide" else {}
    options |= {"is_packed": True} if kind == "packed" else {}
    model = compiled(**options)
    model.r_drop = 5.0 if kind == "r_drop" else 0.0
    found = gradients_per_token(model, SOURCE, TARGET, WEIGHTS)
    assert_same(found, gradients_per_token(model, SOURCE[KEPT], TARGET[KEPT]))


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    ("replicas", "options"),
    [
        (1, {"accumulate_steps": 2, "jit_compile": True}),
        (2, {"jit_compile": False}),
    ],
)
def test_weights_hold_in_fit_however_it_is_cut(replicas, options, two_replicas):
    expected, history = trained_weights(
        compiled(keras.optimizers.SGD(1.0)), (SOURCE[KEPT], TARGET[KEPT])
    )
    scope = two_replicas.scope if replicas == 2 else contextlib.nullcontext
    with scope():
        model = compiled(keras.optimizers.SGD(1.0), **options)
    weights, weighted = trained_weights(model, (SOURCE, TARGET, 0.25 * WEIGHTS))
    assert_same(weights, expected)
    for name, values in history.items():
        np.testing.assert_allclose(weighted[name], values, rtol=1e-5)


def test_a_loss_that_is_not_finite_does_not_count_at_weight_zero():
    model = compiled()
    losses = model.loss.token_losses

    def broken(labels, logits):
        loss, *others = losses(labels, logits)
        rows = tf.range(tf.shape(labels)[0])[:, None]
        return tf.where(rows == 1, np.inf, loss), *others

    model.loss.token_losses = broken
    _, sums, _ = model.batch_gradients(SOURCE, TARGET, WEIGHTS)
    assert np.isfinite(sums[0])


@pytest.mark.long
def test_evaluate_and_fit_on_arrays_take_weights():
    model = compiled(keras.optimizers.SGD(0.0))
    fitted = model.fit(
        SOURCE,
        TARGET,
        sample_weight=WEIGHTS,
        validation_data=(SOURCE, TARGET, WEIGHTS),
        batch_size=4,
        verbose=0,
    ).history
    expected = model.evaluate(SOURCE[KEPT], TARGET[KEPT], return_dict=True, verbose=0)
    for name, value in expected.items():
        assert fitted[name] == pytest.approx([value], rel=1e-5)
        assert fitted[f"val_{name}"] == pytest.approx([value], rel=1e-5)


def test_weights_of_an_unknown_rank_are_those_of_pairs():
    """Where there are as many rows as tokens, they could be mistaken."""

    @tf.function(input_signature=[tf.TensorSpec(None)], autograph=False)
    def weights_of(weights):
        data = SOURCE[:5], TARGET[:5], weights
        return unpack(data, make_config()).weights

    np.testing.assert_array_equal(weights_of(WEIGHTS[:5]), WEIGHTS[:5, None])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(5), r"\[batch\] or \[batch, target_length\].*\(5, 1\) for targets"),
        (np.ones((6, 3)), r"Received: shape=\(6, 3\) for targets \(6, 5\)"),
        (np.ones((6, 5, 1)), r"Received: shape=\(6, 5, 1\)"),
        (np.array([1, 1, -1, 1, 1, 1.0]), "at least 0. Received: weight=-1.0"),
        (np.array([1, np.nan, 1, 1, 1, 1]), "at least 0. Received: weight=nan"),
    ],
)
def test_wrong_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=f"`sample_weight` must .*{message}"):
        unpack((SOURCE, TARGET, weights), make_config())
