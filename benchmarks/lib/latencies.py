"""Rates and percentiles of the answers of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.lib import measure

_PERCENTILES = (50, 99)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return "p50_s" and "p99_s" of latencies."""
    return {
        f"p{each}_s": measure.rounded(float(np.percentile(seconds, each)), 3)
        for each in _PERCENTILES
    }


def of_locust(statistics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarize what Locust prints with --json.

    Args:
        statistics: An item for each name of requests: "refused", "wrong", or others,
            whose answers were right unless they failed.

    Returns:
        "right", "refused", "wrong" and "failed" (neither) as numbers of requests;
        "texts_per_s" and percentiles of the right ones.
    """
    counts = {"right": 0, "refused": 0, "wrong": 0, "failed": 0}
    rate, seconds = 0.0, []
    for each in statistics:
        count, failed = each["num_requests"], each["num_failures"]
        if each["name"] in ("refused", "wrong"):
            counts[each["name"]] += count
            continue
        counts["right"] += count - failed
        counts["failed"] += failed
        duration = each["last_request_timestamp"] - each["start_time"]
        rate += (count - failed) / max(duration, 1e-3)
        for milliseconds, times in each["response_times"].items():
            seconds += [float(milliseconds) / 1000] * times
    found: dict[str, Any] = {**counts, "texts_per_s": measure.rounded(rate)}
    return found | (percentiles(seconds) if seconds else {})
