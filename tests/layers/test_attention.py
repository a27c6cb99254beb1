"""Attention against Eq. 1 by hand, NumPy, and Keras's own layer."""

import keras
import numpy as np
import pytest

from keras_transformer.layers.attention import (
    MultiHeadAttention,
    scaled_dot_product_attention,
)
from tests.layers.contract import check_layer, save_and_load
from tests.reference import transformer as reference

DRAW = np.random.default_rng(0)
QUERY = DRAW.normal(size=(3, 7, 6)).astype("float32")
SOURCE = DRAW.normal(size=(3, 11, 6)).astype("float32")
MASK = DRAW.random((3, 7, 11)) < 0.6
MASK[..., 0] = True


def make(**kwargs):
    return MultiHeadAttention(6, num_heads=2, key_dim=5, value_dim=13, **kwargs)


def test_three_numbers_by_hand():
    """q = (0, sqrt 2), d_k = 2: logits 0 and 1, so weights 1 and e over 1 + e."""
    query = np.array([0.0, 2**0.5], "float32").reshape(1, 1, 1, 2)
    key = np.array([[1.0, 0.0], [0.0, 1.0]], "float32").reshape(1, 1, 2, 2)
    value = np.array([[3.0], [5.0]], "float32").reshape(1, 1, 2, 1)
    outputs, weights = scaled_dot_product_attention(query, key, value)
    share = np.e / (1 + np.e)
    np.testing.assert_allclose(weights[0, 0, 0], [1 - share, share], rtol=1e-6)
    np.testing.assert_allclose(outputs[0, 0, 0, 0], 3 + 2 * share, rtol=1e-6)


def test_keys_may_be_given_transposed():
    query, key = QUERY[:, np.newaxis], SOURCE[:, np.newaxis]
    wanted = scaled_dot_product_attention(query, key, key)
    found = scaled_dot_product_attention(
        query, key.transpose(0, 1, 3, 2), key, has_transposed_key=True
    )
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)


def test_a_masked_position_has_weight_zero_and_changes_nothing():
    layer = make()
    outputs, weights = layer(QUERY, SOURCE, attention_mask=MASK)
    hidden = np.broadcast_to(~MASK[:, None], weights.shape)
    assert (np.asarray(weights)[hidden] == 0.0).all()
    np.testing.assert_allclose(np.sum(weights, -1), 1.0, rtol=1e-5)
    mask = np.broadcast_to(np.arange(11) != 4, MASK.shape)
    changed = SOURCE.copy()
    changed[:, 4] += 100.0
    before, _ = layer(QUERY, SOURCE, attention_mask=mask)
    after, _ = layer(QUERY, changed, attention_mask=mask)
    np.testing.assert_array_equal(before, after)


def test_a_query_with_nothing_to_attend_to_gives_no_nan():
    outputs, _ = make()(QUERY, SOURCE, attention_mask=np.zeros((3, 7, 11), bool))
    assert np.isfinite(outputs).all()


def test_equals_the_equation_head_by_head():
    """d_k 5 and d_v 13, independent of d_model."""
    layer = make()
    outputs, _ = layer(QUERY, SOURCE, attention_mask=MASK)
    kernels = {weight.path.split("/")[-2]: weight.numpy() for weight in layer.weights}
    for row in range(3):
        expected = reference.multi_head_attention(
            QUERY[row], SOURCE[row], MASK[row], kernels, num_heads=2
        )
        np.testing.assert_allclose(outputs[row], expected, atol=1e-5)


def test_equals_keras_with_the_same_weights():
    ours = make(use_bias=True)
    theirs = keras.layers.MultiHeadAttention(2, key_dim=5, value_dim=13)
    theirs(QUERY, SOURCE)
    ours(QUERY, SOURCE)
    for weight in ours.weights:  # zero biases would prove nothing
        weight.assign(DRAW.normal(size=weight.shape))
    named = {"/".join(w.path.split("/")[-2:]): w.numpy() for w in ours.weights}
    for weight in theirs.weights:
        name, kind = weight.path.split("/")[-2:]
        ours_here = named[f"{name.removeprefix('attention_')}/{kind}"]
        weight.assign(ours_here.reshape(weight.shape))
    expected, expected_weights = theirs(
        QUERY, SOURCE, attention_mask=MASK, return_attention_scores=True
    )
    outputs, weights = ours(QUERY, SOURCE, attention_mask=MASK)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-5)


def test_projections_start_as_half_of_glorot_over_the_whole_matrix():
    """Uniform in +-sqrt(6 / (d_model + h d_k)) / 2 = +-sqrt(6 / 1024) / 2."""
    layer = MultiHeadAttention(512, num_heads=8, key_dim=64, value_dim=64)
    layer.build((None, None, 512))
    for weight in layer.weights:
        np.testing.assert_allclose(np.std(weight.numpy()), 0.0442 / 2, rtol=0.01)


def test_keeps_the_layer_contract(tmp_path):
    check_layer(make, QUERY, SOURCE)
    layer = make()
    expected, _ = layer(QUERY, SOURCE)
    loaded = save_and_load(layer, (QUERY, SOURCE), tmp_path / "layer.keras")
    np.testing.assert_allclose(loaded, expected, atol=1e-6)


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="`num_heads` must be at least 1"):
        MultiHeadAttention(6, num_heads=0, key_dim=5, value_dim=5)
    with pytest.raises(ValueError, match=r"`dropout_rate` must be in \[0, 1\)"):
        make(dropout_rate=1.0)
