"""Helpers of all benchmarks: timing, the machine's matmul rate, lines of JSON."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any


def seconds_of_calls(run: Callable[[], Any], repeats: int) -> list[float]:
    """Return the seconds of each of several calls.

    Args:
        run: The function to time; returns when the work is done.
        repeats: Number of calls.
    """
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return times


def median_seconds(run: Callable[[], Any], repeats: int = 7) -> float:
    """Return the median seconds of a call, after one untimed call.

    Args:
        run: The function to time; returns when the work is done.
        repeats: Number of timed calls.
    """
    run()
    return statistics.median(seconds_of_calls(run, repeats))


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return median, minimum and maximum as fields of a result.

    Args:
        name: Name with unit: "step_s" gives "median_step_s", "min_step_s" and
            "max_step_s".
        values: At least one value.
    """
    return {
        f"median_{name}": rounded(statistics.median(values)),
        f"min_{name}": rounded(min(values)),
        f"max_{name}": rounded(max(values)),
    }


def rounded(value: float, digits: int = 5) -> float:
    """Return a number rounded to `digits` significant digits."""
    return float(f"{value:.{digits}g}")


def matmul_gflops(dtype: str = "float32", size: int = 2048, repeats: int = 7) -> float:
    """Measure how fast TensorFlow currently multiplies square matrices.

    Args:
        dtype: "float32", "bfloat16" or "float16".
        size: Rows and columns of both matrices.
        repeats: Number of products; the fastest counts.

    Returns:
        GFLOP/s, with 2 * size^3 operations per product: an approximate upper bound for
        any model on this machine under the same load.
    """
    import tensorflow as tf

    left, right = (
        tf.cast(tf.random.stateless_normal((size, size), (seed, 0)), dtype)
        for seed in range(2)
    )

    def multiply():
        # Reading one element waits for the product without copying it from a GPU.
        return tf.matmul(left, right)[0, 0].numpy()

    multiply()
    return 2 * size**3 / min(seconds_of_calls(multiply, repeats)) / 1e9


def memory_kib(name: str = "VmHWM", process: int | str = "self") -> int:
    """Return the memory of a process: "VmHWM" is the peak, "VmRSS" the current size.

    Args:
        name: Which of the two.
        process: Its id; "self": this process.

    Raises:
        OSError: If the system does not report it; Linux only.
    """
    status = pathlib.Path(f"/proc/{process}/status")
    for line in status.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise OSError(f"{status} has no {name}: this benchmark needs Linux.")


def environment(dtype: str) -> dict[str, Any]:
    """Return hardware, versions, load average, and the machine's matmul rate.

    Args:
        dtype: Data type of the matrix products.
    """
    from keras_transformer.hardware import describe

    load = os.getloadavg()[0]  # before the products add to it
    return {
        "matmul_gflops": rounded(matmul_gflops(dtype)),
        "matmul_dtype": dtype,
        "load_average": round(load, 2),
        "machine": describe(),
    }


def write_line(**values: Any) -> None:
    """Print a result as one line of JSON."""
    print(json.dumps(values, ensure_ascii=False), flush=True)
