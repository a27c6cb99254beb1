"""Checkpoint averaging of a whole run, §6.1."""

from __future__ import annotations

import os
from typing import Any

from keras_transformer.layers.initialization import weights_to_be_read
from keras_transformer.model import Transformer
from keras_transformer.model_dir import ModelDir
from keras_transformer.training.checkpoints import (
    CheckpointFolder,
    average,
    choose_for_averaging,
)


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
        FileNotFoundError: If there is no run, or it has no checkpoint.
        ValueError: If there are fewer than `last`, or two are too close.
    """
    place = ModelDir(model_dir)
    config = place.read_config()
    place.choose("latest")
    found = place.checkpoints().list()
    if last is not None and last > len(found):
        raise ValueError(
            f"`last` must be at most the number of checkpoints in {place.path}, "
            f"{len(found)}. Received: last={last}. Train on with --keep_checkpoints="
            f"{last}, or average fewer."
        )
    chosen = choose_for_averaging(
        found, last or config.training.average_last, min_steps_apart
    )
    # Averaged and written in float32, whatever the training's precision.
    with weights_to_be_read():
        model = Transformer(config.model, dtype=config.precision)
    average(chosen, model)
    steps = [checkpoint.step for checkpoint in chosen]
    folder = place.checkpoints("averaged")
    if output is not None:
        folder = CheckpointFolder(output)
    saved = folder.save(steps[-1], {"averaged_steps": steps}, model=model)
    if output is None:
        place.save_model(model)
    return {"path": str(saved.path), "steps": steps}
