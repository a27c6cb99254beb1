"""Waiting for the checkpoints of a run, to evaluate them in a process of its own."""

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
    place: ModelDir,
    *,
    poll_seconds: float = 10.0,
    idle_minutes: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Checkpoint]:
    """Yield the newest checkpoint of a run whenever there is a newer one.

    Those between are left out when they come faster than they are taken. The run may
    begin later, stop and go on meanwhile. It ends with the checkpoint of its last step,
    or where it stopped early.

    Args:
        place: The folder of the run.
        poll_seconds: Between two looks.
        idle_minutes: How long to wait for the next; None: for ever.
        sleep: Waits so many seconds.

    Raises:
        TimeoutError: If none came for `idle_minutes`.
    """
    last_step, waited = 0, 0.0
    while True:
        newest = place.checkpoints().latest()
        if newest is not None and newest.step > last_step:
            last_step, waited = newest.step, 0.0
            yield newest
            if _is_last(place, newest):
                return
            continue
        if idle_minutes is not None and waited >= 60 * idle_minutes:
            raise TimeoutError(
                f"No checkpoint after step {last_step:,} came to {place.path} in "
                f"{idle_minutes:g} minutes. Is its training still running?"
            )
        sleep(poll_seconds)
        waited += poll_seconds


def _is_last(place: ModelDir, checkpoint: Checkpoint) -> bool:
    """Whether the run ended with this checkpoint."""
    if checkpoint.step >= place.read_config().training.train_steps:
        return True
    # A run of many steps may have dropped it while it was evaluated.
    with contextlib.suppress(DamagedCheckpointError, RemovedCheckpointError):
        return checkpoint.state.get("stopped_early", False)
    return False
