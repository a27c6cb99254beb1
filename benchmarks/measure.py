"""What the benchmarks share: medians, what they ran on, lines of JSON."""

from __future__ import annotations

import datetime
import json
import os
import platform
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


def machine() -> dict[str, Any]:
    """Describe the machine, the versions and the day."""
    import keras
    import tensorflow as tf

    return {
        "date": datetime.date.today().isoformat(),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "gpus": [
            tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
            for gpu in tf.config.list_physical_devices("GPU")
        ],
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }


def write_line(**values: Any) -> None:
    """Print a result as one line of JSON."""
    print(json.dumps(values, ensure_ascii=False), flush=True)


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line for line in file if line.startswith("model name")]
    except OSError:
        lines = []
    return lines[0].split(":", 1)[1].strip() if lines else platform.processor()
