"""Counts, durations, sizes and values in words."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
# Characters of a value in a message.
_SHOWN = 60


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return "1 shape", "2 shapes", "1,000 shapes"; `plural` for irregular nouns."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Return "45 s", "2 min 10 s", "3 h 5 min" or "2 d 4 h"."""
    seconds = round(seconds)
    for (name, size), (small_name, small_size) in itertools.pairwise(_UNITS):
        if seconds >= size:
            whole, rest = divmod(round(seconds / small_size), size // small_size)
            return f"{whole} {name} {rest} {small_name}"
    return f"{seconds} s"


def shown(value: Any) -> str:
    """Return a value for a message, on one short line."""
    line = " ".join(repr(value).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."


def unequal_inputs(sizes: Mapping[str, Any]) -> str:
    """Return the error of a signature's inputs whose batches differ in size.

    Args:
        sizes: The number of rows of each input, by name.
    """
    received = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return (
        "The inputs must have the same number of items, one for each text. Received: "
        f"{received}."
    )
