"""Configurations whose outputs are as long as a benchmark asks for."""

from __future__ import annotations

import dataclasses
from typing import Any

from keras_transformer import presets


def preset_of(
    name: str, source_length: int, steps: int, **search: Any
) -> presets.Preset:
    """Return a preset with which sources of one length give outputs of one length.

    Args:
        name: Of the preset.
        source_length: Tokens of a source, EOS counted.
        steps: Tokens of an output that does not end before its limit.
        **search: Other fields of its `DecodingConfig`.

    Raises:
        ValueError: If the preset is no translator's, or `steps` below `source_length`.
    """
    preset = presets.get(name)
    if preset.model.target_vocab_size or not preset.model.share_embeddings:
        raise ValueError(
            f"--preset={name} is a parser's; this benchmark is for translation."
        )
    if steps < source_length:
        raise ValueError(
            "--steps must be at least --source_length: an output may always be as long "
            f"as its source. Received: steps={steps}, source_length={source_length}."
        )
    decoding = dataclasses.replace(
        preset.decoding,
        **search,
        extra_decode_length=steps - source_length,
        max_input_length=max(preset.decoding.max_input_length, source_length),
    )
    return dataclasses.replace(preset, decoding=decoding)
