"""Configurations whose outputs have a fixed length."""

from __future__ import annotations

import dataclasses
from typing import Any

from keras_transformer import presets


def preset_of(
    name: str, source_length: int, steps: int, **search: Any
) -> presets.Preset:
    """Return a preset that limits outputs to `steps` tokens.

    Args:
        name: Name of the preset.
        source_length: Tokens of a source, EOS included.
        steps: Limit of an output, in tokens.
        **search: Other fields of its `DecodingConfig`.

    Raises:
        ValueError: If the preset is not for translation, or `steps` is below
            `source_length`.
    """
    preset = presets.get(name)
    if preset.model.target_vocab_size or not preset.model.share_embeddings:
        raise ValueError(
            f"--preset={name} is for parsing, but this benchmark is for translation."
        )
    if steps < source_length:
        raise ValueError(
            "--steps must be at least --source_length, because the limit of an output "
            "is never below the length of its source. "
            f"Received: steps={steps}, source_length={source_length}."
        )
    decoding = dataclasses.replace(
        preset.decoding,
        **search,
        extra_decode_length=steps - source_length,
        max_input_length=max(preset.decoding.max_input_length, source_length),
    )
    return dataclasses.replace(preset, decoding=decoding)
