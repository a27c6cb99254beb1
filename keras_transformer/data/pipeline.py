"""tf.data pipelines that fetch planned batches from an encoded corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_transformer import config
from keras_transformer.data import batch_plan, packing
from keras_transformer.data.corpus import EncodedCorpus

# Batches read ahead of the step that takes them.
_PREFETCHED_BATCHES = 8
# Threads that read batches; one is already much faster than training.
_PARALLEL_READS = 2


def training_dataset(
    corpus: EncodedCorpus,
    plan: batch_plan.BatchPlan | packing.PackedBatchPlan,
    first_step: int = 0,
    *,
    rows_multiple: int = 1,
    replicas: Sequence[int] | None = None,
    num_replicas: int = 1,
) -> tf.data.Dataset:
    """Return the batches of `plan` from `first_step` on, without end.

    Step n has the same batch whatever the first step is and whichever devices share it,
    so a resumed run continues without a replay, also on other devices.

    Args:
        corpus: The corpus whose lengths the plan was made from.
        plan: Which pairs form which batch.
        first_step: Step of the first batch, counted from 0 over all epochs.
        rows_multiple: Rows of padding, which count for nothing, fill each batch up to a
            multiple of this: replicas times microbatches.
        replicas: Ranks of this process's replicas, if several processes share each
            batch. The dataset then yields one part per replica, in this order, step
            after step. None: whole batches, which a strategy splits in the same way.
        num_replicas: Replicas of all processes; must divide `rows_multiple`.

    Returns:
        Endless (source_tokens, target_tokens), int32 `[rows, source_length]` and
        `[rows, target_length]`, EOS at the end of every sentence, then padding. A row
        of a packed plan has several sentences, the same number on both sides. If the
        corpus is open with alignments, a third part, bool
        `[rows, target_length, source_length]`; see `EncodedCorpus.rows`.

    Raises:
        ValueError: If `first_step` is below 0, or the replicas cannot share the rows.

    Examples:
        >>> corpus = kt.data.EncodedCorpus.open("data/my", "train")
        >>> plan = corpus.batch_plan(tokens_per_batch=200)
        >>> dataset = kt.data.training_dataset(corpus, plan)
        >>> source_tokens, target_tokens = next(iter(dataset))
        >>> len(source_tokens) == len(target_tokens)
        True
    """
    config.check_at_least("first_step", first_step, 0)
    fetch, parts = _fetching(corpus, plan.batch, rows_multiple, replicas, num_replicas)
    first = parts * first_step
    return _dataset(fetch, first, np.iinfo(np.int64).max, corpus.is_aligned)


def evaluation_dataset(
    corpus: EncodedCorpus,
    *,
    tokens_per_batch: int,
    rows_multiple: int = 1,
    replicas: Sequence[int] | None = None,
    num_replicas: int = 1,
) -> tf.data.Dataset:
    """Return every pair of a corpus exactly once, roughly by ascending length.

    Args:
        corpus: A validation or test split.
        tokens_per_batch: Tokens of one side in a batch, padding included.
        rows_multiple: As in `training_dataset`.
        replicas: As in `training_dataset`.
        num_replicas: As in `training_dataset`.

    Returns:
        Finite (source_tokens, target_tokens), as in `training_dataset`.

    Examples:
        >>> corpus = kt.data.EncodedCorpus.open("data/my", "valid")
        >>> dataset = kt.data.evaluation_dataset(corpus, tokens_per_batch=200)
        >>> source_tokens, target_tokens = next(iter(dataset))
        >>> len(source_tokens) == len(target_tokens)
        True
    """
    config.check_at_least("tokens_per_batch", tokens_per_batch, 1)
    batches = batch_plan.sorted_batches(
        corpus.source_lengths,
        corpus.target_lengths,
        tokens_per_batch=tokens_per_batch,
        rows_multiple=rows_multiple,
    )
    fetch, parts = _fetching(
        corpus, batches.__getitem__, rows_multiple, replicas, num_replicas
    )
    return _dataset(fetch, 0, parts * len(batches))


def padding_dataset(
    rows: int,
    source_length: int,
    target_length: int,
    pad_id: int,
    count: int = 1,
    is_aligned: bool = False,
) -> tf.data.Dataset:
    """Return batches of padding, of the same type as in `training_dataset`.

    Args:
        rows: Rows of a batch.
        source_length: Tokens of a source row.
        target_length: Tokens of a target row.
        pad_id: Id of padding.
        count: Number of batches.
        is_aligned: Whether batches have alignments.

    Examples:
        >>> dataset = kt.data.padding_dataset(
        ...     2, source_length=5, target_length=7, pad_id=0
        ... )
        >>> [tokens.shape.as_list() for tokens in next(iter(dataset))]
        [[2, 5], [2, 7]]
    """
    batch = [
        np.full((rows, length), pad_id, np.int32)
        for length in (source_length, target_length)
    ]
    if is_aligned:
        batch.append(np.zeros((rows, target_length, source_length), bool))
    return _dataset(lambda number: batch, 0, count, is_aligned)


def _fetching(corpus, batch_of, rows_multiple, replicas, num_replicas):
    """Return a function that reads element n, and the number of elements per step."""
    config.check_at_least("rows_multiple", rows_multiple, 1)
    config.check_at_least("num_replicas", num_replicas, 1)
    shared = range(1) if replicas is None else replicas
    if rows_multiple % num_replicas or not all(0 <= r < num_replicas for r in shared):
        raise ValueError(
            "`num_replicas` must divide `rows_multiple`, and `replicas` be in "
            f"[0, num_replicas). Received: num_replicas={num_replicas}, "
            f"replicas={replicas}, rows_multiple={rows_multiple}."
        )
    parts = len(shared)

    def fetch(number):
        step, part = divmod(int(number), parts)
        planned = batch_of(step)
        missing = -len(planned.rows) % rows_multiple
        widths = [(0, missing)] + [(0, 0)] * (planned.rows.ndim - 1)
        rows = np.pad(planned.rows, widths, constant_values=batch_plan.FILLER)
        if replicas is not None:
            rows = np.split(rows, num_replicas)[replicas[part]]
        return corpus.rows(rows, planned.source_length, planned.target_length)

    return fetch, parts


def _dataset(fetch, first, end, is_aligned=False) -> tf.data.Dataset:
    parts = [(tf.int32, 2), (tf.int32, 2), (tf.bool, 3)][: 3 if is_aligned else 2]

    def read(step):
        types = [dtype for dtype, _ in parts]
        batch = tf.numpy_function(fetch, [step], types, stateful=False)
        return tuple(
            tf.ensure_shape(part, [None] * rank)
            for part, (_, rank) in zip(batch, parts, strict=True)
        )

    dataset = tf.data.Dataset.range(first, end).map(
        read, num_parallel_calls=_PARALLEL_READS, deterministic=True
    )
    options = tf.data.Options()
    # With autotune, the end of a pipeline in a strategy takes as long as the pipeline
    # has run, because TensorFlow 2.21 waits for the autotune thread.
    options.autotune.enabled = False
    # A strategy splits the rows of a batch; there are no files to distribute.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return dataset.prefetch(_PREFETCHED_BATCHES).with_options(options)
