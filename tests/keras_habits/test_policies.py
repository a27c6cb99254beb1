"""Habits of dtype policies, frozen weights, optimizers that are left out, and files."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_habits.models import arrays, compiled, make_model


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("float16", {}),
        ("bfloat16", {}),
        ("float64", {"jit_compile": True, "accumulate_steps": 2}),
    ],
)
def test_a_model_trains_in_every_policy(dtype, options):
    model = compiled(keras.optimizers.SGD(0.1), dtype=dtype, **options)
    history = model.fit(*arrays(), epochs=5, verbose=0, shuffle=False).history
    assert history["loss"][-1] < history["loss"][0]
    assert model.weights[0].dtype == dtype
    assert model.predict(arrays(), verbose=0).dtype == "float32"


def test_a_global_policy_is_that_of_the_model():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float64")
    try:
        model = make_model()
    finally:
        keras.config.set_dtype_policy(before)
    expected = make_model()
    model.set_weights(expected.get_weights())
    source, target = arrays()
    assert model.weights[0].dtype == "float64"
    np.testing.assert_allclose(model(source, target), expected(source, target), 1e-4)


def test_many_small_gradients_in_float16_are_no_overflow():
    """Their sum, which tells finite from infinite, is above 65,504."""
    model = compiled(keras.optimizers.SGD(0.0), dtype="float16")
    model.loss.token_losses = lambda labels, logits: (
        4000.0 * logits[..., 5] + 4000.0 * logits[..., 6],
        logits[..., 0],
        logits[..., 0] > 0,
    )
    gradients, _, size = model.batch_gradients(*map(keras.ops.array, arrays()))
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert np.isfinite(size)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("optimizer", ["adam", "scaled"])
def test_a_model_whose_weights_are_all_frozen_reports_and_says_so(optimizer):
    model = make_model()
    model.trainable = False
    if optimizer == "scaled":
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())
    model.compile(optimizer, kt.LabelSmoothedCrossEntropy(0.1))
    before = model.get_weights()
    with pytest.warns(UserWarning, match="changes nothing: all weights .* are frozen"):
        history = model.fit(*arrays(), verbose=0).history
    assert np.isfinite(history["loss"]).all() and history["skipped"] == [0.0]
    for left, right in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.long
def test_a_frozen_layer_stays_and_the_others_train():
    model = make_model()
    model.encoder.trainable = False
    model.compile("sgd", kt.LabelSmoothedCrossEntropy(0.1))
    before = model.encoder.get_weights(), model.decoder.get_weights()
    model.fit(*arrays(), verbose=0)
    np.testing.assert_array_equal(before[0][0], model.encoder.get_weights()[0])
    assert np.abs(before[1][0] - model.decoder.get_weights()[0]).max() > 0


def test_a_model_without_optimizer_evaluates_and_names_what_fit_needs(tmp_path):
    model = make_model()
    model.compile(None, kt.LabelSmoothedCrossEntropy(0.1), run_eagerly=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert np.isfinite(loaded.evaluate(*arrays(), verbose=0)).all()
    with pytest.raises(ValueError, match="`fit` needs an optimizer: .*=None"):
        loaded.fit(*arrays(), verbose=0)


@pytest.mark.parametrize("name", ["model.h5", "model.hdf5"])
def test_the_legacy_format_is_refused_before_a_file_is_written(tmp_path, name):
    with pytest.raises(ValueError, match=r"path that ends with `.keras`.*Received: "):
        make_model().save(tmp_path / name)
    assert not any(tmp_path.iterdir())


@pytest.mark.long
def test_a_new_train_function_trains_the_weights_of_now():
    """Keras makes one after `quantize`, and users who freeze without `compile`."""
    model = compiled()
    model.train_on_batch(*arrays())
    model.encoder.trainable = False
    model.make_train_function(force=True)
    encoder, decoder = model.encoder.get_weights(), model.decoder.get_weights()
    model.train_on_batch(*arrays())
    np.testing.assert_array_equal(model.encoder.get_weights()[0], encoder[0])
    assert not np.array_equal(model.decoder.get_weights()[0], decoder[0])
