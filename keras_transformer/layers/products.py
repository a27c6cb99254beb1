"""The product with a transposed matrix, without one that is transposed."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

Tensor = Any


def with_transposed(left: Tensor, right: Tensor) -> Tensor:
    """Multiply matrices, the second one transposed: `left right^T`.

    Keras has no such product. In TensorFlow its `einsum` transposes `right` by an
    operation of its own, and counts on the graph's optimizer to take it out again.

    Args:
        left: float `[..., rows, width]`.
        right: float `[..., columns, width]`; what comes before is broadcast.

    Returns:
        float `[..., rows, columns]`.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.matmul(left, right, transpose_b=True)
    return ops.matmul(left, ops.swapaxes(right, -1, -2))
