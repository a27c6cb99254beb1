"""What a measurement ran on."""

from __future__ import annotations

import datetime
import os
import platform
from typing import Any

import keras
import tensorflow as tf


def describe() -> dict[str, Any]:
    """Describe the machine, the versions and the day."""
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
        "TF_ENABLE_ONEDNN_OPTS": os.environ.get("TF_ENABLE_ONEDNN_OPTS"),
    }


def in_words(machine: dict[str, Any]) -> str:
    """Return what `describe` found as one phrase for a report."""
    gpus = ", ".join(machine["gpus"])
    return (
        f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, "
        + (f"{gpus}, " if gpus else "")
        + f"TensorFlow {machine['tensorflow']}, Keras {machine['keras']}"
    )


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line for line in file if line.startswith("model name")]
    except OSError:
        lines = []
    return lines[0].split(":", 1)[1].strip() if lines else platform.processor()
