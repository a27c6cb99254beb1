"""Saved models load although nothing of the package was imported before."""

import importlib
import os
import pkgutil
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import saved_classes

# The names in files that were written so far; a name is never taken away.
WRITTEN = [
    "Adam",
    "Decoder",
    "DecoderLayer",
    "Dropout",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "LabelSmoothedCrossEntropy",
    "LayerNormalization",
    "MultiHeadAttention",
    "Perplexity",
    "PositionalEncoding",
    "Residual",
    "RestrictedSelfAttention",
    "TokenEmbedding",
    "Transformer",
    "TransformerSchedule",
]


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    """A file that holds a model after one step with the paper's optimizer, and it."""
    config = kt.ModelConfig(vocab_size=13, num_layers=1, d_model=6, d_ff=7, num_heads=2)
    model = kt.Transformer(config)
    optimizer = kt.paper_optimizer(6, kt.TrainingConfig())
    model.compile(optimizer, kt.LabelSmoothedCrossEntropy(0.1))
    tokens = np.array([[5, 7, 3], [11, 3, 0]], np.int32)
    model.fit(tokens, tokens, verbose=0)
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(path)
    return path, model


@pytest.mark.long
def test_keras_loads_a_model_in_a_process_that_imported_only_the_package(
    model_file, repository, tmp_path
):
    path, model = model_file
    program = (
        "import sys, keras_transformer\n"
        "assert not {'keras', 'tensorflow', 'numpy'} & sys.modules.keys()\n"
        "import keras\n"
        "loaded = [m for m in sys.modules if m.startswith('keras_transformer')]\n"
        "assert len(loaded) == 2, loaded\n"
        f"model = keras.saving.load_model({str(path)!r})\n"
        "print(model.count_params(), int(model.optimizer.iterations))\n"
        "print(type(model.optimizer), type(model.loss))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(repository)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.splitlines() == [
        f"{model.count_params()} 1",
        f"{type(model.optimizer)} {type(model.loss)}",
    ]


@pytest.fixture
def only_stand_ins(monkeypatch):
    """Keras's registry as in a process that has imported Keras before the package."""
    registry = keras.saving.get_custom_objects()
    for name in WRITTEN:
        monkeypatch.delitem(registry, f"keras_transformer>{name}", raising=False)
    saved_classes.register()
    return registry


def test_stand_ins_are_registered_at_once_where_keras_is_imported(
    only_stand_ins, model_file
):
    for name in WRITTEN:
        stand_in = only_stand_ins[f"keras_transformer>{name}"]
        assert isinstance(stand_in, saved_classes.StandIn)
    path, model = model_file
    assert type(keras.saving.load_model(path)) is type(model)


def test_every_name_ever_written_finds_a_registered_class():
    assert set(WRITTEN) <= saved_classes.MODULES.keys()
    for name, module in saved_classes.MODULES.items():
        found = getattr(importlib.import_module(f"keras_transformer.{module}"), name)
        registered_name = keras.saving.get_registered_name(found)
        assert keras.saving.get_registered_object(registered_name) is found


def test_every_registered_class_has_a_stand_in():
    """Whoever registers a class enters it in `saved_classes.MODULES`."""
    for module in pkgutil.walk_packages(kt.__path__, "keras_transformer."):
        if "flags" not in module.name:  # two modules may define the same flag
            importlib.import_module(module.name)
    registered = {
        name.removeprefix("keras_transformer>")
        for name in keras.saving.get_custom_objects()
        if name.startswith("keras_transformer>")
    }
    assert registered == saved_classes.MODULES.keys()
