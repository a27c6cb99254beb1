"""The devices a model is trained on, and the rank of this process among several."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from keras_transformer.config import check_choice
from keras_transformer.model import update
from keras_transformer.training.run_options import DISTRIBUTIONS


def make_strategy(
    distribution: str = "auto", num_replicas: int | None = None
) -> tf.distribute.Strategy:
    """Make the strategy that `fit` runs under. Call it before TensorFlow runs anything.

    Without GPUs, replicas are logical CPU devices: not faster, but the same code.

    Args:
        distribution: "one_device"; "mirrored", one replica per device; "multi_worker",
            one replica per device of all processes that the variable TF_CONFIG names;
            "tpu", all cores of this machine's TPU or of the one that TPU_NAME names; or
            "auto": "multi_worker" if TF_CONFIG names several processes, "mirrored" if
            there are several GPUs or replicas, else "one_device".
        num_replicas: Devices of this process to use; None: all GPUs, else one CPU.

    Raises:
        ValueError: If the choice is unknown, there are fewer devices than replicas, or
            TF_CONFIG is absent or names no workers.
        RuntimeError: If TensorFlow has started, and logical CPU devices or only some
            of a worker's GPUs are requested.
    """
    check_choice("distribution", distribution, DISTRIBUTIONS)
    if distribution == "tpu":
        return _tpu_strategy()
    if distribution == "multi_worker":
        check_cluster()
    gpus = tf.config.list_physical_devices("GPU")
    num_replicas = _resolve_replicas(distribution, num_replicas, len(gpus))
    if distribution == "auto":
        distribution = _resolve_auto(num_replicas)
    if gpus:
        _show_only(gpus[:num_replicas], distribution)
    if distribution == "one_device":
        # TensorFlow's default: the first GPU, else the CPU. With any other strategy of
        # TensorFlow 2.21 the end of `fit` may take as long as its iterators have lived.
        return tf.distribute.get_strategy()
    if not gpus:
        _split_cpu(num_replicas)
    if distribution == "multi_worker":
        return _worker_strategy(num_replicas, len(gpus))
    kind = "GPU" if gpus else "CPU"
    return tf.distribute.MirroredStrategy(
        [f"/{kind}:{number}" for number in range(num_replicas)]
    )


def _resolve_replicas(
    distribution: str, num_replicas: int | None, num_gpus: int
) -> int:
    """Return the replicas of this process, if the distribution and the GPUs allow."""
    if num_replicas is None:
        return max(num_gpus, 1) if distribution != "one_device" else 1
    if num_replicas < 1 or (distribution == "one_device" and num_replicas > 1):
        raise ValueError(
            "`num_replicas` must be at least 1, and 1 on one device. Received: "
            f"num_replicas={num_replicas}, distribution={distribution!r}."
        )
    if num_gpus and num_replicas > num_gpus:
        raise ValueError(
            f"`num_replicas` must be at most the number of GPUs, {num_gpus}. "
            f"Received: num_replicas={num_replicas}."
        )
    return num_replicas


def _resolve_auto(num_replicas: int) -> str:
    """Return the distribution that "auto" stands for."""
    if len(_cluster_tasks(os.environ.get("TF_CONFIG", ""))) > 1:
        return "multi_worker"
    return "mirrored" if num_replicas > 1 else "one_device"


def _worker_strategy(num_replicas: int, num_gpus: int) -> tf.distribute.Strategy:
    if not num_gpus and num_replicas > 1:
        raise ValueError(
            "`num_replicas` must be 1 in a worker without GPUs: start more workers. "
            f"Received: num_replicas={num_replicas}."
        )
    return tf.distribute.MultiWorkerMirroredStrategy()


def check_cluster() -> None:
    """Raise ValueError, with an example, unless TF_CONFIG names the workers."""
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
    """This process among those that train together; a single process is the chief."""

    strategy: tf.distribute.Strategy
    # Rank 0 is the chief, which writes files and reports.
    rank: int = 0
    count: int = 1

    @property
    def is_chief(self) -> bool:
        """Whether this process writes."""
        return self.rank == 0

    @property
    def num_replicas(self) -> int:
        """Replicas of all processes."""
        return self.strategy.num_replicas_in_sync

    @property
    def shares(self) -> dict[str, Any]:
        """Arguments with which datasets of `data` yield this process's rows."""
        if self.count == 1:
            return {}
        own = self.num_replicas // self.count
        replicas = range(self.rank * own, (self.rank + 1) * own)
        return {"replicas": replicas, "num_replicas": self.num_replicas}

    def distribute(self, make_dataset: Callable[..., tf.data.Dataset]) -> Any:
        """Return a dataset for `fit` with this process's share of each batch.

        Args:
            make_dataset: Takes `shares` as keywords.
        """
        if isinstance(self.strategy, tf.distribute.MirroredStrategy):
            return self._one_pipeline_per_replica(make_dataset)
        dataset = make_dataset(**self.shares)
        if self.count == 1:
            return dataset
        # Keras would give every worker the same part of a batch.
        return self.strategy.distribute_datasets_from_function(lambda context: dataset)

    def _one_pipeline_per_replica(self, make_dataset):
        """Let each replica read its own part of a batch.

        Where a strategy divides the batches of one pipeline, TensorFlow 2.21 waits at
        the end for its autotune thread, up to as long as the pipeline has run.
        """
        return self.strategy.distribute_datasets_from_function(
            lambda context: make_dataset(
                replicas=[context.input_pipeline_id], num_replicas=self.num_replicas
            ),
            tf.distribute.InputOptions(
                experimental_fetch_to_device=False,
                experimental_replication_mode=(
                    tf.distribute.InputReplicationMode.PER_REPLICA
                ),
            ),
        )

    def sum_over_processes(self, value: float) -> float:
        """Return the sum of `value` over all processes, which must all call this."""
        if self.count == 1:
            return value

        own = tf.constant(value / (self.num_replicas // self.count))
        total = update.sum_from_outside(self.strategy, own)
        return float(self.strategy.experimental_local_results(total)[0])

    def from_chief(self, value: float) -> float:
        """Return the chief's `value` in all processes, which must all call this."""
        return self.sum_over_processes(value if self.is_chief else 0.0)


def this_process(strategy: tf.distribute.Strategy) -> Process:
    """Return this process with its rank among those of a strategy."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return Process(strategy)
    tasks = _cluster_tasks(os.environ["TF_CONFIG"])
    own = strategy.cluster_resolver
    return Process(strategy, tasks.index((own.task_type, own.task_id)), len(tasks))


def _cluster_tasks(text: str) -> list[tuple[str, int]]:
    """Return (type, index) of the tasks that train, the chief first.

    TF_CONFIG may name other tasks too, such as an evaluator.
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
    """Hide the other GPUs, whose memory TensorFlow would reserve too."""
    try:
        tf.config.set_visible_devices(gpus, "GPU")
    except RuntimeError:
        # TensorFlow has started with all of them. Only a strategy of several workers
        # would also train on them.
        if distribution == "multi_worker":
            raise


def _split_cpu(num_replicas: int) -> None:
    """Split the CPU into one logical device per replica."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    current = tf.config.get_logical_device_configuration(cpu) or [None]
    if len(current) >= num_replicas:
        return
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * num_replicas
    )
