"""What every layer promises, checked once for all."""

import keras
import numpy as np
import tensorflow as tf


def check_layer(make, *inputs):
    """Check a layer made by `make(**kwargs)` on inputs of distinct sizes.

    It builds, keeps shape and dtype, round-trips its config to the same output,
    agrees eager, in a graph and under XLA, has gradients, and runs in bfloat16.
    """
    layer = make()
    outputs = first(layer(*inputs))
    assert outputs.shape[:2] == inputs[0].shape[:2]
    assert outputs.dtype == "float32"

    again = type(layer).from_config(layer.get_config())
    again(*inputs)
    assert [w.shape for w in again.weights] == [w.shape for w in layer.weights]
    for ours, theirs in zip(again.weights, layer.weights, strict=True):
        ours.assign(theirs)
    np.testing.assert_allclose(first(again(*inputs)), outputs, atol=1e-6)
    assert again.get_config() == layer.get_config()

    for jit_compile in (False, True):
        run = tf.function(lambda *args: first(layer(*args)), jit_compile=jit_compile)
        np.testing.assert_allclose(run(*inputs), outputs, rtol=1e-4, atol=1e-5)

    if layer.trainable_weights:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(first(layer(*inputs)) ** 2)
        gradients = tape.gradient(loss, layer.trainable_weights)
        assert all(gradient is not None for gradient in gradients)

    half = first(make(dtype="mixed_bfloat16")(*inputs))
    assert half.dtype == "bfloat16"
    assert np.isfinite(np.asarray(half, "float32")).all()


def save_and_load(layer, inputs, path):
    """Return the outputs of the layer after a round trip through a file."""
    arguments = [keras.Input(x.shape[1:], dtype=x.dtype) for x in inputs]
    model = keras.Model(arguments, first(layer(*arguments)))
    model.save(path)
    return keras.saving.load_model(path)(list(inputs))


def first(outputs):
    """The outputs, of layers that return attention weights beside them."""
    return outputs[0] if isinstance(outputs, tuple) else outputs
