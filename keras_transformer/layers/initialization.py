"""How weights begin: drawn at random, or not at all where they are read afterwards."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import keras

Initializer = keras.initializers.Initializer | str

_DRAWS = contextvars.ContextVar("draws", default=True)


@contextlib.contextmanager
def weights_to_be_read() -> Iterator[None]:
    """Build models whose weights are all zero, because others will take their place.

    Drawing those of the base model takes half a second.
    """
    token = _DRAWS.set(False)
    try:
        yield
    finally:
        _DRAWS.reset(token)


def drawn(initializer: Initializer) -> Initializer:
    """Return how a layer that is built now initializes a weight.

    Args:
        initializer: How it does, unless the weight is to be read.
    """
    return initializer if _DRAWS.get() else "zeros"
