"""The programs of `examples/`: they learn, and their models are models of Keras."""

import importlib
import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.examples import twins

NAMES = ["encoder_classifier", "language_model", "encoder_decoder"]
LAST_LINES = {
    "encoder_classifier": "accuracy: 1.0",
    "language_model": "0 2 4 goes on: [0, 2, 4, 6, 8, 0, 2, 4, 6]",
    "encoder_decoder": "accuracy: 0.9",
}


@pytest.fixture(params=NAMES)
def example(request):
    """A program of `examples/`, as a module."""
    return importlib.import_module(f"examples.{request.param}")


def compiled(model, **options):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, **options)
    return model


@pytest.mark.long(first=1)
def test_an_example_learns_as_well_as_layers_of_keras(example, monkeypatch, capsys):
    """By the mean loss of 200 steps on the same data, with as many parameters."""
    name = example.__name__.rpartition(".")[2]
    model, ours = example.main()
    assert capsys.readouterr().out.splitlines()[-1].startswith(LAST_LINES[name])
    make_twin = getattr(twins, name)
    monkeypatch.setattr(example, "make_model", lambda: make_twin(example.CONFIG))
    twin, theirs = example.main()
    assert twin.count_params() == model.count_params()
    assert np.mean(ours.history["loss"]) < 1.2 * np.mean(theirs.history["loss"])


def test_padding_changes_nothing(example):
    model = example.make_model()
    inputs, _ = example.make_data(3, seed=5)
    longer = keras.tree.map_structure(lambda x: np.pad(x, ((0, 0), (0, 4))), inputs)
    expected, found = model(inputs), model(longer)
    if expected.ndim == 3:  # logits of positions, some of which are padding
        is_real = keras.tree.flatten(inputs)[-1] != 0
        expected, found = expected[is_real], found[:, : is_real.shape[1]][is_real]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.long(first=1)
def test_a_model_is_saved_cloned_pickled_and_exported(example, tmp_path):
    model = example.make_model()
    inputs, _ = example.make_data(3, seed=5)
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    again = [
        keras.saving.load_model(tmp_path / "model.keras"),
        clone,
        pickle.loads(pickle.dumps(model)),
    ]
    for each in again:
        np.testing.assert_allclose(each(inputs), expected, atol=1e-6)
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    tokens = keras.tree.map_structure(lambda x: tf.constant(x, tf.int32), inputs)
    found = served.serve(tokens)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.long(first=1)
def test_a_model_trains_under_xla_in_mixed_precision(example):
    """To the same loss as without, up to rounding."""
    inputs, labels = example.make_data(16, seed=5)
    losses = []
    for policy, jit_compile in (("float32", False), ("mixed_bfloat16", True)):
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(policy)
        try:
            keras.utils.set_random_seed(1)
            model = compiled(example.make_model(), jit_compile=jit_compile)
        finally:
            keras.config.set_dtype_policy(before)
        losses.append(model.train_on_batch(inputs, labels))
    assert np.isfinite(losses).all()
    np.testing.assert_allclose(*losses, rtol=2e-2)
