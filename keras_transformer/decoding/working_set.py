"""The sentences that a search still works on, and the columns of their cache.

A model stores values for every token, such as attention's keys and values, in a column
of its cache: one column per slot of the beam and step. Columns are never reordered
during the search; `Past` says which columns belong to each hypothesis. Every few steps
`next_working_set` compacts:

* sentences that are done are removed;
* columns in no hypothesis's past are removed. The hypotheses of a beam soon share all
  but their last tokens, so this removes most columns;
* the rest is copied once into a cache with columns for the next steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class Past(NamedTuple):
    """The cache columns that a step reads, and where it writes.

    Examples:
        >>> past = kt.decoding.Past(
        ...     ancestry=tf.constant([[[True, False], [False, True]]]),
        ...     steps=tf.constant([[0, 0]]),
        ...     first_column=tf.constant(0),
        ... )
        >>> past.ancestry[
        ...     0, 1
        ... ].numpy().tolist()  # the second hypothesis reads its own column
        [False, True]
    """

    # [b, k, c]: whether column c is in the past of the hypothesis now in slot k,
    # including the slot's own column of this step.
    ancestry: tf.Tensor  # bool [batch, beam, columns]
    steps: tf.Tensor  # int32 [batch, columns]: the step of each column
    first_column: tf.Tensor  # int32 []: slot k writes column first_column + k


class WorkingSet(NamedTuple):
    """The sentences that are not done, with their inputs and cache."""

    rows: tf.Tensor  # int32 [working]: their rows in the batch
    sentences: Any  # a nest of tensors [working, ...]: constant inputs
    cache: Any  # a nest of tensors [working, heads, columns, ...]
    ancestry: tf.Tensor  # bool [working, beam, columns]
    steps: tf.Tensor  # int32 [working, columns]


def first_working_set(
    batch: int | tf.Tensor, beam_size: int, sentences: Any, cache: Any
) -> WorkingSet:
    """Return the whole batch with an empty cache.

    Args:
        batch: Number of sentences.
        beam_size: Slots per sentence.
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
    """Compact, and add columns for `num_steps` steps from `step` on.

    Args:
        work: The working set of the steps before.
        is_done: bool `[batch]`: the sentences of the whole batch that are done.
        step: int32 scalar.
        num_steps: Number of steps to add columns for.
        window: Number of last steps that a step reads, including itself; None: all.
    """
    kept = tf.where(~tf.gather(is_done, work.rows))[:, 0]  # indices into `work`
    rows, sentences, ancestry, steps = tf.nest.map_structure(
        lambda values: tf.gather(values, kept),
        (work.rows, work.sentences, work.ancestry, work.steps),
    )
    columns = _read_columns(ancestry, steps, step, window)
    # New columns hold a copy of column 0 until they are written.
    added = num_steps * ancestry.shape[1]
    taken = tf.pad(columns, [[0, 0], [0, added]])
    work = WorkingSet(
        rows,
        sentences,
        _gather_columns(work.cache, kept, taken),
        tf.gather(ancestry, columns, axis=2, batch_dims=1),
        tf.gather(steps, columns, axis=1, batch_dims=1),
    )
    return _with_new_columns(work, step, added)


def with_room(
    work: WorkingSet, step: int | tf.Tensor, num_steps: int | tf.Tensor
) -> WorkingSet:
    """Add empty columns for `num_steps` steps from `step` on."""
    added = num_steps * work.ancestry.shape[1]
    work = work._replace(cache=empty_columns(work.cache, added))
    return _with_new_columns(work, step, added)


def empty_columns(cache: Any, added: int | tf.Tensor) -> Any:
    """Append columns of zeros to every tensor `[batch, heads, columns, ...]`."""
    pad = trace_once(_padded)
    return tf.nest.map_structure(lambda part: pad(part, added), cache)


def shape_invariants(work: WorkingSet) -> WorkingSet:
    """Return the shapes of the loop: sentences and columns vary in number."""

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
    """Return a function that is traced once per graph, however often it is called.

    Args:
        run: Takes tensors; other arguments must be equal in every call. Must not read
            variables.
    """
    return tf.function(run, autograph=False) if tf.inside_function() else run


def _padded(part, added) -> tf.Tensor:
    ends = [[0, 0], [0, 0], [0, added]] + [[0, 0]] * (part.shape.rank - 3)
    return tf.pad(part, ends)


def _read_columns(ancestry, steps, step, window) -> tf.Tensor:
    """Return the columns that any hypothesis reads, int32 `[working, columns]`.

    In ascending order; a sentence with fewer than another is filled with unread ones.
    """
    is_read = tf.reduce_any(ancestry, axis=1)
    if window is not None:
        is_read &= steps > step - window
    is_read = tf.cast(is_read, tf.int32)
    # The zero is for an empty batch, which has no maximum.
    most = tf.reduce_max(tf.concat([tf.reduce_sum(is_read, axis=1), [0]], axis=0))
    return tf.math.top_k(is_read, most).indices  # equal values: lower index first


def _gather_columns(cache, kept, columns) -> Any:
    """Gather sentences and columns of a cache in one copy.

    Args:
        cache: A nest of tensors `[batch, heads, columns, ...]`.
        kept: int `[working]`.
        columns: int32 `[working, taken]`.
    """
    indices = {}  # by number of heads: most caches share one

    def gathered(part):
        key = part.shape[1]
        if key is None or key not in indices:
            indices[key] = _flat_indices(part, kept, columns)
        return gather(part, indices[key])

    gather = trace_once(_gathered)
    return tf.nest.map_structure(gathered, cache)


def _gathered(part, indices) -> tf.Tensor:
    """Gather columns of a cache at `_flat_indices`."""
    flat = tf.reshape(part, tf.concat([[-1], tf.shape(part)[3:]], axis=0))
    shape = [None, part.shape[1], None, *part.shape[3:]]
    return tf.ensure_shape(tf.gather(flat, indices), shape)


def _flat_indices(part, kept, columns) -> tf.Tensor:
    """Return the indices of columns, counted over sentences, heads and columns."""
    _, heads, count = tf.unstack(tf.shape(part)[:3])
    first = (tf.cast(kept, tf.int32)[:, tf.newaxis] * heads + tf.range(heads)) * count
    return first[:, :, tf.newaxis] + columns[:, tf.newaxis]


def _with_new_columns(work, step, added) -> WorkingSet:
    """Record `added` unread columns of the cache for the steps from `step` on."""
    new_steps = step + tf.range(added) // work.ancestry.shape[1]
    new_steps = tf.broadcast_to(new_steps, [tf.shape(work.rows)[0], added])
    return work._replace(
        ancestry=tf.pad(work.ancestry, [[0, 0], [0, 0], [0, added]]),
        steps=tf.concat([work.steps, new_steps], axis=1),
    )
