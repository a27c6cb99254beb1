"""Writing one step's keys and values into the cache of a search, where it lies."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

Tensor = Any


class CacheArea(NamedTuple):
    """The columns that a step writes: the same in every layer's cache of a kind.

    Tensors, int32, so that a layer's step can be traced as a function of them. All but
    the first are for `TensorStridedSliceUpdate` and None without TensorFlow.
    """

    place: Tensor  # the first column
    cache: Tensor | None = None  # shape of the cache
    # As matrices, [batch * heads, columns * dim], of the widest elements there are:
    whole: Tensor | None = None  # shape of the cache
    written: Tensor | None = None  # shape of what is written
    begin: Tensor | None = None  # where that goes
    end: Tensor | None = None


def cache_area(
    place: Tensor,
    num_columns: int | Tensor,
    beam_size: int | Tensor,
    num_heads: int,
    dim: int,
    dtype: str,
) -> CacheArea:
    """Say where a step writes.

    Args:
        place: int32 scalar: the first column.
        num_columns: Columns of a cache, an int or int32 scalar.
        beam_size: Columns to write, an int or int32 scalar.
        num_heads: Heads of a cache.
        dim: Width of a head.
        dtype: Of a cache.
    """
    if keras.backend.backend() != "tensorflow":
        return CacheArea(place)
    import tensorflow as tf

    _, parts = _elements(dim, dtype)
    words = dim // parts  # of a column
    last = [] if parts == 1 else [parts]
    begin = place * words
    return CacheArea(
        place=place,
        cache=tf.stack([-1, num_heads, num_columns, dim]),
        whole=tf.stack([-1, num_columns * words, *last]),
        written=tf.stack([-1, beam_size * words, *last]),
        begin=tf.stack([0, begin]),
        end=tf.stack([0, begin + beam_size * words]),
    )


def write(cache: Tensor, update: Tensor, area: CacheArea) -> Tensor:
    """Return the cache with a step in it.

    Args:
        cache: float `[batch, heads, columns, dim]`.
        update: float `[batch, heads, beam, dim]`.
        area: From `cache_area`, of a cache of these heads, width and dtype.
    """
    update = ops.cast(update, cache.dtype)
    if keras.backend.backend() != "tensorflow":
        return ops.slice_update(cache, (0, 0, area.place, 0), update)
    # The one operation of TensorFlow that writes where the cache lies; Keras's, and
    # tf.tensor_scatter_nd_update, copy it at every step.
    import tensorflow as tf

    element, _ = _elements(update.shape[3], cache.dtype)
    is_viewed = element != cache.dtype
    old, new = tf.reshape(cache, area.whole), tf.reshape(update, area.written)
    if is_viewed:
        old, new = (tf.bitcast(part, element) for part in (old, new))
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


def _elements(dim: int, dtype: Any) -> tuple[Any, int]:
    """Return the type to write in, which is fastest if wide, and numbers in one."""
    import tensorflow as tf

    widest, own = tf.complex128, tf.as_dtype(dtype)
    parts = widest.size // own.size
    return (widest, parts) if dim % parts == 0 else (own, 1)
