"""Compiling the programs of a search in a thread, beside batches searched without them.

See `inference.search_programs`. Compiling takes seconds, so a program is compiled when
several batches were without it, or before there are batches, in a server.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from keras_transformer import hardware
from keras_transformer.translation.program_sizes import (
    COMPILE,
    STATE,
    Size,
    usual_numbers,
)

# Batches of a size that are searched without a program before it is compiled. Ten lines
# are one batch, and a file of a thousand has few of each size.
_WORTH_BATCHES = 3
# Held by the thread that compiles. A process that ends takes it for good, so it waits
# for the program that is being compiled: Python would abort if the thread came back to
# it while it ends.
_compiling = threading.Lock()
atexit.register(_compiling.acquire)


def is_compiling() -> bool:
    """Return whether the end of this process would wait for a program."""
    return _compiling.locked()


class CompilerBeside:
    """Compiles programs one by one, in a thread.

    If one cannot be compiled, a warning says so and searches go on without: of its size
    if it needs more memory than there is, otherwise of any.

    Args:
        signatures: With those of `SearchPrograms.signatures`.
        sizes: The sizes of the programs.
        step_weights: Number of weights that a step of the search reads.
    """

    def __init__(
        self,
        signatures: Mapping[str, Callable],
        sizes: Sequence[Size],
        step_weights: int,
    ):
        self._compile, self._state = signatures[COMPILE], signatures[STATE]
        self._sizes, self._step_weights = sizes, step_weights
        # Programs that pay, are not known to be compiled, and did not fail.
        self._is_wanted = np.array(
            [size.pays(hardware.device(), step_weights) for size in sizes]
        )
        self._is_busy = threading.Lock()

    def look(self) -> None:
        """Start to compile the program that most batches were without, if it pays."""
        if not self._is_wanted.any() or not self._is_busy.acquire(blocking=False):
            return
        is_compiled, num_missed = self.state()
        self._is_wanted &= ~is_compiled
        missed = np.where(self._is_wanted, num_missed, 0)
        number = int(missed.argmax())
        if missed[number] < _WORTH_BATCHES:
            self._is_busy.release()
        else:
            self._start([number])

    def start(self, most_rows: int) -> None:
        """Start to compile the usual programs, for batches to come; those that pay.

        Args:
            most_rows: Sentences of the largest batch.
        """
        numbers = usual_numbers(
            self._sizes, hardware.device(), self._step_weights, most_rows
        )
        self._is_busy.acquire()
        self._start(numbers)

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which are compiled, and how many batches were without each."""
        state = self._state(program=tf.range(len(self._sizes)))
        return state["is_compiled"].numpy(), state["num_missed"].numpy()

    def num_compiled(self) -> int:
        """Return how many programs are compiled."""
        return int(self.state()[0].sum())

    def wait(self) -> None:
        """Wait until nothing is being compiled."""
        with self._is_busy:
            pass

    def _start(self, numbers: Sequence[int]) -> None:
        threading.Thread(target=self._run, args=(numbers,), daemon=True).start()

    def _run(self, numbers: Sequence[int]) -> None:
        try:
            for number in numbers:
                if self._is_wanted[number]:
                    self._compile_one(number)
        finally:
            self._is_busy.release()

    def _compile_one(self, number: int) -> None:
        try:
            with _compiling:
                self._compile(program=tf.constant([number], tf.int32))
        except tf.errors.OpError as error:
            is_large = isinstance(error, tf.errors.ResourceExhaustedError)
            which = number if is_large else slice(None)
            self._is_wanted[which] = False
            logging.warning(
                "Searches of %s run without XLA, which failed: %s",
                self._sizes[number] if is_large else "any size",
                str(error).splitlines()[0],
            )


def compiling(
    translate_batch: Callable[[tf.Tensor], Any], compiler: CompilerBeside | None
) -> Callable[[tf.Tensor], Any]:
    """Return a function that lets a compiler look after each batch."""
    if compiler is None:
        return translate_batch

    def translate_and_look(text):
        answer = translate_batch(text=text)
        compiler.look()
        return answer

    return translate_and_look
