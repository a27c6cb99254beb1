"""The Transformer of "Attention Is All You Need" in TensorFlow and Keras 3.

    import keras_transformer as kt

Names are loaded when they are first used, so that importing the package costs nothing.
Import it before TensorFlow and Keras: as it is imported, TensorFlow reads which kernels
it may use on a CPU.
"""

from __future__ import annotations

import importlib
import os
import platform
from typing import Any

from keras_transformer import saved_classes

__version__ = "0.1.0"

# By itself TensorFlow takes oneDNN's products only on CPUs with AVX-512 and VNNI. With
# AVX2 alone they are faster too: a training step of the base model takes 7.6 s with
# them and 10.3 without, a search a third of the time or less.
if platform.machine() in ("x86_64", "AMD64"):
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# `keras.saving.load_model` finds the package's classes, although none is imported yet.
saved_classes.register()

_NAMES = {
    # What a model is made of and how it is trained.
    "ModelConfig": "config",
    "TrainingConfig": "config",
    "DecodingConfig": "config",
    # The model.
    "Transformer": "model.transformer",
    "Translator": "inference.translator",
    "Parser": "parsing.parser",
    "load_model": "runs.model_dir",
    "open_model": "opening",
    # Training.
    "LabelSmoothedCrossEntropy": "training.losses",
    "TransformerSchedule": "training.schedule",
    "paper_optimizer": "training.schedule",
}
_MODULES = {
    "config": "config",
    "data": "data",
    "decoding": "decoding",
    "evaluation": "evaluation",
    "layers": "layers",
    "model_dir": "runs.model_dir",
    "parsing": "parsing",
    "presets": "presets",
    "threads": "inference.cpu_threads",
    "tokenization": "tokenization",
    "training": "training",
}

__all__ = ["__version__", *_MODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    if name in _NAMES:
        module = importlib.import_module(f"{__name__}.{_NAMES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
