"""Rows of a batch in groups of about one length, so that long ones pad no short ones.

A server joins the texts of several clients. Padded to one long text, 31 sentences would
take as long in the encoder, and at every step of a search, as 31 long ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# Another group searches its steps alone: worth it where at least this many padded
# positions, and half of all positions, are saved.
_WORTH_POSITIONS = 1000


def in_groups(
    lengths: tf.Tensor, rows: Any, answer: Callable[[Any, tf.Tensor], Any], found: Any
) -> Any:
    """Answer rows in groups, long ones first, and return the answers in row order.

    Rows of about equal length are one group. The graph holds `answer` once.

    Args:
        lengths: int32 `[batch]`: what a group pads to its longest.
        rows: A nest of tensors `[batch, ...]`.
        answer: Gets the rows of a group and their largest length; returns a nest of
            tensors `[group, ...]`.
        found: A nest of tensors `[batch, ...]` that answers are written over. Where it
            is larger than an answer on the last axis, it stays.

    Returns:
        `found` with the answer of each row.
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
        # Where each row's answer is: among these, or behind them as before.
        places = tf.tensor_scatter_nd_update(
            count + tf.range(batch), group[:, tf.newaxis], tf.range(count)
        )
        return begin + count, tf.nest.map_structure(
            lambda new, values: _joined(new, values, group, places), answers, found
        )

    # One group at a time: two at once would take the memory of both.
    return tf.while_loop(has_rows, take_group, (0, found), parallel_iterations=1)[1]


def first_group(lengths: tf.Tensor) -> tf.Tensor:
    """Return how many of the longest rows are answered before the others, or all.

    Args:
        lengths: int32 `[rows]`, descending, of at least one row.
    """
    count = tf.size(lengths)
    taken = tf.range(1, count + 1)
    # By the size of the first group: the positions of both, each padded to its longest.
    others = (count - taken) * tf.concat([lengths[1:], [0]], axis=0)
    positions = taken * lengths[0] + others
    best, together = tf.reduce_min(positions), positions[-1]
    is_worth = (2 * best <= together) & (together - best >= _WORTH_POSITIONS)
    return tf.where(is_worth, taken[tf.argmin(positions)], count)


def _joined(new, values, group, places) -> tf.Tensor:
    """Return `values` with the answers of a group written over them."""
    sizes = new.shape[1:]
    if not (sizes.is_fully_defined() and sizes == values.shape[1:]):
        rest = tf.gather(values, group)[..., tf.shape(new)[-1] :]
        new = tf.concat([new, rest], axis=-1)
    # Not by a scatter, which refuses answers of width 0.
    joined = tf.gather(tf.concat([new, values], axis=0), places)
    return tf.ensure_shape(joined, values.shape)
