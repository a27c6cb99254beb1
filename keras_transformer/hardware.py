"""The machine a program runs on, and what a measurement says about it."""

from __future__ import annotations

import datetime
import functools
import os
import pathlib
import platform
from typing import Any

# Environment variables that decide on the speed of TensorFlow.
_SETTINGS = (
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_ONEDNN_THREADPOOL_USE_CALLER_THREAD",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)

# Where Linux describes the processors, and its word for products of 8-bit integers that
# are added in 32 bits. Without them a product is slower than in float32, and overflows.
CPU_INFO = "/proc/cpuinfo"
VNNI = "avx512_vnni"


def describe() -> dict[str, Any]:
    """Return the date, the hardware and the versions of the software."""
    import keras
    import tensorflow as tf

    return {
        "date": datetime.date.today().isoformat(),
        "cpu": _cpu_field("model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "gpus": [
            tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
            for gpu in tf.config.list_physical_devices("GPU")
        ],
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        **{name: os.environ.get(name) for name in _SETTINGS},
    }


def in_words(machine: dict[str, Any]) -> str:
    """Return the result of `describe` as one phrase."""
    gpus = ", ".join(machine["gpus"])
    return (
        f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, "
        + (f"{gpus}, " if gpus else "")
        + f"TensorFlow {machine['tensorflow']}, Keras {machine['keras']}"
    )


@functools.cache
def has_avx2_alone() -> bool:
    """Whether the CPU has AVX2 but not AVX-512; False if unknown."""
    flags = _cpu_field("flags").split()
    return "avx2" in flags and "avx512f" not in flags


@functools.cache
def has_bfloat16() -> bool:
    """Whether the CPU multiplies in bfloat16; False if unknown."""
    return "bf16" in cpu_features()


def has_fast_int8() -> bool:
    """Whether a search is fastest with 8-bit integers; False if unknown."""
    return VNNI in cpu_features().split() and not has_gpu()


def has_gpu() -> bool:
    """Whether TensorFlow sees a GPU that is not hidden from it."""
    import tensorflow as tf

    return bool(tf.config.get_visible_devices("GPU"))


def device() -> str:
    """Return what a search runs on: "gpu" or "cpu"."""
    return "gpu" if has_gpu() else "cpu"


def cpu_features() -> str:
    """Return the names of the CPU's instruction sets; "" if unknown."""
    return _cpu_field("flags") or _cpu_field("Features")  # x86, ARM


def cache_folder(name: str) -> pathlib.Path:
    """Return a folder of the user's cache for files of one kind; it may not exist.

    Raises:
        RuntimeError: If the user has no home.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "keras_transformer" / name


def _cpu_field(name: str) -> str:
    """Return a field of the first core of `CPU_INFO`, "" if there is none."""
    try:
        with open(CPU_INFO, encoding="utf-8") as file:
            lines = [line for line in file if line.startswith(name)]
    except OSError:
        lines = []
    return lines[0].split(":", 1)[1].strip() if lines else ""
