"""Packed kernels: the steps of a search compute what whole sentences do."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.inference import (
    decoder_step,
    packed_kernels,
    prepared_weights,
    sublayers,
)
from keras_transformer.layers.attention import MultiHeadAttention, added_mask
from keras_transformer.layers.embedding import TokenEmbedding


@pytest.fixture(autouse=True)
def small_kernels_too(monkeypatch):
    """Cut kernels of any size into blocks."""
    monkeypatch.setattr(packed_kernels, "_FEW_WEIGHTS", 0)


def test_few_weights_stay_one_matrix(monkeypatch):
    layers = [keras.layers.Dense(units, use_bias=False) for units in (6, 12)]
    for layer in layers:
        layer.build((None, 4))
    monkeypatch.setattr(packed_kernels, "_FEW_WEIGHTS", 72)
    joined = packed_kernels.pack(layers, 6)
    assert joined.is_whole
    np.testing.assert_array_equal(
        joined.blocks, np.concatenate([layer.kernel for layer in layers], axis=1)
    )
    monkeypatch.setattr(packed_kernels, "_FEW_WEIGHTS", 71)
    assert not packed_kernels.pack(layers, 6).is_whole


def with_random_weights(layer):
    draw = np.random.default_rng(5)
    layer.set_weights([draw.normal(size=w.shape) for w in layer.get_weights()])
    return layer


def test_a_kernel_is_joined_again():
    matrix = np.random.default_rng(3).normal(size=(70, 5))
    joined = packed_kernels.unpacked(packed_kernels.pack_transposed(matrix))
    assert joined.is_whole
    np.testing.assert_array_equal(joined.blocks[:, :70], matrix.T)
    assert not joined.blocks[:, 70:].numpy().any()


def own_width(units):
    layer = keras.layers.Dense(units)
    layer.build((None, 2))
    return packed_kernels.pack([layer], units).blocks.shape[-1]


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
def test_blocks_divide_a_matrix(columns, wide, narrow, monkeypatch):
    monkeypatch.setattr(packed_kernels.hardware, "has_gpu", lambda: False)
    monkeypatch.setattr(packed_kernels.hardware, "has_avx2_alone", lambda: False)
    assert own_width(columns) == wide
    monkeypatch.setattr(packed_kernels.hardware, "has_avx2_alone", lambda: True)
    assert own_width(columns) == narrow


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("unit", [2, 3, 6])
def test_a_packed_map_maps_as_the_layers_do(unit, use_bias):
    inputs = np.random.default_rng(2).normal(size=(5, 4)).astype("float32")
    layers = [keras.layers.Dense(units, use_bias=use_bias) for units in (6, 12)]
    for layer in layers:
        layer.build((None, 4))
        with_random_weights(layer)
    expected = np.concatenate([layer(inputs) for layer in layers], axis=1)
    cut = packed_kernels.pack(layers, unit)
    assert cut.blocks.shape == (18 // unit, 4, unit)
    np.testing.assert_allclose(
        packed_kernels.multiply(inputs, cut), expected, atol=1e-5
    )


@pytest.mark.parametrize("columns", [1, 16, 63, 64, 130])
def test_a_transposed_matrix_is_packed_with_zeros_after_it(columns):
    draw = np.random.default_rng(7)
    inputs, matrix = draw.normal(size=(5, 4)), draw.normal(size=(columns, 4))
    found = packed_kernels.multiply(
        inputs, packed_kernels.pack_transposed(tf.constant(matrix))
    )
    np.testing.assert_allclose(found[:, :columns], inputs @ matrix.T, atol=1e-12)
    np.testing.assert_array_equal(found[:, columns:], 0)


def step_weights_of(embedding, packed):
    """Return weights of a step that has no layers, only the pre-softmax map."""
    table = embedding.embeddings.value
    return decoder_step.StepWeights(
        embeddings=table,
        positions=None,
        embedding_norm=None,
        layers=None,
        final_norm=None,
        output=table,
        output_bias=embedding.output_bias,
        packed_output=packed,
    )


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("num_rows", [1, 16, 17, 40])
@pytest.mark.parametrize("use_bias", [False, True])
def test_logits_of_few_rows_and_of_many_are_the_same(use_bias, num_rows, is_traced):
    inputs = np.random.default_rng(8).normal(size=(num_rows, 6)).astype("float32")
    layer = TokenEmbedding(130, 6, use_output_bias=use_bias)
    layer.build()
    with_random_weights(layer)
    packed = packed_kernels.pack_transposed(layer.embeddings.value)

    def logits(inputs):
        return decoder_step._logits(step_weights_of(layer, packed), inputs)

    if is_traced:
        shape = tf.TensorSpec([None, 6], tf.float32)
        logits = tf.function(logits, input_signature=[shape], autograph=False)
    found = logits(tf.constant(inputs))
    assert found.shape == (num_rows, 130)
    np.testing.assert_allclose(found, layer.logits(inputs), atol=1e-5)


def test_few_rows_alone_read_the_packed_kernel():
    layer = TokenEmbedding(130, 6)
    layer.build()
    packed = packed_kernels.pack_transposed(layer.embeddings.value)
    ones = step_weights_of(layer, packed._replace(blocks=tf.ones_like(packed.blocks)))
    by_kernel, by_matrix = (
        decoder_step._logits(ones, tf.ones((num_rows, 6))) for num_rows in (16, 17)
    )
    np.testing.assert_array_equal(by_kernel, 6.0)
    np.testing.assert_allclose(by_matrix, layer.logits(np.ones((17, 6), "float32")))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_bits_are_transposed_as_numbers(dtype):
    values = tf.cast(np.random.default_rng(3).normal(size=(2, 3, 4)), dtype)
    transposed = packed_kernels.transpose(values, (2, 0, 1))
    assert transposed.dtype == dtype
    np.testing.assert_array_equal(transposed, tf.transpose(values, (2, 0, 1)))


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("key_dim, value_dim", [(3, 3), (3, 5), (32, 32), (32, 48)])
@pytest.mark.parametrize("few_weights", [0, 100_000])
def test_attention_of_steps_is_that_of_sentences(
    key_dim, value_dim, use_bias, few_weights, monkeypatch
):
    """As if the beam were a sentence; heads fill one block of columns or several."""
    monkeypatch.setattr(packed_kernels.hardware, "has_avx2_alone", lambda: True)
    monkeypatch.setattr(packed_kernels.hardware, "has_gpu", lambda: False)
    monkeypatch.setattr(packed_kernels, "_FEW_WEIGHTS", few_weights)
    transpose = packed_kernels.transpose
    inputs = np.random.default_rng(4).normal(size=(3, 5, 6)).astype("float32")
    layer = MultiHeadAttention(6, 2, key_dim, value_dim, use_bias=use_bias)
    layer.build((None, None, 6))
    with_random_weights(layer)
    flat = tf.constant(inputs.reshape(15, 6))
    config = ModelConfig(d_model=6, num_heads=2, key_dim=key_dim, value_dim=value_dim)
    kernels = prepared_weights.projections(
        packed_kernels.pack, layer, "query", "key", "value"
    )
    assert len(kernels) == (1 if value_dim == key_dim else 2)
    query, key, value = sublayers.project(config, transpose, flat, kernels, 5)
    mask = np.tril(np.ones((1, 5, 5), bool))
    output = packed_kernels.pack([layer.output_projection], unit=6)
    term = added_mask(mask)
    outputs = sublayers.attend(config, transpose, query, key, value, term, output)
    expected, _ = layer(inputs, attention_mask=mask)
    np.testing.assert_allclose(outputs, np.reshape(expected, (15, 6)), atol=1e-4)
