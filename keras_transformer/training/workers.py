"""Agreement between processes that train together, and detection of a lost one."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import tensorflow as tf

from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training.signals import Stop
from keras_transformer.training.strategies import Process

# Errors that TensorFlow raises in one process when another has ended.
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


class LostWorkerError(OSError):
    """Another process that trains with this one has ended or cannot be reached."""


@contextlib.contextmanager
def watching(model_dir: ModelDir, process: Process) -> Iterator[None]:
    """Raise `LostWorkerError` in place of TensorFlow's errors during the block."""
    try:
        yield
    except _LOST as error:
        if process.count == 1:
            raise
        reason = error.message.strip().splitlines()[0][:200]
        raise LostWorkerError(
            f"Worker {process.rank} of {process.count} ends: another has ended or "
            f"cannot be reached ({reason}). Start all workers again: "
            f"training resumes {resumes_where(model_dir)}, with any number of workers."
        ) from error


def resumes_where(model_dir: ModelDir) -> str:
    """Return where training goes on when the same command is run again."""
    newest = model_dir.checkpoints().latest()
    return f"from step {newest.step:,}" if newest else "from the beginning"


def check_same_step(model_dir: ModelDir, process: Process, step: int) -> None:
    """Raise ValueError in all processes unless each has found the same checkpoint."""
    chief_step = process.from_chief(float(step))
    if process.sum_over_processes(abs(step - chief_step)):
        raise ValueError(
            f"Worker {process.rank} of {process.count} found step {step:,} in "
            f"{model_dir.path}, worker 0 step {chief_step:,.0f}, and some differ. All "
            "workers need the same --model_dir: a folder on a disk that they share."
        )


def is_asked(process: Process, stop: Stop) -> bool:
    """Whether any process was asked to stop; all must call this after the same step.

    If only one stopped, the others would wait for it in their next step.
    """
    if process.count == 1:
        return stop.number is not None
    number = process.sum_over_processes(float(stop.number or 0))
    if number and stop.number is None:
        stop.number = signal.SIGTERM  # as if a scheduler had asked this process too
    return bool(number)


def interruptible(process: Process, stop: Stop) -> contextlib.AbstractContextManager:
    """Let a signal end the block at once, unless other processes wait for it."""
    return stop.interruptible() if process.count == 1 else contextlib.nullcontext()
