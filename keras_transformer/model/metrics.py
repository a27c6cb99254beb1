"""The metrics of the train step: means over tokens, and the share of skipped steps."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

Tensor = Any


class Mean(keras.metrics.Mean):
    """A mean that is NaN, not 0, if nothing was counted."""

    # Whether higher is better; Keras 3.15's callbacks read it.
    _direction = "down"

    def result(self) -> Tensor:
        return ops.where(self.count > 0, super().result(), np.nan)


class Share(Mean):
    """A share that is better the higher it is."""

    _direction = "up"


class Unsaved(Mean):
    """A mean that is not saved with a model: files of earlier releases lack it."""

    def save_own_variables(self, store: Any) -> None:
        """Save nothing."""

    def load_own_variables(self, store: Any) -> None:
        """Load nothing."""


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(Mean):
    """exp of the mean negative log-likelihood in nats."""

    def result(self) -> Tensor:
        return ops.exp(super().result())
