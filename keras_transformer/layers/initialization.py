"""Initial weights: random, or zeros where a checkpoint will replace them."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import keras

Initializer = keras.initializers.Initializer | str

_DRAWS = contextvars.ContextVar("draws", default=True)


@contextlib.contextmanager
def skip_weight_init() -> Iterator[None]:
    """Initialize weights with zeros within this context.

    For models whose weights a checkpoint will replace: random weights of the base model
    take half a second.
    """
    token = _DRAWS.set(False)
    try:
        yield
    finally:
        _DRAWS.reset(token)


def initializer_unless_skipped(initializer: Initializer) -> Initializer:
    """Return the initializer, or "zeros" inside `skip_weight_init`."""
    return initializer if _DRAWS.get() else "zeros"
