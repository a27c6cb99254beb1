"""Split a batch into groups of similar length, so that short rows need little padding.

A server joins the texts of several clients in one batch. Padded to one long text, 31
short sentences would take as long as 31 long ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# Each group has search steps of its own. A split must save at least this many padded
# positions and half of all positions.
_WORTH_POSITIONS = 1000


def in_groups(
    lengths: tf.Tensor, rows: Any, answer: Callable[[Any, tf.Tensor], Any], found: Any
) -> Any:
    """Process rows in groups of similar length, longest first.

    `answer` is traced once.

    Args:
        lengths: int32 `[batch]`: lengths of the rows, which `answer` pads.
        rows: A nest of tensors `[batch, ...]`.
        answer: Called with the rows of a group and their largest length; returns a nest
            of tensors `[group, ...]`.
        found: A nest of tensors `[batch, ...]`: the values before. Answers overwrite
            them, except positions of the last axis beyond an answer's size.

    Returns:
        `found` with the answer of each row, in the order of the rows.
    """
    batch = tf.size(lengths)
    descending, by_length = tf.math.top_k(lengths, batch)

    def has_rows(begin, found):
        del found
        return begin < batch

    def take_group(begin, found):
        count = first_group(descending[begin:])
        group = by_length[begin : begin + count]
        own = tf.nest.map_structure(lambda values: tf.gather(values, group), rows)
        answers = answer(own, descending[begin])
        # The index of each row in the new answers followed by the old values.
        indices = tf.tensor_scatter_nd_update(
            count + tf.range(batch), group[:, tf.newaxis], tf.range(count)
        )
        return begin + count, tf.nest.map_structure(
            lambda new, values: _overwrite(new, values, group, indices), answers, found
        )

    # One group at a time: two in parallel would need the memory of both.
    return tf.while_loop(has_rows, take_group, (0, found), parallel_iterations=1)[1]


def first_group(lengths: tf.Tensor) -> tf.Tensor:
    """Return the number of longest rows that form the next group.

    Args:
        lengths: int32 `[rows]`, descending, of at least one row.
    """
    count = tf.size(lengths)
    taken = tf.range(1, count + 1)
    # For each size of the first group: padded positions of this group and the rest.
    others = (count - taken) * tf.concat([lengths[1:], [0]], axis=0)
    positions = taken * lengths[0] + others
    best, together = tf.reduce_min(positions), positions[-1]
    is_worth = (2 * best <= together) & (together - best >= _WORTH_POSITIONS)
    return tf.where(is_worth, taken[tf.argmin(positions)], count)


def _overwrite(new, values, group, indices) -> tf.Tensor:
    """Return `values` with the answers of a group written over them."""
    sizes = new.shape[1:]
    if not (sizes.is_fully_defined() and sizes == values.shape[1:]):
        rest = tf.gather(values, group)[..., tf.shape(new)[-1] :]
        new = tf.concat([new, rest], axis=-1)
    # tf.tensor_scatter_nd_update does not accept answers of width 0.
    joined = tf.gather(tf.concat([new, values], axis=0), indices)
    return tf.ensure_shape(joined, values.shape)
