"""On which devices a model is trained."""

from __future__ import annotations

import tensorflow as tf

from keras_transformer.config import check_choice

DISTRIBUTIONS = ("auto", "one_device", "mirrored")


def make_strategy(
    distribution: str = "auto", num_replicas: int | None = None
) -> tf.distribute.Strategy:
    """Make the strategy that `fit` runs under.

    Without GPUs, replicas run on logical CPU devices: no faster, but the same code.

    Args:
        distribution: "one_device"; "mirrored", one replica a device; or "auto":
            "mirrored" where there are several GPUs or replicas.
        num_replicas: Devices to use; None: all GPUs, else one CPU.

    Raises:
        ValueError: If the choice is unknown, or there are fewer devices than replicas.
        RuntimeError: If logical CPU devices are needed after TensorFlow has started.
    """
    check_choice("distribution", distribution, DISTRIBUTIONS)
    gpus = tf.config.list_physical_devices("GPU")
    if num_replicas is None:
        num_replicas = max(len(gpus), 1) if distribution != "one_device" else 1
    if num_replicas < 1 or (distribution == "one_device" and num_replicas > 1):
        raise ValueError(
            "`num_replicas` must be at least 1, and 1 on one device. Received: "
            f"num_replicas={num_replicas}, distribution={distribution!r}."
        )
    if gpus and num_replicas > len(gpus):
        raise ValueError(
            f"`num_replicas` must be at most the number of GPUs, {len(gpus)}. "
            f"Received: num_replicas={num_replicas}."
        )
    if distribution == "auto":
        distribution = "mirrored" if num_replicas > 1 else "one_device"
    kind = "GPU" if gpus else "CPU"
    if distribution == "one_device":
        return tf.distribute.OneDeviceStrategy(f"/{kind}:0")
    if not gpus:
        _split_cpu(num_replicas)
    return tf.distribute.MirroredStrategy(
        [f"/{kind}:{number}" for number in range(num_replicas)]
    )


def _split_cpu(num_replicas: int) -> None:
    """Make one logical device a replica out of the CPU."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    current = tf.config.get_logical_device_configuration(cpu) or [None]
    if len(current) >= num_replicas:
        return
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * num_replicas
    )
