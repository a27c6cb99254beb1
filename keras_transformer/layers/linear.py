"""Linear maps as single matrix products."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_transformer")
class Linear(keras.layers.Dense):
    """Keras's dense layer, computed as one matrix product over all positions.

    For inputs of three axes Keras uses `tensordot`, which adds about twenty operations
    in TensorFlow.

    Call arguments:
        inputs: float `[batch, length, width]` or `[rows, width]`.

    Returns:
        float `[..., units]`, in the compute dtype.
    """

    def call(self, inputs, training=None):
        outputs = super().call(flatten_positions(inputs), training=training)
        if len(inputs.shape) == 2:
            return outputs
        return reshape(outputs, (*ops.shape(inputs)[:-1], self.units))


def flatten_positions(inputs: Tensor) -> Tensor:
    """Return `[..., width]` as `[rows, width]`."""
    if len(inputs.shape) == 2:
        return inputs
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
