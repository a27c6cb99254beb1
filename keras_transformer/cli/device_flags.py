"""The flags that say what a program trains on."""

from __future__ import annotations

from typing import Any

from absl import flags

DISTRIBUTION = flags.DEFINE_enum(
    "distribution",
    "auto",
    ["auto", "one_device", "mirrored", "multi_worker", "tpu"],
    "Devices to train on; auto: the workers of TF_CONFIG, else all GPUs, else one CPU.",
)
NUM_REPLICAS = flags.DEFINE_integer(
    "num_replicas",
    None,
    "Devices of this machine to use; without GPUs, logical CPU devices.",
    lower_bound=1,
)
MAX_TOKENS_PER_REPLICA = flags.DEFINE_integer(
    "max_tokens_per_replica",
    None,
    "Tokens of one side that fit on a device; a batch with more is cut into pieces, so "
    "that --tokens_per_batch holds on any number of devices. Default: no limit.",
    lower_bound=1,
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
    """Return the flags that `training.run.RunOptions` takes, by its names.

    Raises:
        ValueError: If they exclude each other.
    """
    if DISTRIBUTION.value == "one_device" and NUM_REPLICAS.value not in (None, 1):
        raise ValueError(
            f"--num_replicas={NUM_REPLICAS.value} and --distribution=one_device "
            "exclude each other; give --distribution=mirrored."
        )
    return {
        "distribution": DISTRIBUTION.value,
        "num_replicas": NUM_REPLICAS.value,
        "max_tokens_per_replica": MAX_TOKENS_PER_REPLICA.value,
        "jit_compile": JIT_COMPILE.value,
    }
