"""Initial weights: drawn at random, or zeros where a checkpoint replaces them."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import keras

Initializer = keras.initializers.Initializer | str

_DRAWS = contextvars.ContextVar("draws", default=True)


@contextlib.contextmanager
def skip_weight_init() -> Iterator[None]:
    """Build models with zeros for weights, because a checkpoint will replace them.

    Drawing the base model's weights takes half a second.
    """
    token = _DRAWS.set(False)
    try:
        yield
    finally:
        _DRAWS.reset(token)


def initializer_unless_skipped(initializer: Initializer) -> Initializer:
    """Return the initializer for a weight that is built now.

    Args:
        initializer: The one to use outside of `skip_weight_init`.
    """
    return initializer if _DRAWS.get() else "zeros"
