"""Matrices cut into panels: the steps of a search compute what whole sentences do."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import panels
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.embedding import TokenEmbedding
from keras_transformer.layers.feed_forward import FeedForward


def with_random_weights(layer):
    draw = np.random.default_rng(5)
    layer.set_weights([draw.normal(size=w.shape) for w in layer.get_weights()])
    return layer


def own_width(units):
    layer = keras.layers.Dense(units)
    layer.build((None, 2))
    return panels.cut([layer], units).kernel.shape[-1]


@pytest.mark.parametrize(
    ("columns", "wide", "narrow"),
    [
        (2048, 64, 16),
        (96, 48, 16),
        (37000, 50, 10),
        (80, 40, 16),
        (64, 64, 16),
        (7, 7, 7),
        (4099, 4099, 4099),
    ],
)
def test_panels_divide_a_matrix(columns, wide, narrow, monkeypatch):
    monkeypatch.setattr(panels.machine, "has_gpu", lambda: False)
    monkeypatch.setattr(panels.machine, "has_avx2_alone", lambda: False)
    assert own_width(columns) == wide
    monkeypatch.setattr(panels.machine, "has_avx2_alone", lambda: True)
    assert own_width(columns) == narrow


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("unit", [2, 3, 6])
def test_a_cut_map_maps_as_the_layers_do(unit, use_bias):
    inputs = np.random.default_rng(2).normal(size=(5, 4)).astype("float32")
    layers = [keras.layers.Dense(units, use_bias=use_bias) for units in (6, 12)]
    for layer in layers:
        layer.build((None, 4))
        with_random_weights(layer)
    expected = np.concatenate([layer(inputs) for layer in layers], axis=1)
    cut = panels.cut(layers, unit)
    assert cut.kernel.shape == (18 // unit, 4, unit)
    np.testing.assert_allclose(panels.mapped(inputs, cut), expected, atol=1e-5)


@pytest.mark.parametrize("columns", [1, 16, 63, 64, 130])
def test_a_transposed_matrix_is_cut_with_zeros_after_it(columns):
    draw = np.random.default_rng(7)
    inputs, matrix = draw.normal(size=(5, 4)), draw.normal(size=(columns, 4))
    found = panels.mapped(inputs, panels.cut_transposed(tf.constant(matrix)))
    np.testing.assert_allclose(found[:, :columns], inputs @ matrix.T, atol=1e-12)
    np.testing.assert_array_equal(found[:, columns:], 0)


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("num_rows", [1, 16, 17, 40])
@pytest.mark.parametrize("use_bias", [False, True])
def test_logits_of_few_rows_and_of_many_are_the_same(use_bias, num_rows, is_traced):
    inputs = np.random.default_rng(8).normal(size=(num_rows, 6)).astype("float32")
    layer = TokenEmbedding(130, 6, use_output_bias=use_bias)
    layer.build()
    with_random_weights(layer)
    cut = layer.panels()

    def logits(inputs):
        return layer.logits(inputs, cut)

    if is_traced:
        shape = tf.TensorSpec([None, 6], tf.float32)
        logits = tf.function(logits, input_signature=[shape], autograph=False)
    found = logits(inputs)
    assert found.shape == (num_rows, 130)
    np.testing.assert_allclose(found, layer.logits(inputs), atol=1e-5)


def test_few_rows_alone_read_the_panels():
    layer = TokenEmbedding(130, 6)
    layer.build()
    others = panels.Panels(tf.ones_like(layer.panels().kernel))
    of_panels, of_matrix = (
        layer.logits(np.ones((num_rows, 6), "float32"), others) for num_rows in (16, 17)
    )
    np.testing.assert_array_equal(of_panels, 6.0)
    np.testing.assert_allclose(of_matrix, layer.logits(np.ones((17, 6), "float32")))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_bits_are_transposed_as_numbers(dtype):
    values = tf.cast(np.random.default_rng(3).normal(size=(2, 3, 4)), dtype)
    transposed = panels.transposed(values, (2, 0, 1))
    assert transposed.dtype == dtype
    np.testing.assert_array_equal(transposed, tf.transpose(values, (2, 0, 1)))


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("key_dim, value_dim", [(3, 3), (3, 5), (32, 32), (32, 48)])
def test_attention_of_steps_is_that_of_sentences(
    key_dim, value_dim, use_bias, monkeypatch
):
    """As if the beam were a sentence; heads are of one panel or several."""
    monkeypatch.setattr(panels.machine, "has_avx2_alone", lambda: True)
    monkeypatch.setattr(panels.machine, "has_gpu", lambda: False)
    inputs = np.random.default_rng(4).normal(size=(3, 5, 6)).astype("float32")
    layer = MultiHeadAttention(6, 2, key_dim, value_dim, use_bias=use_bias)
    layer.build((None, None, 6))
    with_random_weights(layer)
    flat = inputs.reshape(15, 6)
    cut = layer.panels("query", "key", "value")
    assert len(cut) == (1 if value_dim == key_dim else 2)
    query, key, value = layer.project_step(flat, cut, beam_size=5)
    mask = np.tril(np.ones((1, 5, 5), bool))
    outputs = layer.attend_step(query, key, value, mask, layer.output_panels())
    expected, _ = layer(inputs, attention_mask=mask)
    np.testing.assert_allclose(outputs, np.reshape(expected, (15, 6)), atol=1e-4)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_step_of_the_feed_forward_network_is_a_call(policy):
    inputs = np.random.default_rng(6).normal(size=(5, 6)).astype("float32")
    layer = FeedForward(6, 80, dtype=policy)
    layer.build((None, 6))
    with_random_weights(layer)
    found = layer.step(tf.cast(inputs, layer.compute_dtype), layer.panels())
    assert found.dtype == layer.compute_dtype
    tolerance = {"float32": 1e-5, "mixed_bfloat16": 2e-2}[policy]
    np.testing.assert_allclose(
        np.asarray(found, "float32"),
        np.asarray(layer(inputs), "float32"),
        rtol=tolerance,
        atol=30 * tolerance,
    )
