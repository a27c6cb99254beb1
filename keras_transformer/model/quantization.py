"""Which layers of a model are quantized, for its configuration."""

from __future__ import annotations

from typing import Any

import keras


def get_config(model: keras.Model) -> dict[str, Any]:
    """Return how each quantized layer is quantized, by its path inside the model."""
    return {
        _path(layer): keras.saving.serialize_keras_object(layer.quantization_config)
        for layer in model._flatten_layers()
        if layer.quantization_mode is not None
    }


def apply(model: keras.Model, config: dict[str, Any]) -> None:
    """Quantize the same layers of a new model, whose weights are set afterwards.

    Args:
        model: A built model that is not quantized.
        config: From `get_config`.
    """
    for layer in model._flatten_layers():
        if _path(layer) in config:
            how = keras.saving.deserialize_keras_object(config[_path(layer)])
            layer.quantize(config=how)


def _path(layer):
    return (layer.path or "").partition("/")[2]  # None: has no weights
