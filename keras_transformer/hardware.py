"""What a measurement ran on."""

from __future__ import annotations

import datetime
import functools
import os
import platform
from typing import Any

import keras

# What TensorFlow reads of the environment that decides on its speed.
_SETTINGS = (
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_ONEDNN_THREADPOOL_USE_CALLER_THREAD",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)


def describe() -> dict[str, Any]:
    """Describe the machine, the versions and the day."""
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
        **{name: os.environ.get(name) for name in _SETTINGS},
    }


def in_words(machine: dict[str, Any]) -> str:
    """Return what `describe` found as one phrase for a report."""
    gpus = ", ".join(machine["gpus"])
    return (
        f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, "
        + (f"{gpus}, " if gpus else "")
        + f"TensorFlow {machine['tensorflow']}, Keras {machine['keras']}"
    )


@functools.cache
def has_avx2_alone() -> bool:
    """Whether the CPU is known to have AVX2 and not AVX-512; Linux tells."""
    flags = _of_cpu("flags").split()
    return "avx2" in flags and "avx512f" not in flags


@functools.cache
def has_gpu() -> bool:
    """Whether TensorFlow sees a GPU, or another backend of Keras is in use."""
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


def _cpu_name() -> str:
    return _of_cpu("model name") or platform.processor()


def _of_cpu(what: str) -> str:
    """Return what Linux says of the first core, "" where it says nothing."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line for line in file if line.startswith(what)]
    except OSError:
        lines = []
    return lines[0].split(":", 1)[1].strip() if lines else ""
