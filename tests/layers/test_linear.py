"""Linear maps of positions."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.linear import Linear


@pytest.mark.parametrize("known", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("shape", [(3, 5, 6), (0, 5, 6), (3, 0, 6), (0, 0, 6)])
def test_it_maps_as_dense_does_whatever_the_graph_knows(known, shape):
    """Without elements too, where TensorFlow would infer a size of 1."""
    sizes = [shape[axis] if known[axis] else None for axis in (0, 1)]
    layer, dense = (
        Linear(2, activation="relu"),
        keras.layers.Dense(2, activation="relu"),
    )
    layer.build((None, None, 6))
    dense.build((None, None, 6))
    dense.set_weights(layer.get_weights())
    run = tf.function(layer, input_signature=[tf.TensorSpec((*sizes, 6))])
    inputs = np.random.default_rng(1).normal(size=shape).astype("float32")
    np.testing.assert_allclose(run(inputs), dense(inputs), atol=1e-6)
