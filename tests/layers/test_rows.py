"""Positions as rows of a matrix, and back."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import rows
from keras_transformer.layers.attention import MultiHeadAttention


@pytest.mark.parametrize("known", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("shape", [(3, 5, 6), (0, 5, 6), (3, 0, 6), (0, 0, 6)])
def test_flat_and_back_whatever_the_graph_knows(known, shape):
    """Of nothing too, where TensorFlow would find a size of 1."""
    sizes = [shape[axis] if known[axis] else None for axis in (0, 1)]

    @tf.function(input_signature=[tf.TensorSpec((*sizes, 6))])
    def there_and_back(inputs):
        return rows.unflat(rows.flat(inputs)[:, :2], like=inputs)

    inputs = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    np.testing.assert_array_equal(there_and_back(inputs), inputs[..., :2])


@pytest.mark.parametrize("length", [5, tf.constant(5)])
def test_attention_takes_rows_with_the_length_of_a_sentence(length):
    """As a search gives them; the length may be known to the graph or not."""
    inputs = np.random.default_rng(4).normal(size=(3, 5, 6)).astype("float32")
    layer = MultiHeadAttention(6, 2, 3, 4)
    layer.build((None, None, 6))
    flat = inputs.reshape(15, 6)
    key, value = layer.project_source(flat, length)
    outputs, weights = layer.attend(flat, key, value, length=length)
    expected, expected_weights = layer(inputs)
    np.testing.assert_allclose(outputs, np.reshape(expected, (15, 6)), atol=1e-6)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-6)
