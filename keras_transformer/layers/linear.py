"""Linear maps as single matrix products over all positions."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from keras import ops

Tensor = Any


def flatten_positions(inputs: Tensor) -> Tensor:
    """Return `[..., width]` as `[rows, width]`.

    `keras.layers.Dense` multiplies that as it is. For inputs of three axes it uses
    `tensordot`, which adds about twenty operations in TensorFlow.
    """
    return ops.reshape(inputs, (-1, inputs.shape[-1]))


def reshape(inputs: Tensor, shape: tuple) -> Tensor:
    """Reshape; TensorFlow infers a single unknown size.

    Args:
        inputs: Any shape.
        shape: Sizes, each an int or an int32 scalar.
    """
    known = [size for size in shape if isinstance(size, int)]
    # With a size of 0, TensorFlow would infer 1 for the unknown one.
    if len(known) == len(shape) - 1 and min(known) > 0:
        shape = tuple(size if isinstance(size, int) else -1 for size in shape)
    return ops.reshape(inputs, shape)


def matmul_transpose_b(left: Tensor, right: Tensor) -> Tensor:
    """Multiply matrices, with the second transposed: `left right^T`.

    `keras.ops` has no such product: its `einsum` transposes `right` in a separate
    operation, which only TensorFlow's graph optimizer removes.

    Args:
        left: float `[..., rows, width]`.
        right: float `[..., columns, width]`; leading axes broadcast.

    Returns:
        float `[..., rows, columns]`.
    """
    return tf.matmul(left, right, transpose_b=True)
