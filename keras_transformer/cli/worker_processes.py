"""Processes that translate, each with a model and cores of its own.

TensorFlow divides an operation among the cores, and small ones hardly gain by it. For
many lines, processes with a thread each are faster.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Self

from keras_transformer.cli import startup
from keras_transformer.translation.opened_model import OpenedModel

# What loads the model of this process, if it is a worker.
_load: Callable[[], OpenedModel]


class WorkerProcesses:
    """Processes that load a model and translate batches; a context manager.

    Args:
        load: Loads the model, in each process: a function of a module that does not
            import TensorFlow, or a `functools.partial` of one.
        num_workers: Number of processes, which share the cores.

    Raises:
        ChildProcessError: If a process was killed.
        Exception: What `load` raises.

    Attributes:
        model: The model, translating in the processes.
    """

    def __init__(self, load: Callable[[], OpenedModel], num_workers: int):
        num_threads = max((os.cpu_count() or 1) // num_workers, 1)
        with _without_hangup():
            self._pool = concurrent.futures.ProcessPoolExecutor(
                num_workers,
                # A process that has used TensorFlow must not be forked.
                multiprocessing.get_context("spawn"),
                initializer=_start_worker,
                initargs=(load, num_threads),
            )
            # As many at once, so that every process starts.
            facts = [self._pool.submit(_facts) for _ in range(num_workers)]
        try:
            with _naming_killed_processes():
                model = [each.result() for each in facts][0]
        except BaseException:
            self.close()
            raise
        # One batch more than workers, so that none of them waits for the next.
        self.model = dataclasses.replace(
            model,
            run_batch=self._run_batch,
            at_once=num_workers + 1,
            first_alone=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes after the batches that they are at."""
        self._pool.shutdown(cancel_futures=True)

    def _run_batch(self, text):
        import tensorflow as tf

        with _naming_killed_processes():
            texts = text.numpy().tolist()
            answer = self._pool.submit(_run_batch, texts).result()
        return {name: tf.constant(value) for name, value in answer.items()}


@contextlib.contextmanager
def _without_hangup() -> Iterator[None]:
    """Keep SIGHUP from the processes that are started meanwhile.

    A terminal that closes sends it to all; they end with this one, which gets it at the
    end of the block. Python starts one more, which counts semaphores, and protects it
    from SIGINT and SIGTERM only.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        if signal.SIGHUP not in before:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


@contextlib.contextmanager
def _naming_killed_processes() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise ChildProcessError(
            "A process that translates was killed, perhaps for want of memory: "
            "each has a model of its own. Give fewer --num_workers."
        ) from error


def _start_worker(load: Callable[[], OpenedModel], num_threads: int) -> None:
    """Prepare a process of the pool."""
    global _load
    _load = load
    # Ctrl-C is for the process that started this one, and this one ends with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    startup.import_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


@functools.cache
def _model() -> OpenedModel:
    """Return the model of this process."""
    return _load()


def _facts() -> OpenedModel:
    """Load the model; return what another process needs to know of it."""
    left = dict.fromkeys(("run_batch", "compiler", "searcher", "owner"))
    return dataclasses.replace(_model(), **left)


def _run_batch(texts: list[bytes]) -> dict[str, Any]:
    """Translate a batch in this process; return NumPy arrays."""
    import tensorflow as tf

    answer = _model().run_batch(text=tf.constant(texts, tf.string))
    return {name: value.numpy() for name, value in answer.items()}
