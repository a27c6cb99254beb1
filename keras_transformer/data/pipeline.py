"""tf.data pipelines that fetch planned batches from an encoded corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_transformer import config
from keras_transformer.data import batch_plan
from keras_transformer.data.corpus import EncodedCorpus

# Batches made ahead of the step that takes them.
_PREFETCHED_BATCHES = 8


def training_dataset(
    corpus: EncodedCorpus,
    plan: batch_plan.BatchPlan,
    first_step: int = 0,
    *,
    worker: int = 0,
    num_workers: int = 1,
) -> tf.data.Dataset:
    """Return the batches of `plan` from `first_step` on, without end.

    Step n is the same batch whatever step the dataset began with, so a resumed run
    continues with no replay. A strategy may split the rows among its replicas: they are
    a multiple of the plan's `rows_multiple`.

    Args:
        corpus: Whose `lengths` the plan was made from.
        plan: Which pairs form which batch.
        first_step: The step, counted from 0 over all epochs, of the first batch.
        worker: This process's number where several share each batch.
        num_workers: Processes that share each batch: each takes every
            `num_workers`-th row, and `rows_multiple` is a multiple of `num_workers`.

    Returns:
        Endless (source_tokens, target_tokens), int32 `[rows, length]` each, EOS at the
        end of every sentence, then padding.

    Raises:
        ValueError: If `first_step` is below 0, or the workers do not divide the rows.
    """
    config.check_at_least("first_step", first_step, 0)
    config.check_at_least("num_workers", num_workers, 1)
    if plan.rows_multiple % num_workers or not 0 <= worker < num_workers:
        raise ValueError(
            "`num_workers` must divide the plan's `rows_multiple`, and `worker` be in "
            f"[0, num_workers). Received: num_workers={num_workers}, worker={worker}, "
            f"rows_multiple={plan.rows_multiple}."
        )

    def fetch(step):
        planned = plan.batch(step)
        return corpus.rows(planned.rows[worker::num_workers], planned.length)

    return _dataset(fetch, first_step, np.iinfo(np.int64).max)


def evaluation_dataset(
    corpus: EncodedCorpus,
    *,
    tokens_per_batch: int,
    rows_multiple: int = 1,
    ladder: Sequence[int] | None = None,
) -> tf.data.Dataset:
    """Return every pair of a corpus exactly once, shortest first.

    Args:
        corpus: A validation or test split.
        tokens_per_batch: Tokens of one side in a batch, padding included.
        rows_multiple: The rows of each batch are a multiple of this; rows of pure
            padding fill the last one.
        ladder: Row lengths to use, such as the training plan's; None chooses them.

    Returns:
        Finite (source_tokens, target_tokens) as of `training_dataset`.
    """
    config.check_at_least("tokens_per_batch", tokens_per_batch, 1)
    config.check_at_least("rows_multiple", rows_multiple, 1)
    batches = batch_plan.sorted_batches(
        corpus.lengths,
        tokens_per_batch=tokens_per_batch,
        rows_multiple=rows_multiple,
        ladder=ladder,
    )

    def fetch(step):
        return corpus.rows(batches[step].rows, batches[step].length)

    return _dataset(fetch, 0, len(batches))


def _dataset(fetch, first, end) -> tf.data.Dataset:
    def read(step):
        tokens = tf.numpy_function(fetch, [step], [tf.int32, tf.int32], stateful=False)
        return tuple(tf.ensure_shape(side, [None, None]) for side in tokens)

    dataset = tf.data.Dataset.range(first, end).map(
        read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    options = tf.data.Options()
    # A strategy splits the rows of a batch; files to share out there are none.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return dataset.prefetch(_PREFETCHED_BATCHES).with_options(options)
