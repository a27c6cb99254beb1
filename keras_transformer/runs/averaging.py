"""Checkpoint averaging of a whole run, §6.1."""

from __future__ import annotations

import os
from typing import Any

from keras_transformer.layers.initialization import skip_weight_init
from keras_transformer.model.transformer import Transformer
from keras_transformer.runs.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    RemovedCheckpointError,
    average,
    choose_for_averaging,
)
from keras_transformer.runs.model_dir import ModelDir

# A training that runs meanwhile may remove the oldest checkpoint each time.
_TRIES = 3


def average_run(
    model_dir: str | os.PathLike,
    *,
    last: int | None = None,
    min_steps_apart: int = 1,
    output: str | os.PathLike | None = None,
) -> dict[str, Any]:
    """Average the last checkpoints of a run into a checkpoint with its own step.

    Args:
        model_dir: The run.
        last: Checkpoints to take; None: the run's `average_last`, or all if there are
            fewer.
        min_steps_apart: Checkpoints with fewer steps between them are refused.
        output: Folder of the result; None: `averaged` in the run, and `model.keras` is
            written anew with the same weights.

    Returns:
        "path" of the checkpoint, and the "steps" that went into it.

    Raises:
        FileNotFoundError: If there is no run, or it has no checkpoint, or a training
            that runs meanwhile removes one again and again.
        ValueError: If there are fewer than `last`, or two are too close.
    """
    place = ModelDir(model_dir)
    config = place.read_config()
    chosen = choose(place, last, config.training.average_last, min_steps_apart)
    # Averaged and written in float32, whatever the training's precision.
    with skip_weight_init():
        model = Transformer(config.model, dtype=config.precision)
    for tries_left in reversed(range(_TRIES)):
        try:
            average(chosen, model)
            break
        except RemovedCheckpointError:
            if not tries_left:
                raise
            chosen = choose(place, last, config.training.average_last, min_steps_apart)
    steps = [checkpoint.step for checkpoint in chosen]
    folder = place.checkpoints("averaged")
    if output is not None:
        folder = CheckpointFolder(output)
    saved = folder.save(steps[-1], {"averaged_steps": steps}, model=model)
    if output is None:
        place.save_model(model)
    return {"path": str(saved.path), "steps": steps}


def choose(
    place: ModelDir, last: int | None, default: int, min_steps_apart: int
) -> list[Checkpoint]:
    """Return the checkpoints of a run to average, as there are now.

    Args:
        place: The run.
        last: How many, all of which must be there; None: `default`, or all.
        default: How many at most where `last` does not say.
        min_steps_apart: See `average_run`.
    """
    place.choose("latest")
    found = place.checkpoints().list()
    if last is not None and last > len(found):
        raise ValueError(
            f"`last` must be at most the number of checkpoints in {place.path}, "
            f"{len(found)}. Received: last={last}. Train on with --keep_checkpoints="
            f"{last}, or average fewer."
        )
    return choose_for_averaging(found, last or default, min_steps_apart)
