"""Stopping a run on a signal from a scheduler, a person or a lost terminal."""

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
        exit_status: 128 + the signal's number, as in shells: 143 for SIGTERM, 130 for
            Ctrl-C, 129 for SIGHUP.
    """

    def __init__(self, number: int, message: str):
        super().__init__(number, message)
        self.exit_status = 128 + number
        self._message = message

    def __str__(self) -> str:
        return self._message


class Stop:
    """Remembers that a signal came, so that the loop can stop when a step is done.

    A second signal ends the process at once. A signal within a second of the first is
    ignored: process groups often get one from the terminal and one from the parent.
    """

    def __init__(self):
        # Number of the signal that came, if one did.
        self.number: int | None = None
        self._since = 0.0
        self._may_interrupt = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals while the block runs, if this is the main thread.

        SIGHUP stays ignored under `nohup`.
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
        """Let a signal end this block at once. Use it only around code that reads.

        Raises:
            KeyboardInterrupt: If a signal comes, or has come before.
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
