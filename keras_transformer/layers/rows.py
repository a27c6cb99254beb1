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
    """Reshape, leaving one size that the graph does not know to be found.

    Args:
        inputs: Any shape.
        shape: Sizes, each an int or an int32 scalar.
    """
    shape = list(shape)
    for axis, size in enumerate(shape):
        if not isinstance(size, int):
            shape[axis] = -1
            break
    return ops.reshape(inputs, tuple(shape))
