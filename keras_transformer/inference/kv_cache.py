"""The cache of a search: keys and values of earlier steps, written in place."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from keras_transformer.config import ModelConfig

# Keys of one layer, float [batch, heads, columns, key_dim], and its values,
# [batch, heads, columns, value_dim]. A column belongs to one slot of the beam at one
# step.
LayerCache = tuple[tf.Tensor, tf.Tensor]


class CacheArea(NamedTuple):
    """The columns that a step writes, equal for all layers; int32 tensors.

    The cache is written as a matrix, [batch * heads, columns * dim], of elements as
    wide as possible.
    """

    cache: tf.Tensor  # shape of the cache
    matrix: tf.Tensor  # shape of the cache as a matrix
    update: tf.Tensor  # shape of the update as a matrix
    begin: tf.Tensor  # first element of the update in the matrix
    end: tf.Tensor  # its end


def empty(
    config: ModelConfig, batch_size: int | tf.Tensor, num_columns: int, dtype: str
) -> list[LayerCache]:
    """Return a cache of zeros.

    Args:
        config: Configuration of the model.
        batch_size: Number of sentences.
        num_columns: Number of columns: one per slot of the beam and step.
        dtype: The model's compute dtype.
    """
    rows = (batch_size, config.num_heads, num_columns)
    widths = (config.head_key_dim, config.head_value_dim)
    layer = tuple(tf.zeros((*rows, dim), dtype) for dim in widths)
    return [layer for _ in range(config.decoder_depth)]


def areas(
    config: ModelConfig,
    first_column: tf.Tensor,
    num_columns: int | tf.Tensor,
    beam_size: int | tf.Tensor,
    dtype: tf.DType,
) -> tuple[CacheArea, CacheArea]:
    """Return the areas where a step writes keys and values.

    Args:
        config: Configuration of the model.
        first_column: int32 scalar.
        num_columns: Columns of the cache.
        beam_size: Columns to write.
        dtype: The dtype of the cache.
    """

    def area(dim):
        _, parts = _element(dim, dtype)
        words = dim // parts  # elements of a column
        last = [] if parts == 1 else [parts]
        begin = first_column * words
        return CacheArea(
            cache=tf.stack([-1, config.num_heads, num_columns, dim]),
            matrix=tf.stack([-1, num_columns * words, *last]),
            update=tf.stack([-1, beam_size * words, *last]),
            begin=tf.stack([0, begin]),
            end=tf.stack([0, begin + beam_size * words]),
        )

    return area(config.head_key_dim), area(config.head_value_dim)


def write(
    cache: tf.Tensor, update: tf.Tensor, area: CacheArea | tf.Tensor
) -> tf.Tensor:
    """Write the keys or values of a step into the cache.

    Args:
        cache: float `[batch, heads, columns, dim]`.
        update: float `[batch, heads, beam, dim]`.
        area: From `areas`; under XLA the first column, int32 scalar.
    """
    update = tf.cast(update, cache.dtype)
    if not isinstance(area, CacheArea):
        start = tf.stack([0, 0, area, 0])
        return gen_xla_ops.xla_dynamic_update_slice(cache, update, start)
    element, _ = _element(update.shape[3], cache.dtype)
    is_viewed = element != cache.dtype
    old, new = tf.reshape(cache, area.matrix), tf.reshape(update, area.update)
    if is_viewed:
        old, new = (tf.bitcast(part, element) for part in (old, new))
    # The only operation of TensorFlow that writes in place; Keras's slice_update and
    # tf.tensor_scatter_nd_update copy the cache at every step.
    written = tf.raw_ops.TensorStridedSliceUpdate(
        input=old,
        begin=area.begin,
        end=area.end,
        strides=[1, 1],
        value=new,
        begin_mask=0b01,  # every row
        end_mask=0b01,
    )
    if is_viewed:
        written = tf.bitcast(written, cache.dtype)
    return tf.reshape(written, area.cache)


def _element(dim: int, dtype: tf.DType) -> tuple[tf.DType, int]:
    """Return the widest dtype that fits, and how many numbers one element holds."""
    widest, own = tf.complex128, tf.as_dtype(dtype)
    parts = widest.size // own.size
    return (widest, parts) if dim % parts == 0 else (own, 1)
