"""The Transformer of "Attention Is All You Need" in TensorFlow and Keras 3.

    import keras_transformer as kt

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_NAMES = {
    # What a model is made of and how it is trained.
    "ModelConfig": "config",
    "TrainingConfig": "config",
    "DecodingConfig": "config",
    # The model.
    "Transformer": "model",
    "Translator": "translator",
    "Parser": "parser",
    # Training.
    "LabelSmoothedCrossEntropy": "training.losses",
    "TransformerSchedule": "training.schedule",
    "paper_optimizer": "training.schedule",
}
_MODULES = (
    "config",
    "data",
    "decoding",
    "evaluation",
    "layers",
    "model_dir",
    "parsing",
    "presets",
    "tokenization",
    "training",
)

__all__ = ["__version__", *_MODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        module = importlib.import_module(f"{__name__}.{_NAMES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
