"""Waiting for new checkpoints of a run, to evaluate them in another process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from keras_transformer.runs.checkpoints import (
    Checkpoint,
    DamagedCheckpointError,
    RemovedCheckpointError,
)
from keras_transformer.runs.model_dir import ModelDir


def new_checkpoints(
    model_dir: ModelDir,
    *,
    poll_seconds: float = 10.0,
    idle_minutes: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Checkpoint]:
    """Yield the newest checkpoint of a run whenever there is a newer one.

    Skips checkpoints that are no longer the newest. The run may start later, and be
    stopped and resumed. The iterator ends with the checkpoint of the run's last step,
    or of its early stop.

    Args:
        model_dir: The folder of the run.
        poll_seconds: Seconds between two looks at the folder.
        idle_minutes: Minutes to wait for a new checkpoint; None: for ever.
        sleep: Waits for a number of seconds.

    Raises:
        TimeoutError: If no new checkpoint came for `idle_minutes`.
    """
    last_step, waited = 0, 0.0
    while True:
        newest = model_dir.checkpoints().latest()
        if newest is not None and newest.step > last_step:
            last_step, waited = newest.step, 0.0
            yield newest
            if _is_last(model_dir, newest):
                return
            continue
        if idle_minutes is not None and waited >= 60 * idle_minutes:
            raise TimeoutError(
                f"No checkpoint after step {last_step:,} came to {model_dir.path} in "
                f"{idle_minutes:g} minutes. Is its training still running?"
            )
        sleep(poll_seconds)
        waited += poll_seconds


def _is_last(model_dir: ModelDir, checkpoint: Checkpoint) -> bool:
    """Whether the run ended with this checkpoint."""
    if checkpoint.step >= model_dir.read_config().training.train_steps:
        return True
    # Training may have removed the checkpoint while it was evaluated.
    with contextlib.suppress(DamagedCheckpointError, RemovedCheckpointError):
        return checkpoint.state.get("stopped_early", False)
    return False
