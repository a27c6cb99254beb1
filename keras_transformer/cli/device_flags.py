"""The flags that say what a program trains on, and in which precision."""

from __future__ import annotations

from typing import Any

from keras_transformer.cli import field_flags
from keras_transformer.runs.run_config import RunConfig
from keras_transformer.training.run_options import RunOptions

_OPTIONS = field_flags.define(
    RunOptions,
    only=("distribution", "num_replicas", "max_tokens_per_replica", "jit_compile"),
)
FIELDS = tuple(_OPTIONS)
PRECISION = field_flags.define(RunConfig, only=("precision",))["precision"]


def options() -> dict[str, Any]:
    """Return the fields of `RunOptions` that these flags set.

    ValueError if two flags exclude each other.
    """
    given = field_flags.values(_OPTIONS)
    if given["distribution"] == "one_device" and given["num_replicas"] not in (None, 1):
        raise ValueError(
            f"--num_replicas={given['num_replicas']} and --distribution=one_device "
            "exclude each other; give --distribution=mirrored."
        )
    return given
