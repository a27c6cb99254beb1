"""The flags of the search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from absl import flags

BEAM_SIZE = flags.DEFINE_integer(
    "beam_size",
    None,
    "Hypotheses kept alive; 1 is greedy search; default: the model's.",
    lower_bound=1,
)
LENGTH_PENALTY_ALPHA = flags.DEFINE_float(
    "length_penalty_alpha",
    None,
    "alpha of the length penalty; 0 is none; default: the model's.",
    lower_bound=0.0,
)
NO_REPEAT_NGRAM_SIZE = flags.DEFINE_integer(
    "no_repeat_ngram_size",
    None,
    "No n-gram of this many tokens occurs twice in a translation, which stops loops; "
    "0 is off; default: the model's.",
    lower_bound=0,
)
MAX_REPETITIONS = flags.DEFINE_integer(
    "max_repetitions",
    None,
    "A phrase of up to 8 tokens occurs at most this often in a row in a translation; 0 "
    "is off; default: the model's.",
    lower_bound=0,
)
EARLY_STOPPING = flags.DEFINE_bool(
    "early_stopping",
    None,
    "Stop the search of a sentence as soon as --beam_size hypotheses have ended; "
    "faster, and the best one may be missed; default: the model's.",
)
ALLOW_UNK = flags.DEFINE_bool(
    "allow_unk",
    None,
    "A translation may have unknown tokens, of a vocabulary that lacks characters; "
    "default: the model's.",
)
# All of them. An export has fixed them.
ALL = (
    BEAM_SIZE,
    LENGTH_PENALTY_ALPHA,
    NO_REPEAT_NGRAM_SIZE,
    MAX_REPETITIONS,
    EARLY_STOPPING,
    ALLOW_UNK,
)


def given() -> dict[str, Any]:
    """Return the fields of `DecodingConfig` that the flags replace.

    `opening.open_model` takes them.
    """
    return {flag.name: flag.value for flag in ALL if flag.value is not None}


def check_num_best(num_best: flags.FlagHolder, config: Mapping[str, Any]) -> None:
    """Raise ValueError if more hypotheses are requested than are kept alive.

    Args:
        num_best: The flag with the requested number.
        config: The model's `config.json`, if known.
    """
    beam_size, owner = BEAM_SIZE.value, ""
    if beam_size is None:
        beam_size = config.get("decoding", {}).get("beam_size")
        owner = ", the model's own"
    if None not in (num_best.value, beam_size) and num_best.value > beam_size:
        raise ValueError(
            f"--{num_best.name}={num_best.value} must be at most --beam_size="
            f"{beam_size}{owner}. Give a larger --beam_size."
        )
