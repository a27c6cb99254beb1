"""Which weights of a run are used."""

import resource
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_transformer.config import DecodingConfig, ModelConfig, TrainingConfig
from keras_transformer.model.transformer import Transformer
from keras_transformer.runs.model_dir import ModelDir, RunConfig, load_model

CONFIG = ModelConfig(vocab_size=13, num_layers=1, d_model=6, d_ff=7, num_heads=2)


@pytest.fixture
def place(tmp_path):
    """A run with checkpoints of steps 2 and 4, the best of step 2."""
    place = ModelDir(tmp_path)
    for step in (2, 4):
        place.checkpoints().save(step, {})
    place.checkpoints("best").save(2, {})
    return place


def test_the_average_comes_first_then_the_best_then_the_newest(place):
    place.checkpoints("averaged").save(4, {})
    assert place.choose().path.parent.name == "averaged"
    assert place.choose("best").step == 2
    assert place.choose("latest").step == 4


def test_an_average_from_before_training_went_on_is_used_only_where_asked_for(place):
    place.checkpoints("averaged").save(2, {})
    assert place.choose().path.parent.name == "best"
    assert place.choose("averaged").path.parent.name == "averaged"


def test_an_average_alone_is_used(tmp_path):
    ModelDir(tmp_path).checkpoints("averaged").save(2, {})
    assert ModelDir(tmp_path).choose().step == 2


def test_no_weights_at_all_are_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="No checkpoint in"):
        ModelDir(tmp_path).choose()


@pytest.fixture(scope="module")
def trained_model():
    """A compiled model after one step."""
    model = Transformer(CONFIG)
    model.compile("adam", "sparse_categorical_crossentropy")
    tokens = np.array([[5, 7, 3], [11, 3, 0]], np.int32)
    model.fit(tokens, tokens, verbose=0)
    return model


@pytest.fixture
def trained(tmp_path, trained_model):
    """A run whose checkpoint holds the trained model, and the model."""
    model = trained_model
    place = ModelDir(tmp_path)
    parts = TrainingConfig(), DecodingConfig()
    place.write_config(RunConfig("tiny", CONFIG, *parts, "en", "de", "hash"))
    place.checkpoints().save(1, {}, model=model, optimizer=model.optimizer)
    return place, model


@pytest.mark.parametrize("precision", [None, "float32", "bfloat16"])
def test_a_loaded_model_has_the_weights_in_the_precision_asked_for(trained, precision):
    place, model = trained
    loaded = place.load_model(precision=precision)
    assert loaded.dtype_policy.name == (precision or "float32")
    tolerance = 1e-2 if precision == "bfloat16" else 0
    for own, other in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(own.astype("float32"), other, rtol=tolerance)


def test_a_loaded_model_knows_nothing_of_the_optimizer(trained):
    """Compiled again it begins at step 0 with empty moments."""
    place, model = trained
    assert model.optimizer.iterations == 1
    loaded = place.load_model()
    loaded.compile("adam", "sparse_categorical_crossentropy")
    assert loaded.optimizer.iterations == 0
    for name in ("_momentums", "_velocities"):
        moments = getattr(loaded.optimizer, name)
        assert not any(np.any(keras.ops.convert_to_numpy(each)) for each in moments)


def test_a_file_and_a_folder_load_by_one_function(trained):
    place, model = trained
    place.save_model(model)
    from_file = load_model(str(place.model_path))
    from_folder = load_model(place.path)
    assert from_file.compiled and not from_folder.compiled
    for loaded in (from_file, from_folder):
        for own, other in zip(loaded.get_weights(), model.get_weights(), strict=True):
            np.testing.assert_array_equal(own, other)


def test_a_full_disk_leaves_the_old_file(trained):
    place, model = trained
    place.save_model(model)
    before = place.model_path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*/model\.keras'"):
            place.save_model(model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert place.model_path.read_bytes() == before
    assert not list(place.path.glob(".model.keras*"))


def test_a_model_that_is_absent_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="No model in .*/run: it has no config"):
        load_model(tmp_path / "run")
    with pytest.raises(ValueError, match="File not found: filepath=.*gone.keras"):
        load_model(tmp_path / "gone.keras")


@pytest.mark.long
def test_reading_a_model_does_not_import_what_takes_seconds(repository):
    code = (
        "import sys, keras_transformer.runs.model_dir\n"
        "import keras_transformer.serving.saved_model\n"
        "slow = {'keras_hub', 'keras_nlp', 'sacrebleu', 'tensorflow_datasets'}\n"
        "assert not slow & sys.modules.keys(), slow & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=repository)
