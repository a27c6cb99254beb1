"""What the benchmarks share: medians and spread, the machine's rate, lines of JSON."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any


def seconds_of_calls(run: Callable[[], Any], repeats: int) -> list[float]:
    """Return the time of each of several calls.

    Args:
        run: What to time; returns when the work is done.
        repeats: Calls.
    """
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return times


def median_seconds(run: Callable[[], Any], repeats: int = 7) -> float:
    """Return the median time of a call, after one that is not counted.

    Args:
        run: What to time; returns when the work is done.
        repeats: Calls.
    """
    run()
    return statistics.median(seconds_of_calls(run, repeats))


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return median, smallest and largest value by the keys of a line of JSON.

    Args:
        name: What the values are of, with their unit: "step_s" gives "median_step_s",
            "min_step_s" and "max_step_s".
        values: At least one.
    """
    return {
        f"median_{name}": rounded(statistics.median(values)),
        f"min_{name}": rounded(min(values)),
        f"max_{name}": rounded(max(values)),
    }


def rounded(value: float, digits: int = 5) -> float:
    """Return a number with so many significant digits."""
    return float(f"{value:.{digits}g}")


def matmul_gflops(dtype: str = "float32", size: int = 2048, repeats: int = 7) -> float:
    """Measure how fast TensorFlow multiplies square matrices here and now.

    Args:
        dtype: "float32", "bfloat16" or "float16".
        size: Rows and columns of both matrices.
        repeats: Products, of which the fastest counts.

    Returns:
        1e9 operations a second, 2 * size^3 a product. No model can pass it by much on
        the same machine, beside the same other programs.
    """
    import tensorflow as tf

    left, right = (
        tf.cast(tf.random.stateless_normal((size, size), (seed, 0)), dtype)
        for seed in range(2)
    )

    def multiply():
        # One element waits for the product, and costs no transfer from a GPU.
        return tf.matmul(left, right)[0, 0].numpy()

    multiply()
    return 2 * size**3 / min(seconds_of_calls(multiply, repeats)) / 1e9


def memory_kib(name: str = "VmHWM") -> int:
    """Return a figure of this process's memory: "VmHWM" its peak, "VmRSS" it now.

    Raises:
        OSError: If the system does not tell: this is for Linux.
    """
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise OSError(f"/proc/self/status has no {name}: this benchmark needs Linux.")


def surroundings(dtype: str) -> dict[str, Any]:
    """Return hardware and versions, how busy the machine is, and its matmul rate.

    Args:
        dtype: That the matrix products run in.
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
