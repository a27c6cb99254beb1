"""What the benchmarks share: medians and lines of JSON."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any


def median_seconds(run: Callable[[], Any], repeats: int = 7) -> float:
    """Return the median time of a call, after one that is not counted.

    Args:
        run: What to time; returns when the work is done.
        repeats: Calls.
    """
    run()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def write_line(**values: Any) -> None:
    """Print a result as one line of JSON."""
    print(json.dumps(values, ensure_ascii=False), flush=True)
