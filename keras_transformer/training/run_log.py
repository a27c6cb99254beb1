"""Where a run reports: lines for people, scalars for TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import tensorflow as tf


class RunLog:
    """Writes lines, and scalars that TensorBoard shows.

    Args:
        write: Takes a line.
        log_dir: Folder of TensorBoard's event files; None: scalars are not written.
    """

    def __init__(
        self,
        write: Callable[[str], None] = print,
        log_dir: str | os.PathLike | None = None,
    ):
        self.write = write
        self._writer = None
        if log_dir is not None:
            self._writer = tf.summary.create_file_writer(str(log_dir))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of a step for TensorBoard."""
        if self._writer is None:
            return
        with self._writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self._writer.flush()
