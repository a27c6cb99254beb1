"""Lets Keras find the package's classes in saved models before they are imported.

Keras loads a class of another package only if the class is registered; it never imports
a module that a file names. Our classes register when their modules are imported, which
imports TensorFlow and takes seconds. `import keras_transformer` must not: instead,
stand-ins are registered as soon as Keras is imported. A stand-in imports its class when
a file needs it.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from typing import Any

# Module of every registered class. Saved models hold the names on the left, so a name
# stays here even when its class moves to another module.
MODULES = {
    "Adam": "training.optimizer",
    "Decoder": "layers.decoder",
    "DecoderLayer": "layers.decoder",
    "Dropout": "layers.dropout",
    "Encoder": "layers.encoder",
    "EncoderLayer": "layers.encoder",
    "FeedForward": "layers.feed_forward",
    "FineTuningSchedule": "training.schedule",
    "LabelSmoothedCrossEntropy": "training.losses",
    "LayerNormalization": "layers.layer_norm",
    "MultiHeadAttention": "layers.attention",
    "Perplexity": "model.metrics",
    "PositionalEncoding": "layers.positional_encoding",
    "Residual": "layers.residual",
    "RestrictedSelfAttention": "layers.restricted_attention",
    "TokenEmbedding": "layers.embedding",
    "Transformer": "model.transformer",
    "TransformerSchedule": "training.schedule",
}


class StandIn:
    """Stands for a registered class in Keras's registry until its module is imported.

    Args:
        name: Of the class, a key of `MODULES`.
    """

    def __init__(self, name: str):
        self.name = name

    def from_config(self, config: dict[str, Any]) -> Any:
        """Import the class, which then takes this place, and make an object of it."""
        module = importlib.import_module(f"keras_transformer.{MODULES[self.name]}")
        return getattr(module, self.name).from_config(config)


class _KerasFinder:
    """Finds Keras where Python does, and has the stand-ins registered after it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return where Keras is; None for every other module (`sys.meta_path`)."""
        if name != "keras":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            import_keras = spec.loader.exec_module

            def import_and_register(keras):
                import_keras(keras)
                _register(keras)

            spec.loader.exec_module = import_and_register
        return spec


def register() -> None:
    """Register the stand-ins: now if Keras is imported already, else when it is."""
    if "keras" in sys.modules:
        _register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _KerasFinder())


def _register(keras: Any) -> None:
    registry = keras.saving.get_custom_objects()
    for name in MODULES:
        registry.setdefault(f"keras_transformer>{name}", StandIn(name))
