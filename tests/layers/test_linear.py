"""Linear maps of positions, also of none."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import FeedForward

LAYERS = {
    "attention": lambda: MultiHeadAttention(6, 2, key_dim=4, value_dim=3),
    "feed_forward": lambda: FeedForward(6, 8),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("known", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("shape", [(3, 5, 6), (0, 5, 6), (3, 0, 6), (0, 0, 6)])
def test_a_layer_gives_the_same_whatever_the_graph_knows(name, known, shape):
    """Without elements too, where TensorFlow would infer a size of 1."""
    sizes = [shape[axis] if known[axis] else None for axis in (0, 1)]
    layer = LAYERS[name]()
    layer.build((None, None, 6))

    def output(inputs):
        return tf.nest.flatten(layer(inputs))[0]

    run = tf.function(output, input_signature=[tf.TensorSpec((*sizes, 6))])
    inputs = np.random.default_rng(1).normal(size=shape).astype("float32")
    found = run(inputs)
    assert found.shape == shape
    np.testing.assert_allclose(found, output(inputs), atol=1e-6)
