"""Linear maps as single matrix products."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_transformer")
class Linear(keras.layers.Dense):
    """Keras's dense layer, with all positions as the rows of one matrix product.

    Keras maps inputs of three axes by a `tensordot`, which in TensorFlow is some twenty
    operations around the product.

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
    """Reshape; if one size alone is unknown to the graph, TensorFlow infers it.

    Args:
        inputs: Any shape.
        shape: Sizes, each an int or an int32 scalar.
    """
    known = [size for size in shape if isinstance(size, int)]
    # Without elements TensorFlow infers a size of 1 beside another that is 0.
    if len(known) == len(shape) - 1 and min(known) > 0:
        shape = tuple(size if isinstance(size, int) else -1 for size in shape)
    return ops.reshape(inputs, shape)


def matmul_transpose_b(left: Tensor, right: Tensor) -> Tensor:
    """Multiply matrices, the second one transposed: `left right^T`.

    Keras has no such product: its `einsum` transposes `right` by an operation of its
    own and relies on TensorFlow's graph optimizer to remove it.

    Args:
        left: float `[..., rows, width]`.
        right: float `[..., columns, width]`; leading axes broadcast.

    Returns:
        float `[..., rows, columns]`.
    """
    return tf.matmul(left, right, transpose_b=True)
