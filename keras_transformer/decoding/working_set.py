"""What a search works on: the sentences that go on, and the columns of their cache.

A model keeps something of every token it was given, such as attention's keys and
values, in a column of its cache: one column for each slot of the beam at each step.
Columns are never reordered while the search goes on; `Past` says which ones are a
hypothesis's own. Every few steps `next_working_set` lets go of what nobody reads any
more, and makes room for the next steps:

* sentences that are done leave;
* columns that are in no hypothesis's past leave. The hypotheses of a beam soon have all
  but their last tokens in common, so most columns do;
* what is left is copied once to a cache with room for the next steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class Past(NamedTuple):
    """What a step of the model reads of its cache, and where it writes."""

    # [b, k, c]: column c is in the past of the hypothesis now in slot k; at the columns
    # of this step, each slot has its own.
    ancestry: tf.Tensor  # bool [batch, beam, columns]
    steps: tf.Tensor  # int32 [batch, columns]: the step of each column
    first_column: tf.Tensor  # int32 []: slot k writes column first_column + k


class WorkingSet(NamedTuple):
    """The sentences that are searched on, and all that belongs to them."""

    rows: tf.Tensor  # int32 [working]: which of the batch they are
    sentences: Any  # a nest of tensors [working, ...] that never change
    cache: Any  # a nest of tensors [working, heads, columns, ...]
    ancestry: tf.Tensor  # bool [working, beam, columns]
    steps: tf.Tensor  # int32 [working, columns]


def first_working_set(
    batch: int | tf.Tensor, beam_size: int, sentences: Any, cache: Any
) -> WorkingSet:
    """Return the whole batch, with nothing in its cache.

    Args:
        batch: Sentences.
        beam_size: Slots of each.
        sentences: A nest of tensors `[batch, ...]`.
        cache: A nest of tensors `[batch, heads, 0, ...]`.
    """
    return WorkingSet(
        rows=tf.range(batch),
        sentences=sentences,
        cache=cache,
        ancestry=tf.zeros([batch, beam_size, 0], tf.bool),
        steps=tf.zeros([batch, 0], tf.int32),
    )


def next_working_set(
    work: WorkingSet,
    is_done: tf.Tensor,
    step: tf.Tensor,
    num_steps: int | tf.Tensor,
    window: int | None = None,
) -> WorkingSet:
    """Return what `num_steps` steps from `step` on work on.

    Args:
        work: What the steps before worked on.
        is_done: bool `[batch]`: the sentences of the whole batch that are done.
        step: int32 scalar.
        num_steps: Steps to make room for.
        window: Steps back that a step reads, its own counted; None: all.
    """
    kept = tf.where(~tf.gather(is_done, work.rows))[:, 0]  # of the working
    rows, sentences, ancestry, steps = tf.nest.map_structure(
        lambda values: tf.gather(values, kept),
        (work.rows, work.sentences, work.ancestry, work.steps),
    )
    columns = _read_columns(ancestry, steps, step, window)
    # New columns hold what another of the sentence does, until they are written.
    added = num_steps * ancestry.shape[1]
    taken = tf.pad(columns, [[0, 0], [0, added]])
    work = WorkingSet(
        rows,
        sentences,
        _taken(work.cache, kept, taken),
        tf.gather(ancestry, columns, axis=2, batch_dims=1),
        tf.gather(steps, columns, axis=1, batch_dims=1),
    )
    return _with_new_columns(work, step, added)


def with_room(
    work: WorkingSet, step: int | tf.Tensor, num_steps: int | tf.Tensor
) -> WorkingSet:
    """Add the columns of `num_steps` steps from `step` on, which nobody reads yet."""
    added = num_steps * work.ancestry.shape[1]
    work = work._replace(cache=empty_columns(work.cache, added))
    return _with_new_columns(work, step, added)


def empty_columns(cache: Any, added: int | tf.Tensor) -> Any:
    """Add columns of zeros to every tensor `[batch, heads, columns, ...]` of a nest."""
    pad = trace_once(_padded)
    return tf.nest.map_structure(lambda part: pad(part, added), cache)


def shape_invariants(work: WorkingSet) -> WorkingSet:
    """Return the shapes that stay while sentences and columns come and go."""

    def of_sentence(values):
        return tf.TensorShape([None, *values.shape[1:]])

    def of_cache(part):
        return tf.TensorShape([None, part.shape[1], None, *part.shape[3:]])

    return WorkingSet(
        rows=tf.TensorShape([None]),
        sentences=tf.nest.map_structure(of_sentence, work.sentences),
        cache=tf.nest.map_structure(of_cache, work.cache),
        ancestry=of_cache(work.ancestry),
        steps=tf.TensorShape([None, None]),
    )


def trace_once(run: Callable) -> Callable:
    """Return a function that the graph being made holds once, however often called.

    Args:
        run: Takes tensors; other arguments must be equal in every call. Must not read
            variables.
    """
    return tf.function(run, autograph=False) if tf.inside_function() else run


def _padded(part, added) -> tf.Tensor:
    ends = [[0, 0], [0, 0], [0, added]] + [[0, 0]] * (part.shape.rank - 3)
    return tf.pad(part, ends)


def _read_columns(ancestry, steps, step, window) -> tf.Tensor:
    """Return the columns somebody reads, int32 `[working, columns]`, as wide as needed.

    In order; where a sentence has fewer than another, followed by some nobody reads.
    """
    is_read = tf.reduce_any(ancestry, axis=1)
    if window is not None:
        is_read &= steps > step - window
    is_read = tf.cast(is_read, tf.int32)
    # The zero is for no sentences at all, which have no largest number.
    most = tf.reduce_max(tf.concat([tf.reduce_sum(is_read, axis=1), [0]], axis=0))
    return tf.math.top_k(is_read, most).indices  # of equals, the lower one first


def _taken(cache, kept, columns) -> Any:
    """Take sentences and columns of a cache in one copy.

    Args:
        cache: A nest of tensors `[batch, heads, columns, ...]`.
        kept: int `[working]`.
        columns: int32 `[working, taken]`.
    """
    places = {}  # by the number of heads: of most caches, of all tensors the same

    def taken(part):
        key = part.shape[1]
        if key is None or key not in places:
            places[key] = _places(part, kept, columns)
        return take(part, places[key])

    take = trace_once(_gathered)
    return tf.nest.map_structure(taken, cache)


def _gathered(part, places) -> tf.Tensor:
    """Take columns of a cache from where `_places` says."""
    every = tf.reshape(part, tf.concat([[-1], tf.shape(part)[3:]], axis=0))
    shape = [None, part.shape[1], None, *part.shape[3:]]
    return tf.ensure_shape(tf.gather(every, places), shape)


def _places(part, kept, columns) -> tf.Tensor:
    """Return where, counted over sentences and heads, the columns to be taken are."""
    _, heads, count = tf.unstack(tf.shape(part)[:3])
    first = (tf.cast(kept, tf.int32)[:, tf.newaxis] * heads + tf.range(heads)) * count
    return first[:, :, tf.newaxis] + columns[:, tf.newaxis]


def _with_new_columns(work, step, added) -> WorkingSet:
    """Tell of `added` columns of the cache, of the steps from `step` on, unread yet."""
    new_steps = step + tf.range(added) // work.ancestry.shape[1]
    new_steps = tf.broadcast_to(new_steps, [tf.shape(work.rows)[0], added])
    return work._replace(
        ancestry=tf.pad(work.ancestry, [[0, 0], [0, 0], [0, added]]),
        steps=tf.concat([work.steps, new_steps], axis=1),
    )
