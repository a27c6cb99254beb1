"""The flags that say how a program searches."""

from __future__ import annotations

from typing import Any

from absl import flags

BEAM_SIZE = flags.DEFINE_integer(
    "beam_size", None, "Hypotheses kept alive; 1 is greedy; default: the model's."
)
LENGTH_PENALTY_ALPHA = flags.DEFINE_float(
    "length_penalty_alpha", None, "alpha of the length penalty; default: the model's."
)


def given() -> dict[str, Any]:
    """Return the fields of `DecodingConfig` that the flags replace.

    `ModelDir.load_translator` and `load_parser` take them.
    """
    holders = (BEAM_SIZE, LENGTH_PENALTY_ALPHA)
    return {flag.name: flag.value for flag in holders if flag.value is not None}
