"""Writing one step's keys and values into the cache of a search, where it lies."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

Tensor = Any


class CacheWriter:
    """Writes what a step adds, at the same columns of every layer's cache.

    Args:
        place: int32 scalar: the first column.
        num_columns: Columns of a cache, an int or int32 scalar.
        beam_size: Columns to write, an int or int32 scalar.
    """

    def __init__(
        self, place: Tensor, num_columns: int | Tensor, beam_size: int | Tensor
    ):
        self._place = place
        self._num_columns = num_columns
        self._beam_size = beam_size
        self._areas: dict[tuple, _Area] = {}

    def __call__(self, cache: Tensor, update: Tensor) -> Tensor:
        """Return the cache with a step in it.

        Args:
            cache: float `[batch, heads, columns, dim]`.
            update: float `[batch, heads, beam, dim]`.
        """
        update = ops.cast(update, cache.dtype)
        if keras.backend.backend() != "tensorflow":
            return ops.slice_update(cache, (0, 0, self._place, 0), update)
        # The one operation of TensorFlow that writes where the cache lies; Keras's, and
        # tf.tensor_scatter_nd_update, copy it at every step.
        import tensorflow as tf

        area = self._area(update.shape[1], update.shape[3], cache.dtype)
        is_viewed = area.element != cache.dtype
        old, new = tf.reshape(cache, area.all), tf.reshape(update, area.written)
        if is_viewed:
            old, new = (tf.bitcast(part, area.element) for part in (old, new))
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

    def _area(self, heads, dim, dtype) -> _Area:
        """Say where to write, once for all caches of a kind."""
        key = (heads, dim, dtype)
        if key not in self._areas:
            self._areas[key] = self._new_area(*key)
        return self._areas[key]

    def _new_area(self, heads, dim, dtype):
        import tensorflow as tf

        # As matrices, [batch * heads, columns * dim], of the widest elements that
        # there are, which it writes the fastest.
        widest = tf.complex128
        parts = widest.size // dtype.size
        if dim % parts:
            widest, parts = dtype, 1
        words = dim // parts  # of a column
        last = [] if parts == 1 else [parts]
        begin = self._place * words
        return _Area(
            element=widest,
            all=tf.stack([-1, self._num_columns * words, *last]),
            written=tf.stack([-1, self._beam_size * words, *last]),
            begin=tf.stack([0, begin]),
            end=tf.stack([0, begin + self._beam_size * words]),
            cache=tf.stack([-1, heads, self._num_columns, dim]),
        )


class _Area(NamedTuple):
    """Shapes and places, int32, for `TensorStridedSliceUpdate`."""

    element: Any  # dtype
    all: Tensor
    written: Tensor
    begin: Tensor
    end: Tensor
    cache: Tensor
