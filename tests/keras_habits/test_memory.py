"""Models that are deleted leave the memory."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.layer_norm import LayerNormalization
from keras_transformer.training.losses import LabelSmoothedCrossEntropy

INPUTS = tf.constant([[1.0, 2.0, 4.0], [3.0, 1.0, 0.0]])


def normalized():
    layer = LayerNormalization()
    layer.build((None, 3))
    return lambda inputs: layer(inputs, training=True)


def smoothed():
    loss = LabelSmoothedCrossEntropy(0.1)
    return lambda inputs: loss.token_losses(tf.constant([[1, 2]]), inputs[None])[0]


MAKE = pytest.mark.parametrize("make", [normalized, smoothed])


def gradient_of(function, inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = function(inputs)
    return tape.gradient(outputs, inputs)


@MAKE
def test_a_graph_is_freed_with_its_gradients(make):
    """TensorFlow registers the gradients of `tf.custom_gradient` for ever."""
    own = make()
    function = tf.function(lambda inputs: gradient_of(own, inputs))
    graph = weakref.ref(function.get_concrete_function(INPUTS).graph)
    del function
    gc.collect()
    assert graph() is None


@MAKE
def test_a_gradient_is_the_same_inside_and_outside_of_a_graph(make):
    own = make()
    expected = gradient_of(own, INPUTS)
    assert np.abs(expected).max() > 0
    traced = tf.function(own)
    for _ in range(2):
        gc.collect()
        for found in (
            gradient_of(traced, INPUTS),
            tf.function(lambda inputs: gradient_of(traced, inputs))(INPUTS),
            tf.function(lambda inputs: gradient_of(own, inputs), jit_compile=True)(
                INPUTS
            ),
        ):
            np.testing.assert_allclose(found, expected, atol=1e-6)


PROGRAM = """
import gc
import keras_transformer as kt
import keras, numpy as np

tokens = np.random.default_rng(1).integers(4, 300, (64, 9), np.int32)
config = kt.ModelConfig(vocab_size=300, num_layers=1, d_model=16, d_ff=32, num_heads=2)

def megabytes():
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024

for cycle in range(20):
    model = kt.Transformer(config)
    model.compile("adam", kt.LabelSmoothedCrossEntropy(0.1))
    model.fit(tokens, tokens, batch_size=32, verbose=0)
    del model
    if cycle % 2:
        keras.backend.clear_session()
    else:
        gc.collect()
    if not cycle:
        first = megabytes()
print(megabytes() - first)
"""


@pytest.mark.release
def test_twenty_models_take_hardly_more_memory_than_one(tmp_path):
    """Each left 20 MB, whether the session was cleared or not."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py"]
    result = subprocess.run(
        command, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert float(result.stdout.split()[-1]) < 100
