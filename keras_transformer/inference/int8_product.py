"""Matrix products of 8-bit integers, by oneDNN's kernel inside TensorFlow.

A weight is stored as an integer of [-127, 127] times a number of its column; each row
of the inputs is rounded the same way when it is multiplied. So a product reads a
quarter of the bytes and needs no data to calibrate, and the answer to a sentence does
not depend on those beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

LARGEST = 127.0  # of int8, without -128: the same on both sides of zero


class Int8Matrix(NamedTuple):
    """Rows or columns of floats, each as integers times one number."""

    values: tf.Tensor  # int8 [..., rows, columns]
    ranges: tf.Tensor  # float32 [..., rows] or [..., columns]: the largest |weight|


def quantized(matrix: tf.Tensor, axis: int) -> Int8Matrix:
    """Round weights to integers.

    Args:
        matrix: float `[..., rows, columns]`.
        axis: The axis whose weights share a range: -2 for a range of each column, -1
            for one of each row.
    """
    matrix = tf.cast(matrix, tf.float32)
    ranges = tf.reduce_max(tf.abs(matrix), axis=axis, keepdims=True)
    scaled = tf.round(tf.math.divide_no_nan(matrix, ranges) * LARGEST)
    return Int8Matrix(tf.cast(scaled, tf.int8), tf.squeeze(ranges, axis))


def dequantized(matrix: Int8Matrix, axis: int) -> tf.Tensor:
    """Return the floats that integers stand for; arguments as in `quantized`."""
    scales = tf.expand_dims(matrix.ranges / LARGEST, axis)
    return tf.cast(matrix.values, tf.float32) * scales


def rows(table: Int8Matrix | tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Return rows of a table, float; its ranges are of its rows."""
    if not isinstance(table, Int8Matrix):
        return tf.gather(table, ids)
    return dequantized(Int8Matrix(*(tf.gather(part, ids) for part in table)), -1)


def multiply(
    inputs: tf.Tensor,
    matrix: Int8Matrix,
    *,
    transpose_b: bool = False,
    is_constant: bool = True,
) -> tf.Tensor:
    """Multiply float32 `[rows, width_in]` by a matrix, in a graph: no gradient.

    Args:
        inputs: The left side.
        matrix: `[width_in, width_out]`, or transposed; its ranges are those of the
            `width_out`.
        transpose_b: Whether the matrix is transposed.
        is_constant: Whether this operation of the graph gets the same matrix each time
            that it runs. Then it keeps a copy of the first, in the CPU's layout: in a
            function that is called with several matrices it would mix them up.

    Returns:
        float32 `[rows, width_out]`.
    """
    most = tf.reduce_max(tf.abs(inputs), axis=1, keepdims=True)
    scaled = tf.round(inputs * tf.math.divide_no_nan(LARGEST, most))
    outputs = _product(
        tf.bitcast(tf.cast(scaled, tf.int8), tf.qint8),
        tf.bitcast(matrix.values, tf.qint8),
        matrix.ranges,
        transpose_b,
        is_constant,
    )
    return outputs * most


def _product(inputs, weights, ranges, transpose_b, is_constant) -> tf.Tensor:
    """Multiply integers; those of the inputs stand for [-1, 1]."""
    width = weights.shape[0 if transpose_b else 1]
    one = tf.constant(1.0)
    operands = [inputs, weights, tf.zeros(tf.shape(ranges)), one, one, ranges, ranges]
    attributes = {
        "T1": _type(tf.qint8),
        "T2": _type(tf.qint8),
        "Tbias": _type(tf.float32),
        "U": _type(tf.float32),
        "Tout": _type(tf.float32),
        "Tdevice_inputs": _types([each.dtype for each in operands]),
        "Tdevice_outputs": _types([tf.float32]),
        "Thost_inputs": _types([]),
        "Thost_outputs": _types([]),
        "transpose_b": attr_value_pb2.AttrValue(b=transpose_b),
        "is_weight_const": attr_value_pb2.AttrValue(b=is_constant),
        "is_bias_const": attr_value_pb2.AttrValue(b=True),
        "fused_ops": attr_value_pb2.AttrValue(
            list=attr_value_pb2.AttrValue.ListValue(s=[b"BiasAdd", b"Dequantize"])
        ),
        "input_quant_mode": attr_value_pb2.AttrValue(s=b"SCALED"),
        "output_quant_mode": attr_value_pb2.AttrValue(s=b"SCALED"),
    }
    operation = tf.compat.v1.get_default_graph().create_op(
        "_QuantizedMatMul", operands, attrs=attributes, name="int8_product"
    )
    return tf.ensure_shape(operation.outputs[0], [None, width])


def _type(dtype: tf.DType) -> attr_value_pb2.AttrValue:
    return attr_value_pb2.AttrValue(type=dtype.as_datatype_enum)


def _types(dtypes: list[tf.DType]) -> attr_value_pb2.AttrValue:
    types = [dtype.as_datatype_enum for dtype in dtypes]
    return attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(type=types))
