"""Checkpoint averaging of a whole run, §6.1."""

from __future__ import annotations

import os
from typing import Any

from keras_transformer.layers.initialization import skip_weight_init
from keras_transformer.model import lora
from keras_transformer.model.transformer import Transformer
from keras_transformer.runs.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    RemovedCheckpointError,
    average,
    choose_for_averaging,
)
from keras_transformer.runs.model_dir import ModelDir

# A training that is running may remove the oldest checkpoint before each try.
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
        last: Number of newest checkpoints to average; None: the run's `average_last`,
            or all if there are fewer.
        min_steps_apart: Checkpoints with fewer steps between them are refused.
        output: Folder of the result; None: `averaged` in the run. `model.keras` is then
            written again with the same weights, and is not compiled.

    Returns:
        "path" of the result, and the "steps" of the averaged checkpoints.

    Raises:
        FileNotFoundError: If there is no run, it has no checkpoint, or a training that
            is running removes one before each try.
        ValueError: If there are fewer than `last` checkpoints, or two are too close.
    """
    run = ModelDir(model_dir)
    config = run.read_config()
    chosen = choose(run, last, config.training.average_last, min_steps_apart)
    # Variables are float32 under every precision.
    with skip_weight_init():
        model = Transformer(config.model, dtype=config.precision)
        if config.training.lora_rank:
            lora.add_adapters(model, config.training.lora_rank)
    for tries_left in reversed(range(_TRIES)):
        try:
            averaged = average(chosen, model)
            break
        except RemovedCheckpointError:
            if not tries_left:
                raise
            chosen = choose(run, last, config.training.average_last, min_steps_apart)
    steps = [checkpoint.step for checkpoint in chosen]
    folder = run.checkpoints("averaged")
    if output is not None:
        folder = CheckpointFolder(output)
    saved = folder.save(steps[-1], {"averaged_steps": steps}, model=averaged)
    if output is None:
        run.save_model(averaged)
    return {"path": str(saved.path), "steps": steps}


def choose(
    run: ModelDir, last: int | None, default: int, min_steps_apart: int
) -> list[Checkpoint]:
    """Return the newest checkpoints of a run, to be averaged.

    Args:
        run: The run.
        last: Their number, which must exist; None: up to `default`.
        default: Most checkpoints if `last` is None.
        min_steps_apart: See `average_run`.
    """
    run.choose("latest")  # raises if there is none
    found = run.checkpoints().list()
    if last is not None and last > len(found):
        raise ValueError(
            f"`last` must be at most the number of checkpoints in {run.path}, "
            f"{len(found)}. Received: last={last}. Resume training with "
            f"--keep_checkpoints={last}, or average fewer."
        )
    return choose_for_averaging(found, last or default, min_steps_apart)
