"""What is saved is loaded as it was, in the forms that Keras and TensorFlow have."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from tests.keras_habits.models import arrays, compiled, make_model

SOURCE, TARGET = arrays()

PROGRAM = """
import keras, numpy as np
import keras_transformer
model = keras.saving.load_model("model.keras")
tokens = np.load("tokens.npz")
np.save("logits", model(tokens["source"], tokens["target"]))
model.fit(tokens["source"], tokens["target"], verbose=0, shuffle=False)
np.savez("weights", *model.get_weights())
"""


@pytest.mark.long
def test_a_file_is_loaded_and_trained_on_in_a_new_process(tmp_path):
    model = compiled("adam")
    model.fit(SOURCE, TARGET, verbose=0)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "tokens", source=SOURCE, target=TARGET)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    logits = np.load(tmp_path / "logits.npy")
    np.testing.assert_array_equal(logits, model(SOURCE, TARGET))
    model.fit(SOURCE, TARGET, verbose=0, shuffle=False)
    stored = np.load(tmp_path / "weights.npz")
    for name, weight in zip(stored.files, model.get_weights(), strict=True):
        np.testing.assert_array_equal(stored[name], weight)


def test_weights_are_loaded_into_another_model(tmp_path):
    model, other = make_model(), make_model()
    other.set_weights([0.0 * weight for weight in other.get_weights()])
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other(SOURCE, TARGET), model(SOURCE, TARGET))


def test_frozen_layers_are_frozen_when_loaded(tmp_path):
    """So that the optimizer's state fits, and `fit` leaves them as they are."""
    model = make_model()
    model.encoder.trainable = False
    model.compile("adam", kt.LabelSmoothedCrossEntropy(0.1))
    model.fit(SOURCE, TARGET, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert len(loaded.trainable_weights) == len(model.trainable_weights)
    for each in (model, loaded):
        each.fit(SOURCE, TARGET, verbose=0, shuffle=False)
    for ours, theirs in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    loaded.encoder.trainable = True
    assert len(loaded.trainable_weights) == len(loaded.weights)


@pytest.mark.long
def test_a_checkpoint_has_the_optimizer_too(tmp_path):
    model = compiled("adam")
    model.fit(SOURCE, TARGET, verbose=0)
    saved = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = saved.save(tmp_path / "checkpoint")
    other = compiled("adam")
    restored = tf.train.Checkpoint(model=other, optimizer=other.optimizer)
    restored.restore(path).assert_existing_objects_matched()
    np.testing.assert_array_equal(other(SOURCE, TARGET), model(SOURCE, TARGET))
    assert int(other.optimizer.iterations) == 1
    for each in (model, other):
        each.fit(SOURCE, TARGET, verbose=0, shuffle=False)
    np.testing.assert_array_equal(other(SOURCE, TARGET), model(SOURCE, TARGET))


@pytest.mark.long
def test_a_saved_model_of_tensorflow_is_loaded_without_the_class(tmp_path):
    """`tf.saved_model.save` of a module that owns the model."""
    module = tf.Module()
    module.model = make_model()
    module.serve = tf.function(
        lambda source, inputs: module.model(source, inputs),
        input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2,
    )
    tf.saved_model.save(module, tmp_path / "module")
    read = tf.saved_model.load(tmp_path / "module")
    np.testing.assert_allclose(
        read.serve(SOURCE, TARGET), module.model(SOURCE, TARGET), atol=1e-6
    )


def test_equal_seeds_give_equal_models():
    first, second = make_model(), make_model()
    for one, other in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    keras.utils.set_random_seed(8)
    third = kt.Transformer(first.config)
    assert not np.array_equal(third.get_weights()[0], first.get_weights()[0])
