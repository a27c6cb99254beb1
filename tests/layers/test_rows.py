"""Positions as rows of a matrix, and back."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import rows


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
