"""Matrices cut into panels of columns: what a step of a search maps its few rows with.

A panel lies in memory as one piece, and a product reads it in order; of a whole matrix,
a CPU's product first copies piece by piece, at every step. With 2048 x 512 and
512 x 2048 weights in float32, TensorFlow on two cores with AVX-512 maps 4 rows in 0.54
ms instead of 0.85, 128 in 2.5 instead of 3.35; with AVX2 4 rows in 0.46 instead of
0.63, 128 in 3.4 instead of 5.7.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer import hardware

Tensor = Any

# Columns of a panel, about. On a CPU with AVX2 and no AVX-512, 4 rows take three
# quarters of the time with narrow ones, 128 rows the same time.
_WIDE, _NARROW = 64, 16

_BITS = {2: "uint16", 4: "uint32", 8: "uint64"}  # by bytes


class Panels(NamedTuple):
    """A linear map, cut."""

    kernel: Tensor  # float [panels, width_in, width]
    bias: Tensor | None = None  # float [panels * width]


def cut(layers: list[keras.layers.Dense], unit: int) -> Panels:
    """Cut linear maps of one input into panels, one map after another.

    Args:
        layers: Without activation, or with one that is left to the caller. All with a
            bias, or none.
        unit: Columns that stay apart from the next, such as a head's: no panel has
            columns of two units. Divides the width of each map.
    """
    dtype, width = layers[0].compute_dtype, _fitting_width(unit)
    kernels = [_cut(ops.cast(layer.kernel, dtype), width) for layer in layers]
    kernel = kernels[0] if len(kernels) == 1 else ops.concatenate(kernels)
    bias = None
    if layers[0].use_bias:
        bias = ops.concatenate([ops.cast(layer.bias, dtype) for layer in layers])
    return Panels(kernel, bias)


def cut_transposed(matrix: Tensor) -> Panels:
    """Cut the linear map whose kernel is a matrix transposed, without a bias.

    Args:
        matrix: float `[columns, width_in]`.

    Returns:
        Panels of the map, zeros after its last column until the panel is full.
    """
    columns, width_in = matrix.shape
    width = _width()
    matrix = ops.pad(matrix, ((0, -columns % width), (0, 0)))
    return Panels(transposed(ops.reshape(matrix, (-1, width, width_in)), (0, 2, 1)))


def mapped(inputs: Tensor, panels: Panels) -> Tensor:
    """Map float `[rows, width_in]` to `[rows, panels * width]`."""
    count, _, width = panels.kernel.shape
    product = panel_products(inputs, panels)
    outputs = ops.reshape(transposed(product, (1, 0, 2)), (-1, count * width))
    return outputs if panels.bias is None else outputs + panels.bias


def panel_products(inputs: Tensor, panels: Panels) -> Tensor:
    """Multiply float `[rows, width_in]` with each panel, without the bias.

    Returns:
        float `[panels, rows, width]`.
    """
    return ops.matmul(ops.expand_dims(inputs, 0), panels.kernel)


def transposed(values: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Transpose numbers as bits; no gradient goes through it.

    Floats, TensorFlow on a CPU leaves to oneDNN, which takes 60 us for what its own
    takes 10: a few kilobytes.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.transpose(values, axes)
    import tensorflow as tf

    bits = tf.bitcast(values, _BITS[values.dtype.size])
    return tf.bitcast(tf.transpose(bits, axes), values.dtype)


def _fitting_width(unit: int) -> int:
    """Return a width of panels that divides a unit, or all of it where none does."""
    most = _width()
    near = range(most // 2, most + 1)
    return max((width for width in near if unit % width == 0), default=unit)


def _width() -> int:
    """Return the best width on this machine; another computes the same, less fast."""
    is_narrow = hardware.has_avx2_alone() and not hardware.has_gpu()
    return _NARROW if is_narrow else _WIDE


def _cut(matrix: Tensor, width: int) -> Tensor:
    """[rows, columns] -> [panels, rows, width]."""
    num_rows, columns = matrix.shape
    split = ops.reshape(matrix, (num_rows, columns // width, width))
    return transposed(split, (1, 0, 2))
