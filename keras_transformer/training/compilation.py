"""What XLA compiles in a run: said when it begins, and when it is done."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from keras_transformer import wording
from keras_transformer.training.heartbeat import Heartbeat


class Compilations:
    """The compilations of the training step, one for each shape of a batch.

    Args:
        write: Takes lines, and says what is running if there is none for long.
        has_xla: Whether the step is compiled at all.
        clock: Returns seconds.
    """

    def __init__(
        self,
        write: Heartbeat,
        has_xla: bool,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._write = write
        self._has_xla = has_xla
        self._clock = clock
        self._done: set[tuple[int, int, int]] = set()

    @contextlib.contextmanager
    def of_step(self, shape: tuple[int, int, int]) -> Iterator[None]:
        """Say that the step within the context compiles, if its shape is new.

        Args:
            shape: (rows, source_length, target_length), with rows of padding.
        """
        if not self._has_xla or shape in self._done:
            yield
            return
        rows, source_length, target_length = shape
        what = (
            f"the training step for {wording.count(rows, 'row')} of {source_length} + "
            f"{target_length} tokens"
        )
        self._write(f"compiling {what}")
        began = self._clock()
        with self._write.during(f"compiling {what}"):
            yield
        self._done.add(shape)
        seconds = self._clock() - began
        self._write(f"compiled the training step in {wording.duration(seconds)}")
