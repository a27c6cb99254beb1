"""A line at least every 30 seconds, however long a step takes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from keras_transformer import wording

EVERY_SECONDS = 30.0


class Heartbeat:
    """Passes lines on, and says what is running after 30 seconds without a line.

    Args:
        write: Takes a line.
        clock: Returns seconds.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._write = write
        self._clock = clock
        self._activity: str | None = None
        # Time of the last line passed on, and of the last line of either kind.
        self._last_line = self._last_sign = clock()

    def __call__(self, line: str) -> None:
        self._last_line = self._last_sign = self._clock()
        self._write(line)

    @contextlib.contextmanager
    def during(self, activity: str) -> Iterator[None]:
        """Say what is running if the block takes long.

        Args:
            activity: Completes "still ...", such as "evaluating". It replaces the
                activity of an outer block meanwhile.
        """
        outer, self._activity = self._activity, activity
        over = threading.Event()
        watcher = threading.Thread(target=self.watch, args=(over.wait,), daemon=True)
        if outer is None:
            self._last_sign = self._clock()
            watcher.start()
        try:
            yield
        finally:
            self._activity = outer
            if outer is None:
                over.set()
                watcher.join()

    def watch(self, wait: Callable[[float], bool]) -> None:
        """Say what is running after every 30 seconds without a line.

        Args:
            wait: Takes seconds and waits for them; returns True when the block ends.
        """
        while not wait(max(self._last_sign + EVERY_SECONDS - self._clock(), 0.0)):
            now = self._clock()
            if now - self._last_sign < EVERY_SECONDS:
                continue  # a line was printed meanwhile
            self._last_sign = now
            silence = wording.duration(now - self._last_line)
            with contextlib.suppress(OSError):  # the next line will raise it
                self._write(f"still {self._activity}, {silence} after the last line")
