"""Stopping a run when it is asked to, by a scheduler, a person or a lost terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StoppedBySignalError(Exception):
    """A run was asked to stop, has saved its state and can be resumed.

    Attributes:
        exit_status: 128 + the signal's number, as shells have it: 143 for SIGTERM, 130
            for Ctrl-C, 129 for SIGHUP.
    """

    def __init__(self, number: int, message: str):
        super().__init__(number, message)
        self.exit_status = 128 + number
        self._message = message

    def __str__(self) -> str:
        return self._message


class Stop:
    """Remembers that a signal came, for the loop to see when a step is done.

    A second one acts as if nobody listened: it ends the process at once. What comes
    within a second of the first is the same wish, sent to the whole group of processes
    and by the parent once more.
    """

    def __init__(self):
        # Of the signal that came; None: none did.
        self.number: int | None = None
        self._since = 0.0
        self._may_interrupt = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take signals while the block runs; in the main thread alone they can be.

        SIGHUP stays ignored where `nohup` has it ignored.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._take)
            for number in SIGNALS
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal end this block at once: it changes nothing of the model.

        Raises:
            KeyboardInterrupt: When a signal comes, or has come.
        """
        if self.number is not None:
            raise KeyboardInterrupt
        self._may_interrupt = True
        try:
            yield
        finally:
            self._may_interrupt = False

    def _take(self, number, frame) -> None:
        del frame
        if self.number is None:
            self.number, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > 1:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if self._may_interrupt:
            raise KeyboardInterrupt
