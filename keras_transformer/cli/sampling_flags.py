"""The flags of sampling."""

from __future__ import annotations

from typing import Any

from absl import flags

_TEMPERATURE = flags.DEFINE_float(
    "temperature",
    1.0,
    "Sampling: below 1 favours likely tokens; 0 takes the likeliest.",
    lower_bound=0.0,
)
_TOP_K = flags.DEFINE_integer(
    "top_k", 0, "Sampling: draw from this many tokens; 0: all.", lower_bound=0
)
_TOP_P = flags.DEFINE_float(
    "top_p",
    1.0,
    "Sampling: draw from the likeliest tokens that together have this probability.",
    lower_bound=0.0,
    upper_bound=1.0,
)
_SEED = flags.DEFINE_integer("seed", 0, "Sampling: other seeds, other translations.")


def given() -> dict[str, Any]:
    """Return the fields of `translation.sampling.Sampling`."""
    return {flag.name: flag.value for flag in (_TEMPERATURE, _TOP_K, _TOP_P, _SEED)}
