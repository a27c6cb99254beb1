"""Positions as the rows of a matrix: what a linear map is the fastest on.

Keras maps inputs of three axes by a `tensordot`, which in TensorFlow is some twenty
operations around the product.
"""

from __future__ import annotations

from typing import Any

from keras import ops

Tensor = Any


def flat(inputs: Tensor) -> Tensor:
    """Return `[..., width]` as `[rows, width]`."""
    if len(inputs.shape) == 2:
        return inputs
    return ops.reshape(inputs, (-1, inputs.shape[-1]))


def unflat(rows: Tensor, like: Tensor) -> Tensor:
    """Return `[rows, width]` as `[..., width]`.

    Args:
        rows: One for each position of `like`.
        like: `[..., any width]`.
    """
    if len(like.shape) == 2:
        return rows
    return reshape(rows, (*ops.shape(like)[:-1], rows.shape[-1]))


def reshape(inputs: Tensor, shape: tuple) -> Tensor:
    """Reshape; a size that alone is unknown to the graph is left to be found.

    Args:
        inputs: Any shape.
        shape: Sizes, each an int or an int32 scalar; -1 is to be found.
    """
    known = [size for size in shape if isinstance(size, int)]
    # Of nothing, TensorFlow finds a size of 1 beside another that is 0.
    if len(known) == len(shape) - 1 and min(known) > 0:
        shape = tuple(size if isinstance(size, int) else -1 for size in shape)
    return ops.reshape(inputs, shape)
