"""Which layers of a model are quantized or frozen, for its configuration."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import keras


def get_config(model: keras.Model) -> dict[str, Any]:
    """Return the arguments of `apply`, without those that are empty."""
    layers = [*model._flatten_layers(include_self=False)]
    quantized = {
        _path(layer): keras.saving.serialize_keras_object(layer.quantization_config)
        for layer in layers
        if layer.quantization_mode is not None
    }
    frozen = [_path(layer) for layer in layers if layer.weights and not layer.trainable]
    states = {"quantized": quantized, "frozen": frozen}
    return {name: value for name, value in states.items() if value}


def apply(
    model: keras.Model,
    quantized: dict[str, Any],
    frozen: Collection[str],
) -> None:
    """Quantize and freeze the same layers of a new model.

    Args:
        model: A built model with neither. Its weights are set afterwards.
        quantized: How each quantized layer is quantized, by its path inside the model.
        frozen: The paths of the layers that are not trained.
    """
    for layer in model._flatten_layers(include_self=False):
        path = _path(layer)
        if path in quantized:
            how = keras.saving.deserialize_keras_object(quantized[path])
            layer.quantize(config=how)
        if path in frozen:
            layer.trainable = False


def _path(layer):
    # A layer without weights has no path.
    return (layer.path or "").partition("/")[2] or layer.name
