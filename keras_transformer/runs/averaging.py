"""Checkpoint averaging of a whole run, §6.1."""

from __future__ import annotations

import itertools
import os
from typing import Any

from keras_transformer.config import check_at_least
from keras_transformer.layers.initialization import skip_weight_init
from keras_transformer.model import lora
from keras_transformer.model.transformer import Transformer
from keras_transformer.runs import model_card
from keras_transformer.runs.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    RemovedCheckpointError,
    average,
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
            or those of the second half of its steps if these are fewer.
        min_steps_apart: Checkpoints with fewer steps between them are refused.
        output: Folder of the result; None: `averaged` in the run. `model.keras` and
            the model card are then written again, with the same weights and not
            compiled.

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
        model_card.update(run, saved, averaged.count_params())
    return {"path": str(saved.path), "steps": steps}


def choose(
    run: ModelDir, last: int | None, default: int, min_steps_apart: int
) -> list[Checkpoint]:
    """Return the newest checkpoints of a run, refusing those that are almost the same.

    Args:
        run: The run.
        last: Their number, which must exist; None: up to `default`, none of them from
            the first half of the run. A short run has a checkpoint of its first
            evaluation and few others, and with that one the mean is worse.
        default: Most checkpoints if `last` is None.
        min_steps_apart: See `average_run`.
    """
    run.choose("latest")  # raises if there is none
    found = run.checkpoints().list()
    if last is None:
        late = [each for each in found if 2 * each.step >= found[-1].step]
        last = min(default, len(late))
    check_at_least("last", last, 1)
    if last > len(found):
        raise ValueError(
            f"`last` must be at most the number of checkpoints in {run.path}, "
            f"{len(found)}. Received: last={last}. Resume training with "
            f"--keep_checkpoints={last}, or average fewer."
        )
    chosen = found[-last:]
    for earlier, later in itertools.pairwise(chosen):
        if later.step - earlier.step < min_steps_apart:
            raise ValueError(
                f"{earlier.path.name} and {later.path.name} are "
                f"{later.step - earlier.step} steps apart, but `min_steps_apart` is "
                f"{min_steps_apart}: averaging almost equal checkpoints gains nothing. "
                "Take fewer with --last, or lower --min_steps_apart."
            )
    return chosen
