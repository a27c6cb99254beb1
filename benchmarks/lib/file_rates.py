"""Steady rate and start of programs that translate a long and a short file."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.lib import measure
from benchmarks.lib.timed_process import TimedProcess

# The least time that one file can take longer than the other: clocks are no better.
_LEAST_SECONDS = 1e-3


def steady_rates(
    few: Sequence[TimedProcess], every: Sequence[TimedProcess], num_more: int
) -> list[float]:
    """Return the lines a second of each round.

    Args:
        few: Runs on the short file, one a round.
        every: Runs on the long file.
        num_more: Lines that the long file has more.
    """
    return [
        num_more / max(_LEAST_SECONDS, long.seconds - short.seconds)
        for short, long in zip(few, every, strict=True)
    ]


def described(
    few: Sequence[TimedProcess],
    every: Sequence[TimedProcess],
    num_few: int,
    num_lines: int,
) -> dict[str, float]:
    """Return the numbers of a program: see benchmarks/README.md.

    Args:
        few: Runs on the short file, one a round.
        every: Runs on the long file.
        num_few: Lines of the short file.
        num_lines: Lines of the long file.
    """
    rates = steady_rates(few, every, num_lines - num_few)
    starts = [
        short.seconds - num_few / rate for short, rate in zip(few, rates, strict=True)
    ]
    cores = os.cpu_count() or 1
    busy = [
        (long.cpu_seconds - short.cpu_seconds)
        / (cores * max(_LEAST_SECONDS, long.seconds - short.seconds))
        for short, long in zip(few, every, strict=True)
    ]
    return {
        **measure.spread("file_s", [long.seconds for long in every]),
        **measure.spread("lines_per_s", rates),
        "start_s": measure.rounded(statistics.median(starts), 3),
        "cores_busy": measure.rounded(statistics.median(busy), 3),
        "peak_megabytes": round(max(long.peak_bytes for long in every) / 1e6),
    }


def ratios(
    rates: Mapping[str, Sequence[float]], precisions: Sequence[str]
) -> dict[str, float]:
    """Return the export's steady rate by that of CTranslate2's faster setting.

    Args:
        rates: By program the rates of its rounds: that of the export is "saved_model".
        precisions: Of the programs named "ctranslate2_PRECISION_WORKERS".
    """
    found = {}
    medians = {name: statistics.median(values) for name, values in rates.items()}
    own = medians.get("saved_model")
    for precision in precisions:
        peers = [medians[name] for name in medians if f"_{precision}_" in name]
        if peers and own:
            ratio = own / max(peers)
            found[f"times_ctranslate2_{precision}"] = measure.rounded(ratio, 3)
    return found
