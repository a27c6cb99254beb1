"""Out-of-memory errors that name the flag to lower."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import tensorflow as tf


class NotEnoughMemoryError(ValueError):
    """What a run computes at once does not fit into memory."""


@contextlib.contextmanager
def naming_flags(explain: Callable[[], str]) -> Iterator[None]:
    """Raise `NotEnoughMemoryError` in place of TensorFlow's error.

    Args:
        explain: Returns what did not fit, and the remedy.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        if "No space left" in error.message:  # on a disk
            raise
        raise NotEnoughMemoryError(explain()) from error
