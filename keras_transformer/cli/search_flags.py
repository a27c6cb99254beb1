"""The flags of the search: fields of `DecodingConfig`, which `open_model` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from absl import flags

from keras_transformer.cli import preset_flags
from keras_transformer.config import DecodingConfig

_HOLDERS = preset_flags.define(
    DecodingConfig,
    only=(
        *("beam_size", "length_penalty_alpha", "no_repeat_ngram_size"),
        *("max_repetitions", "early_stopping", "allow_unk"),
    ),
    default="the model's",
)
# All of them. An export has fixed them.
ALL = tuple(_HOLDERS.values())


def given() -> dict[str, Any]:
    """Return the fields that the flags replace."""
    return preset_flags.given(_HOLDERS)


def check_num_best(num_best: flags.FlagHolder, config: Mapping[str, Any]) -> None:
    """Raise ValueError if more hypotheses are requested than are kept alive.

    Args:
        num_best: The flag with the requested number.
        config: The model's `config.json`, if known.
    """
    beam_size, owner = _HOLDERS["beam_size"].value, ""
    if beam_size is None:
        beam_size = config.get("decoding", {}).get("beam_size")
        owner = ", the model's own"
    if None not in (num_best.value, beam_size) and num_best.value > beam_size:
        raise ValueError(
            f"--{num_best.name}={num_best.value} must be at most --beam_size="
            f"{beam_size}{owner}. Give a larger --beam_size."
        )
