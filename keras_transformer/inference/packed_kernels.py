"""Kernels packed in blocks of columns, for fast products with the few rows of a step.

A CPU's matrix product copies a matrix block by block into contiguous memory, at every
step of a search. A packed kernel has this layout already. With 2048 x 512 and
512 x 2048 weights in float32, TensorFlow on two cores with AVX-512 maps 4 rows in 0.54
ms instead of 0.85 and 128 rows in 2.5 instead of 3.35; with AVX2 4 rows in 0.46 instead
of 0.63 and 128 rows in 3.4 instead of 5.7.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_transformer import hardware
from keras_transformer.inference import int8_product
from keras_transformer.inference.int8_product import Int8Matrix

# Approximate columns of a block. On a CPU with AVX2 and without AVX-512, 4 rows take
# three quarters of the time with narrow blocks, 128 rows the same time.
_WIDE, _NARROW = 64, 16
# Up to so many weights a kernel stays whole: it is in a core's cache, so layouts are
# equally fast, and only products of blocks must be transposed.
_FEW_WEIGHTS = 100_000

_BITS = {2: tf.uint16, 4: tf.uint32, 8: tf.uint64}  # by size in bytes


class PackedKernel(NamedTuple):
    """A linear map; its kernel in blocks, or whole if small, or for XLA."""

    # float [blocks, width_in, width]; whole: float or int8 [width_in, width_out]
    blocks: tf.Tensor
    bias: tf.Tensor | None = None  # float [width_out]
    # float32 [width_out], the ranges of an `Int8Matrix`, whose values are whole.
    ranges: tf.Tensor | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the kernel is one matrix."""
        return self.blocks.shape.rank == 2


def pack(layers: list[keras.layers.Dense], unit: int) -> PackedKernel:
    """Pack linear maps of the same input into one kernel, in order, unless it is small.

    Args:
        layers: The maps, all with a bias or all without. Activations are ignored.
        unit: Number of columns that belong together, such as those of a head: no block
            has columns of two units. Must divide the width of each map.
    """
    num_weights = sum(math.prod(layer.kernel.shape) for layer in layers)
    if num_weights <= _FEW_WEIGHTS:
        return whole(layers, unit)
    dtype, width = layers[0].compute_dtype, _fitting_width(unit)
    blocks = [_split(tf.cast(layer.kernel, dtype), width) for layer in layers]
    return PackedKernel(tf.concat(blocks, axis=0), _joined_bias(layers))


def whole(layers: list[keras.layers.Dense], unit: int) -> PackedKernel:
    """Join linear maps of the same input in one matrix; arguments same as in `pack`.

    XLA packs by itself.
    """
    del unit
    kernels = [tf.cast(layer.kernel, layer.compute_dtype) for layer in layers]
    return PackedKernel(tf.concat(kernels, axis=1), _joined_bias(layers))


def pack_transposed(matrix: tf.Tensor) -> PackedKernel:
    """Pack the transpose of a matrix as a kernel without bias.

    Args:
        matrix: float `[columns, width_in]`.

    Returns:
        The kernel; the last block is filled with zeros.
    """
    columns, width_in = matrix.shape
    width = _width()
    matrix = tf.pad(matrix, ((0, -columns % width), (0, 0)))
    return PackedKernel(transpose(tf.reshape(matrix, (-1, width, width_in)), (0, 2, 1)))


def unpacked(kernel: PackedKernel) -> PackedKernel:
    """Return the kernel as one matrix."""
    count, width_in, width = kernel.blocks.shape
    joined = tf.transpose(kernel.blocks, (1, 0, 2))
    return kernel._replace(blocks=tf.reshape(joined, (width_in, count * width)))


def multiply(inputs: tf.Tensor, kernel: PackedKernel) -> tf.Tensor:
    """Map float `[rows, width_in]` to `[rows, width_out]`."""
    if kernel.is_whole:
        outputs = _whole_product(inputs, kernel)
        return outputs if kernel.bias is None else outputs + kernel.bias
    count, _, width = kernel.blocks.shape
    product = multiply_blocks(inputs, kernel)
    outputs = tf.reshape(transpose(product, (1, 0, 2)), (-1, count * width))
    return outputs if kernel.bias is None else outputs + kernel.bias


def _whole_product(inputs: tf.Tensor, kernel: PackedKernel) -> tf.Tensor:
    if kernel.ranges is None:
        return tf.matmul(inputs, kernel.blocks)
    return int8_product.multiply(inputs, Int8Matrix(kernel.blocks, kernel.ranges))


def multiply_blocks(inputs: tf.Tensor, kernel: PackedKernel) -> tf.Tensor:
    """Multiply float `[rows, width_in]` by each block, without the bias.

    Returns:
        float `[blocks, rows, width]`.
    """
    return tf.matmul(inputs[tf.newaxis], kernel.blocks)


def transpose(values: tf.Tensor, axes: tuple[int, ...]) -> tf.Tensor:
    """Transpose floats as integers of the same size; has no gradient.

    On a CPU TensorFlow transposes floats with oneDNN, which takes 60 us for a few
    kilobytes; its kernel for integers takes 10 us.
    """
    bits = tf.bitcast(values, _BITS[values.dtype.size])
    return tf.bitcast(tf.transpose(bits, axes), values.dtype)


def _joined_bias(layers: list[keras.layers.Dense]) -> tf.Tensor | None:
    if not layers[0].use_bias:
        return None
    return tf.concat(
        [tf.cast(each.bias, each.compute_dtype) for each in layers], axis=0
    )


def _fitting_width(unit: int) -> int:
    """Return a block width that divides a unit, or the unit if there is none."""
    most = _width()
    near = range(most // 2, most + 1)
    return max((width for width in near if unit % width == 0), default=unit)


def _width() -> int:
    """Return the fastest width on this machine; all widths give equal results."""
    is_narrow = hardware.has_avx2_alone() and not hardware.has_gpu()
    return _NARROW if is_narrow else _WIDE


def _split(matrix: tf.Tensor, width: int) -> tf.Tensor:
    """[rows, columns] -> [blocks, rows, width]."""
    num_rows, columns = matrix.shape
    split = tf.reshape(matrix, (num_rows, columns // width, width))
    return transpose(split, (1, 0, 2))
