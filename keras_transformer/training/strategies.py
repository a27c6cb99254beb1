"""On which devices a model is trained, and which of several processes this one is."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from keras_transformer.config import check_choice

DISTRIBUTIONS = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


def make_strategy(
    distribution: str = "auto", num_replicas: int | None = None
) -> tf.distribute.Strategy:
    """Make the strategy that `fit` runs under; before TensorFlow has run anything.

    Without GPUs, replicas run on logical CPU devices: no faster, but the same code.

    Args:
        distribution: "one_device"; "mirrored", one replica a device; "multi_worker",
            the same in each of the processes that the variable TF_CONFIG names; "tpu",
            all cores of the TPU that this machine has or TPU_NAME names; or "auto":
            "multi_worker" where TF_CONFIG names several, "mirrored" where there are
            several GPUs or replicas.
        num_replicas: Devices of this process to use; None: all GPUs, else one CPU.

    Raises:
        ValueError: If the choice is unknown, there are fewer devices than replicas, or
            TF_CONFIG is absent or names no workers.
        RuntimeError: If logical CPU devices, or some of a worker's GPUs, are asked for
            after TensorFlow has started.
    """
    check_choice("distribution", distribution, DISTRIBUTIONS)
    if distribution == "tpu":
        return _tpu_strategy()
    if distribution == "multi_worker":
        check_cluster()
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
        if len(_cluster_tasks(os.environ.get("TF_CONFIG", ""))) > 1:
            distribution = "multi_worker"
    if gpus:
        _show_only(gpus[:num_replicas], distribution)
    if distribution == "one_device":
        # TensorFlow's own: the first GPU, else the CPU. The iterators of any other
        # strategy may wait as long again as they have lived when `fit` ends (2.21).
        return tf.distribute.get_strategy()
    if not gpus:
        _split_cpu(num_replicas)
    if distribution == "multi_worker":
        if not gpus and num_replicas > 1:
            raise ValueError(
                "`num_replicas` must be 1 in a worker without GPUs: start more. "
                f"Received: {num_replicas}."
            )
        return tf.distribute.MultiWorkerMirroredStrategy()
    kind = "GPU" if gpus else "CPU"
    return tf.distribute.MirroredStrategy(
        [f"/{kind}:{number}" for number in range(num_replicas)]
    )


def check_cluster() -> None:
    """Raise unless TF_CONFIG says which workers there are and which this is.

    Raises:
        ValueError: If it does not; the message has an example.
    """
    given = os.environ.get("TF_CONFIG", "")
    if not _cluster_tasks(given):
        raise ValueError(
            "--distribution=multi_worker needs the environment variable TF_CONFIG, "
            'such as {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, '
            '"task": {"type": "worker", "index": 0}}; bin/launch_local_workers.py sets '
            f"it for workers on one machine. Received: TF_CONFIG={given!r}."
        )


@dataclasses.dataclass(frozen=True)
class Process:
    """This process among those that train together; alone it is the chief."""

    strategy: tf.distribute.Strategy
    # The chief, number 0, writes files and says what happens.
    number: int = 0
    count: int = 1

    @property
    def is_chief(self) -> bool:
        """Whether this process writes."""
        return self.number == 0

    @property
    def num_replicas(self) -> int:
        """Replicas of all processes."""
        return self.strategy.num_replicas_in_sync

    @property
    def shares(self) -> dict[str, Any]:
        """What the datasets of `data` need to know to yield this process's rows."""
        if self.count == 1:
            return {}
        own = self.num_replicas // self.count
        replicas = range(self.number * own, (self.number + 1) * own)
        return {"replicas": replicas, "num_replicas": self.num_replicas}

    def distribute(self, make_dataset: Callable[..., tf.data.Dataset]) -> Any:
        """Return what `fit` takes of a dataset.

        Args:
            make_dataset: Takes `shares` as keywords.
        """
        dataset = make_dataset(**self.shares)
        if self.count == 1:
            return dataset
        # Keras would hand each worker the same part of a batch after the other.
        return self.strategy.distribute_datasets_from_function(lambda context: dataset)

    def sum_over_processes(self, value: float) -> float:
        """Add up a number that each process gives; all must call this together."""
        if self.count == 1:
            return value

        own = tf.constant(value / (self.num_replicas // self.count))
        total = _sum_over_replicas(self.strategy, own)
        return float(self.strategy.experimental_local_results(total)[0])

    def from_chief(self, value: float) -> float:
        """Return the number that the chief gives; all must call this together."""
        return self.sum_over_processes(value if self.is_chief else 0.0)


def this_process(strategy: tf.distribute.Strategy) -> Process:
    """Return which process this is among those that a strategy spans."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return Process(strategy)
    tasks = _cluster_tasks(os.environ["TF_CONFIG"])
    own = strategy.cluster_resolver
    return Process(strategy, tasks.index((own.task_type, own.task_id)), len(tasks))


@tf.function
def _sum_over_replicas(strategy, value):
    def add_up():
        context = tf.distribute.get_replica_context()
        own = tf.identity(value)  # on the replica's device
        return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

    return strategy.run(add_up)


def _cluster_tasks(text: str) -> list[tuple[str, int]]:
    """Return (type, index) of those that train, the chief first; [] if there are none.

    TF_CONFIG may name others too, such as an evaluator.
    """
    try:
        cluster = json.loads(text)["cluster"]
        return [
            (kind, index)
            for kind in ("chief", "worker")
            for index in range(len(cluster.get(kind, [])))
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _tpu_strategy() -> tf.distribute.Strategy:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(
        os.environ.get("TPU_NAME", "local")
    )
    return tf.distribute.TPUStrategy(resolver)


def _show_only(gpus: Sequence[Any], distribution: str) -> None:
    """Keep TensorFlow off the other GPUs, whose memory it would take too."""
    try:
        tf.config.set_visible_devices(gpus, "GPU")
    except RuntimeError:
        # TensorFlow has started and taken them all. Only the strategy of several
        # workers would train on them too.
        if distribution == "multi_worker":
            raise


def _split_cpu(num_replicas: int) -> None:
    """Make one logical device a replica out of the CPU."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    current = tf.config.get_logical_device_configuration(cpu) or [None]
    if len(current) >= num_replicas:
        return
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * num_replicas
    )
