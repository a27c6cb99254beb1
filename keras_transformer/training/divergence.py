"""When loss or gradients are not finite: skip the step, go back, stop with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.training.callbacks import StepCallback

# Of a batch that is looked at for its reason: it may be larger than one device holds.
_TOKENS_AT_ONCE = 2048
# The learning rate after it went back, as a share of the schedule's.
LOWERED = 0.5


class DivergedError(ValueError):
    """Too many steps in a row were skipped because they were not finite.

    Attributes:
        step: The last of them.
    """

    def __init__(self, step: int, message: str):
        super().__init__(message)
        self.step = step


class CountSkippedSteps(StepCallback):
    """Counts the steps that were skipped, and ends `fit` after several in a row.

    Args:
        max_in_a_row: How many may follow each other.
        diagnose: Maps the last step, from 1, to what can be said about its reason.
        learning_rate_factor: What the rate of the schedule is multiplied by.
        total: Steps that the run had skipped before.
        write: Takes lines.
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
        """Whether the last step was skipped: no time to save what one goes back to."""
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
        optimizer: From `schedule.paper_optimizer`, or around such a one.
        factor: On the schedule; it takes the place of one set before.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    # Keras (3.15) shows the rate's value, and the schedule only here.
    inner._learning_rate.factor.assign(factor)


def diagnose(model: Any, source: np.ndarray, target: np.ndarray) -> str:
    """Say what of a batch is not finite, and what may help.

    Args:
        model: As it is after the steps that were skipped.
        source: int32 `[rows, source_length]`.
        target: int32 `[rows, target_length]`.
    """
    bad_weights = [
        weight.path
        for weight in model.weights
        if not np.all(np.isfinite(weight.numpy()))
    ]
    rows = max(_TOKENS_AT_ONCE // max(source.shape[1], target.shape[1]), 1)
    loss, bad = 0.0, set()
    for start in range(0, len(source), rows):
        part = (tf.constant(side[start : start + rows]) for side in (source, target))
        gradients, sums, _ = model.batch_gradients(*part)
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
        "look for a pair in the corpus that is no text."
    )


def _some(names: list[str], count: int, kind: str) -> str:
    if not names:
        return f"all {kind} are finite"
    return f"{len(names)} of {count} {kind} are not finite, the first {names[0]}"
