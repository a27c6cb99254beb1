"""Handling of losses and gradients that are not finite: skip, go back, then stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.training.callbacks import StepCallback

# Tokens of a diagnosed batch computed at once: the whole may not fit on one device.
_TOKENS_AT_ONCE = 2048
# Factor on the learning rate after training went back.
LOWERED = 0.5


class DivergedError(ValueError):
    """Too many steps in a row were skipped because they were not finite.

    Attributes:
        step: The last of these steps.
    """

    def __init__(self, step: int, message: str):
        super().__init__(message)
        self.step = step


class CountSkippedSteps(StepCallback):
    """Counts the steps that were skipped, and ends `fit` after several in a row.

    Args:
        max_in_a_row: Consecutive skipped steps after which `fit` ends.
        diagnose: Maps the last step, from 1, to a description of what is not finite.
        learning_rate_factor: Factor on the schedule's learning rate.
        total: Steps that the run skipped before it was resumed.
        write: Takes lines.
        first_step: Steps done before `fit` begins.
    """

    def __init__(
        self,
        max_in_a_row: int,
        diagnose: Callable[[int], str],
        learning_rate_factor: float = 1.0,
        total: int = 0,
        write: Callable[[str], None] = print,
        first_step: int = 0,
    ):
        super().__init__(first_step)
        self._max_in_a_row = max_in_a_row
        self._diagnose = diagnose
        self.learning_rate_factor = learning_rate_factor
        self.total = total
        self._in_a_row = 0
        self._write = write

    def on_train_begin(self, logs=None):
        set_learning_rate_factor(self.model.optimizer, self.learning_rate_factor)

    def on_step(self, step, logs):
        if not logs.get("skipped"):
            self._in_a_row = 0
            return
        self._in_a_row += 1
        self.total += 1
        self._write(
            f"step {step:,} is skipped: its loss or gradients are not finite "
            f"({self._in_a_row} in a row, {self.total:,} in all)"
        )
        if self._in_a_row == self._max_in_a_row:
            raise DivergedError(
                step,
                f"The loss or gradients of {self._in_a_row} steps in a row, up to step "
                f"{step:,}, are not finite. {self._diagnose(step)}",
            )

    @property
    def is_skipping(self) -> bool:
        """Whether the last step was skipped; a checkpoint should not be saved now."""
        return self._in_a_row > 0

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs to know."""
        return {
            "skipped_steps": self.total,
            "learning_rate_factor": self.learning_rate_factor,
        }


def set_learning_rate_factor(optimizer: keras.optimizers.Optimizer, factor: float):
    """Multiply the rate of a `TransformerSchedule` from now on.

    Args:
        optimizer: From `schedule.paper_optimizer`, or a wrapper of one.
        factor: Factor on the schedule; it replaces an earlier factor.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    # The public `learning_rate` of Keras 3.15 is the current value, not the schedule.
    inner._learning_rate.factor.assign(factor)


def diagnose(model: Any, *batch: np.ndarray) -> str:
    """Say which weights or gradients of a batch are not finite, and what may help.

    Args:
        model: The model after the skipped steps.
        *batch: Source, int32 `[rows, source_length]`, target, int32
            `[rows, target_length]`, and what else its train step takes.
    """
    source, target = batch[:2]
    bad_weights = [
        weight.path
        for weight in model.weights
        if not np.all(np.isfinite(weight.numpy()))
    ]
    rows = max(_TOKENS_AT_ONCE // max(source.shape[1], target.shape[1]), 1)
    loss, bad = 0.0, set()
    for start in range(0, len(source), rows):
        some = (tf.constant(part[start : start + rows]) for part in batch)
        gradients, sums, _ = model.batch_gradients(*some)
        loss += float(sums[0])
        bad |= {
            number
            for number, gradient in enumerate(gradients)
            if not np.all(np.isfinite(gradient))
        }
    variables = model.trainable_variables
    bad_gradients = [variables[number].path for number in sorted(bad)]
    return (
        f"The batch has {len(source)} rows of {source.shape[1]} + {target.shape[1]} "
        f"tokens; its loss is {loss:.4g} over "
        f"{np.sum(target != model.config.pad_id):,} tokens; "
        f"{_some(bad_weights, len(model.weights), 'weights')}; "
        f"{_some(bad_gradients, len(variables), 'gradients')}. Lower "
        "--learning_rate_scale or raise --warmup_steps, try --precision=float32, or "
        "look for a pair in the corpus that is not text."
    )


def _some(names: list[str], count: int, kind: str) -> str:
    if not names:
        return f"all {kind} are finite"
    return f"{len(names)} of {count} {kind} are not finite, the first {names[0]}"
