"""The learning rate over the steps, §5.3, Eq. 3."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer import wording
from keras_transformer.config import TrainingConfig, check_at_least
from keras_transformer.training.optimizer import Adam


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), Eq. 3.

    The paper counts steps from 1, Keras from 0: the first update uses step 1.

    Args:
        d_model: Width of the model (paper: d_model).
        warmup_steps: Steps over which the rate rises.
        scale: Factor on the whole; the paper's is 1.

    Attributes:
        factor: A second factor, in a variable that can be set during training.

    Raises:
        ValueError: If `d_model` or `warmup_steps` is below 1.

    Examples:
        >>> schedule = kt.TransformerSchedule(d_model=512, warmup_steps=4000)
        >>> f"{float(schedule(3999)):.6f}"  # the peak
        '0.000699'
    """

    def __init__(self, d_model: int, warmup_steps: int = 4000, scale: float = 1.0):
        check_at_least("d_model", d_model, 1)
        check_at_least("warmup_steps", warmup_steps, 1)
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.scale = scale
        self.factor = keras.Variable(1.0, trainable=False, name="factor")

    def __call__(self, step: Any) -> Any:
        """Return the rate of the update after `step` updates, float32 scalar."""
        step = ops.cast(step, "float32") + 1.0
        peak = self.scale * self.d_model**-0.5
        rise = step * self.warmup_steps**-1.5
        return self.factor * peak * ops.minimum(ops.rsqrt(step), rise)

    def get_config(self) -> dict[str, Any]:
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class FineTuningSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up, then a constant rate or a linear fall to 0.

    Differs from the paper, which trains from scratch by Eq. 3.

    Args:
        learning_rate: The peak.
        warmup_steps: Steps over which the rate rises.
        last_step: The step after which the rate is 0; None: it stays constant.

    Attributes:
        factor: A second factor, in a variable that can be set during training.
    """

    def __init__(
        self, learning_rate: float, warmup_steps: int, last_step: int | None = None
    ):
        check_at_least("warmup_steps", warmup_steps, 1)
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.last_step = last_step
        self.factor = keras.Variable(1.0, trainable=False, name="factor")

    def __call__(self, step: Any) -> Any:
        """Return the rate of the update after `step` updates, float32 scalar."""
        step = ops.cast(step, "float32") + 1.0
        share = ops.minimum(step / self.warmup_steps, 1.0)
        if self.last_step is not None:
            falling = max(self.last_step - self.warmup_steps, 0) + 1.0
            left = (self.last_step + 1.0 - step) / falling
            share = ops.minimum(share, ops.maximum(left, 0.0))
        return self.factor * self.learning_rate * share

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "warmup_steps": self.warmup_steps,
            "last_step": self.last_step,
        }


def warm_up_warning(config: TrainingConfig) -> str | None:
    """Return a warning if training ends before the rate reaches its peak, else None."""
    if config.train_steps >= config.warmup_steps:
        return None
    if config.learning_rate_schedule != "paper":
        return (
            f"warning: training ends after {wording.count(config.train_steps, 'step')},"
            f" before the learning rate reaches its peak at step "
            f"{config.warmup_steps:,}. Give fewer --warmup_steps."
        )
    steps = max(config.train_steps // 4, 1)
    # Keeps the peak, which is proportional to scale / sqrt(warmup_steps).
    scale = config.learning_rate_scale * (steps / config.warmup_steps) ** 0.5
    return (
        f"warning: training ends after {wording.count(config.train_steps, 'step')}, "
        f"before the learning rate reaches its peak at step {config.warmup_steps:,}. "
        f"For a shorter rise to the same peak pass --warmup_steps={steps} "
        f"--learning_rate_scale={scale:.2g}, or give more --train_steps."
    )


def paper_optimizer(d_model: int, config: TrainingConfig) -> Adam:
    """Make Adam as in §5.3 over the schedule of the configuration, usually Eq. 3.

    Args:
        d_model: Width of the model.
        config: Supplies betas, epsilon and schedule.

    Examples:
        >>> optimizer = kt.paper_optimizer(512, kt.TrainingConfig(warmup_steps=4000))
        >>> optimizer.beta_2
        0.98
    """
    if config.learning_rate_schedule == "paper":
        schedule = TransformerSchedule(
            d_model, config.warmup_steps, config.learning_rate_scale
        )
    else:
        is_linear = config.learning_rate_schedule == "linear"
        schedule = FineTuningSchedule(
            config.learning_rate,
            config.warmup_steps,
            config.train_steps if is_linear else None,
        )
    return Adam(
        schedule,
        beta_1=config.adam_beta_1,
        beta_2=config.adam_beta_2,
        epsilon=config.adam_epsilon,
    )
