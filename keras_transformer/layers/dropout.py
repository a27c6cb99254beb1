"""Dropout with masks that depend only on seed and step, so that runs can resume."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from keras_transformer.config import check_rate
from keras_transformer.layers.masked_layer import MaskedLayer

_context = threading.local()

# Spreads the seeds of runs over the 31 bits that random operations accept.
_SPREAD = 0x9E3779B1
_SEED_MASK = 0x7FFFFFFF


@contextlib.contextmanager
def step_seed(seed: int, counter: Any) -> Iterator[None]:
    """Seed all dropout inside this context by (seed, counter, index of the draw).

    The train step passes the run's seed and a counter of step, replica and microbatch.
    The masks then need no hidden state: a resumed run draws the same masks as an
    uninterrupted one, and no two replicas share a mask.

    Args:
        seed: The run's seed.
        counter: int32 or int64 scalar tensor.
    """
    outer = getattr(_context, "value", None)
    _context.value = (seed * _SPREAD, counter, itertools.count())
    try:
        yield
    finally:
        _context.value = outer


class StepSeedGenerator(keras.random.SeedGenerator):
    """A seed generator that uses `step_seed`; outside of it, the same as Keras's."""

    def next(self, ordered: bool = True) -> Any:
        """Return the seed of the next draw, `[2]`, in the backend's seed dtype."""
        if getattr(_context, "value", None) is None:
            return super().next(ordered=ordered)
        base, counter, draws = _context.value
        dtype = self.state.dtype
        key = ops.convert_to_tensor((base + next(draws)) & _SEED_MASK, dtype=dtype)
        return ops.stack([key, ops.cast(counter, dtype)])


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(MaskedLayer):
    """Dropout with masks seeded by the training step inside `step_seed`, §5.4.

    Args:
        rate: Share of the inputs set to zero while training, in [0, 1).
        seed: Seed of the masks drawn outside of `step_seed`.

    Raises:
        ValueError: If `rate` is outside [0, 1).

    Examples:
        >>> np.asarray(kt.layers.Dropout(0.5)(np.ones([1, 3]), training=False)).tolist()
        [[1.0, 1.0, 1.0]]
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        check_rate("rate", rate)
        self.rate = rate
        self.seed = seed
        if rate > 0:
            self.seed_generator = StepSeedGenerator(seed)
        self.built = True

    def build(self, inputs_shape=None):
        """Do nothing: there are no weights."""

    def call(self, inputs, training=None):
        if not training or not self.rate:
            return inputs
        return keras.random.dropout(inputs, self.rate, seed=self.seed_generator)

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
