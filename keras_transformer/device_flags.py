"""The flags that say what a program trains on."""

from __future__ import annotations

from typing import Any

from absl import flags

DISTRIBUTION = flags.DEFINE_enum(
    "distribution",
    "auto",
    ["auto", "one_device", "mirrored"],
    "Devices to train on; auto: all GPUs, else one CPU.",
)
NUM_REPLICAS = flags.DEFINE_integer(
    "num_replicas", None, "Devices to use; without GPUs, logical CPU devices."
)
JIT_COMPILE = flags.DEFINE_enum(
    "jit_compile",
    "auto",
    ["auto", "true", "false"],
    "Whether gradients are computed under XLA; auto: where there is a GPU.",
)
PRECISION = flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "mixed_bfloat16", "mixed_float16"],
    "Keras's dtype policy.",
)


def options() -> dict[str, Any]:
    """Return the flags that `training.run.RunOptions` takes, by its names."""
    return {
        "distribution": DISTRIBUTION.value,
        "num_replicas": NUM_REPLICAS.value,
        "jit_compile": JIT_COMPILE.value,
    }
