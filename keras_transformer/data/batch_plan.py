"""The batch plan: the pairs of every batch of a run, decided before the first step.

§5.1: pairs of about equal length are batched together, about 25,000 source and 25,000
target tokens a batch. Each batch has one of at most 11 shapes, so that XLA compiles at
most 11 times. The source rows of a batch have one length, its target rows another.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer import config
from keras_transformer.data.buckets import (
    Buckets,
    buckets_of_pairs,
    choose_buckets,
    cut_into_batches,
)
from keras_transformer.data.metadata import CorpusMetadata
from keras_transformer.data.mixture import Mixture

# Index where a batch has no pair: a row of these alone is pure padding.
FILLER = -1


@dataclasses.dataclass(frozen=True)
class PlannedBatch:
    """The pairs of one batch and the lengths that all its rows are padded to.

    Attributes:
        rows: int64 `[rows]`, indices into the corpus, or `[rows, pairs]` if a row holds
            several pairs; -1: no pair.
        source_length: Tokens of a source row, padding included.
        target_length: Tokens of a target row, padding included.

    Examples:
        >>> batch = kt.data.PlannedBatch(
        ...     np.array([4, 2, -1]), source_length=7, target_length=9
        ... )
        >>> int((batch.rows >= 0).sum())  # pairs; the third row is padding
        2
    """

    rows: np.ndarray
    source_length: int
    target_length: int


class Plan(abc.ABC):
    """Batches as a pure function of (lengths, seed, epoch): what every plan provides.

    Args:
        source_lengths: int `[pairs]`, tokens of each source, EOS included.
        target_lengths: int `[pairs]`, tokens of each target, EOS included.
        tokens_per_batch: Most tokens of one side in a batch, padding included.
        rows_multiple: The rows of each batch are a multiple of this, such as replicas
            times microbatches.
        seed: Seed of the shuffle, at least 0.
        max_length: Pairs with a longer side are left out; None keeps all.
        corpora: The corpora of a mixture, in the order of their pairs: each gets its
            share of an epoch, see `Mixture`. With fewer than two, an epoch has each
            pair exactly once.

    Raises:
        ValueError: If no pair of a corpus is left, or `tokens_per_batch` holds fewer
            than `rows_multiple` rows of the longest pair.
    """

    # Limits of the pairs, if they are known before the plan is made.
    buckets: Buckets | None = None

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        tokens_per_batch: int,
        rows_multiple: int = 1,
        seed: int = 0,
        max_length: int | None = None,
        corpora: Sequence[CorpusMetadata] = (),
    ):
        config.check_at_least("tokens_per_batch", tokens_per_batch, 1)
        config.check_at_least("rows_multiple", rows_multiple, 1)
        config.check_at_least("seed", seed, 0)
        self.tokens_per_batch = tokens_per_batch
        self.rows_multiple = rows_multiple
        self.seed = seed
        sides = np.asarray(source_lengths), np.asarray(target_lengths)
        self._kept = fitting_pairs(*sides, max_length, self.buckets)
        # Pairs of the corpus that no epoch contains.
        self.num_left_out = len(sides[0]) - len(self._kept)
        sides = [side[self._kept] for side in sides]
        self.corpora = tuple(corpora)
        self._mixture = None
        if len(corpora) > 1:
            self._mixture = Mixture(corpora, self._kept, seed)
        # Two epochs: parallel readers cross from one to the next.
        self._shuffled = functools.lru_cache(maxsize=2)(self._shuffle)
        self._lock = threading.Lock()
        self._plan(*sides)
        pairs = self._pairs_of_epoch(0)
        # Of a mixture, epochs may have slightly more or fewer.
        self._num_real_tokens = sum(
            int(side[pairs].sum(dtype=np.int64)) for side in sides
        )

    @property
    def num_pairs(self) -> int:
        """Pairs of an epoch."""
        return len(self._kept)

    @property
    def padding_rate(self) -> float:
        """Share of padding, filler rows included, in the matrices of both sides."""
        return self.padding_rate_of(1)

    @abc.abstractmethod
    def padding_rate_of(self, rows_multiple: int) -> float:
        """Return the share of padding when devices share each batch.

        Args:
            rows_multiple: Filler rows fill each batch up to a multiple of this.
        """

    @abc.abstractmethod
    def batch(self, step: int) -> PlannedBatch:
        """Return the batch of a step, counted from 0 over all epochs."""

    @abc.abstractmethod
    def _plan(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> None:
        """Decide which of the pairs kept, given by their lengths, share a batch."""

    @abc.abstractmethod
    def _shuffle(self, epoch: int) -> Any:
        """Return the shuffled epoch that `batch` takes slices of."""

    def _pairs_of_epoch(self, epoch: int) -> np.ndarray:
        """Return the pairs of an epoch, in any order, as positions in `_kept`."""
        if self._mixture is None:
            return np.arange(self.num_pairs)
        return self._mixture.draw(epoch)

    def _typical_lengths(self, *sides: np.ndarray) -> list[np.ndarray]:
        """Return the lengths of an epoch's pairs, as many as there are on both sides.

        A pair as long as the longest is among them.
        """
        if self._mixture is None:
            return list(sides)
        pairs = self._pairs_of_epoch(0)
        return [np.append(side[pairs], side.max()) for side in sides]

    def _epoch(self, epoch: int) -> Any:
        """Return the result of `_shuffle`, which runs once for all threads."""
        with self._lock:
            return self._shuffled(epoch)


class BatchPlan(Plan):
    """Batches of pairs of about equal length.

    Every epoch is shuffled over the whole corpus, sorted into buckets of lengths and
    split into batches. The pairs that a bucket has left over move to the next bucket,
    so an epoch has all its pairs and only one batch has filler rows. The number and the
    shapes of the batches are the same in every epoch: a mixture draws the same number
    of pairs from each bucket of a corpus.

    Args:
        source_lengths: Same as in `Plan`.
        target_lengths: Same as in `Plan`.
        buckets: (source_length, target_length) of each bucket, in ascending order. A
            pair takes the first bucket that holds both its sides, and is left out if
            none does. None chooses buckets with little padding for these lengths.
        **settings: The other arguments of `Plan`.

    Examples:
        >>> plan = kt.data.BatchPlan([3, 5, 3, 4], [4, 6, 4, 5], tokens_per_batch=12)
        >>> plan.num_pairs
        4
        >>> batch = plan.batch(0)
        >>> batch.source_length * len(batch.rows) <= 12
        True
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        buckets: Buckets | None = None,
        **settings: Any,
    ):
        self.buckets = buckets
        super().__init__(source_lengths, target_lengths, **settings)

    def _plan(self, source_lengths, target_lengths):
        sides = source_lengths, target_lengths
        buckets = self.buckets
        if buckets is None:
            buckets = choose_buckets(
                *self._typical_lengths(*sides),
                self.tokens_per_batch,
                self.rows_multiple,
            )
        self.buckets = tuple((int(source), int(target)) for source, target in buckets)
        check_rows_fit(max(self.buckets[-1]), self.tokens_per_batch, self.rows_multiple)
        self._bucket_of_pair = buckets_of_pairs(self.buckets, *sides)
        if self._mixture:
            self._bucket_of_pair = self._mixture.divide(self._bucket_of_pair)
        self._starts, self._bucket_of_batch, self._rows_of_bucket = cut_into_batches(
            self.buckets,
            self._bucket_of_pair[self._pairs_of_epoch(0)],
            self.tokens_per_batch,
            self.rows_multiple,
        )

    @property
    def batches_per_epoch(self) -> int:
        """Batches of every epoch."""
        return len(self._starts)

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        """(rows, source_length, target_length) of each kind of batch.

        Both lengths ascend.
        """
        used = np.unique(self._bucket_of_batch)
        return tuple((int(self._rows_of_bucket[n]), *self.buckets[n]) for n in used)

    @property
    def num_filler_rows(self) -> int:
        """Rows of pure padding in an epoch, all in one batch."""
        return int(self._rows_of_batches().sum()) - self.num_pairs

    def padding_rate_of(self, rows_multiple: int) -> float:
        lengths = np.sum(self.buckets, axis=1)[self._bucket_of_batch]
        rows = -(-self._rows_of_batches() // rows_multiple) * rows_multiple
        return 1 - self._num_real_tokens / int(np.sum(rows * lengths))

    def batch(self, step: int) -> PlannedBatch:
        epoch, index = divmod(int(step), self.batches_per_epoch)
        order, batch_order = self._epoch(epoch)
        chosen = batch_order[index]
        bucket = self._bucket_of_batch[chosen]
        start, num_rows = self._starts[chosen], self._rows_of_bucket[bucket]
        members = self._kept[order[start : start + num_rows]]
        return PlannedBatch(_filled(members, num_rows), *self.buckets[bucket])

    def _rows_of_batches(self) -> np.ndarray:
        return self._rows_of_bucket[self._bucket_of_batch]

    def _shuffle(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the epoch's order of pairs and order of batches."""
        random = np.random.Generator(np.random.Philox([self.seed, epoch]))
        shuffled = random.permutation(self._pairs_of_epoch(epoch))
        # A stable sort keeps the shuffled order inside each bucket.
        order = shuffled[np.argsort(self._bucket_of_pair[shuffled], kind="stable")]
        return order, random.permutation(self.batches_per_epoch)


def check_rows_fit(longest: int, tokens_per_batch: int, rows_multiple: int) -> None:
    """Raise ValueError unless a batch holds `rows_multiple` rows of the longest pair.

    The message says which size would.
    """
    if rows_multiple * longest > tokens_per_batch:
        raise ValueError(
            "`tokens_per_batch` must hold `rows_multiple` rows of the longest "
            f"pair. Received: tokens_per_batch={tokens_per_batch}, "
            f"rows_multiple={rows_multiple}, longest row {longest} tokens. "
            f"Set tokens_per_batch to at least {rows_multiple * longest}, or "
            "lower max_length."
        )


def fitting_pairs(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    max_length: int | None,
    buckets: Buckets | None,
) -> np.ndarray:
    """Return the indices of the pairs short enough for `max_length` and `buckets`.

    Raises:
        ValueError: If there are none, or `buckets` descend.
    """
    sides = {"source_lengths": source_lengths, "target_lengths": target_lengths}
    for name, lengths in sides.items():
        if lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
            raise ValueError(
                f"`{name}` must be integers of shape [pairs]. "
                f"Received: dtype={lengths.dtype}, shape={lengths.shape}."
            )
        if len(lengths) and lengths.min() < 1:
            raise ValueError(
                f"`{name}` must be at least 1: each side has an EOS. "
                f"Received: {lengths.min()}."
            )
    if len(source_lengths) != len(target_lengths):
        raise ValueError(
            "`source_lengths` and `target_lengths` must have the same shape. "
            f"Received: {len(source_lengths)} and {len(target_lengths)} lengths."
        )
    if not len(source_lengths):
        raise ValueError("No pair to batch: `source_lengths` is empty.")
    limits = [] if max_length is None else [(max_length, max_length)]
    if buckets is not None:
        _check_buckets(buckets)
        limits.append(buckets[-1])
    kept = np.arange(len(source_lengths))
    if limits:
        source_limit, target_limit = np.min(limits, axis=0)
        kept = np.flatnonzero(
            (source_lengths <= source_limit) & (target_lengths <= target_limit)
        )
        if not len(kept):
            raise ValueError(
                f"No pair to batch: of {len(source_lengths)} pairs none has at most "
                f"{source_limit} source and {target_limit} target tokens. Raise "
                "max_length, or the lengths of the last bucket."
            )
    return kept


def _check_buckets(buckets: Buckets) -> None:
    table = np.array(buckets)
    is_table = table.ndim == 2 and table.shape[1] == 2 and len(table) <= 255
    if not is_table or table[0].min() < 1 or np.any(np.diff(table, axis=0) < 0):
        raise ValueError(
            "`buckets` must be 1 to 255 pairs (source_length, target_length) of at "
            "least 1, neither of which descends. "
            f"Received: buckets={tuple(buckets)}."
        )


def sorted_batches(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    tokens_per_batch: int,
    rows_multiple: int = 1,
) -> list[PlannedBatch]:
    """Plan one pass over all pairs, shortest bucket first, each pair exactly once.

    Pairs of a bucket are sorted by their longer side. The shapes come from buckets, as
    in `BatchPlan`. No pair is left out: a batch is larger than `tokens_per_batch` where
    not even `rows_multiple` rows fit into it.

    Args:
        source_lengths: Same as in `Plan`.
        target_lengths: Same as in `Plan`.
        tokens_per_batch: Tokens of one side in a batch, padding included.
        rows_multiple: Same as in `Plan`.
    """
    sides = np.asarray(source_lengths), np.asarray(target_lengths)
    if not len(sides[0]):
        return []
    buckets = choose_buckets(*sides, tokens_per_batch, rows_multiple)
    bucket_of_pair = buckets_of_pairs(buckets, *sides)
    starts, bucket_of_batch, rows_of_bucket = cut_into_batches(
        buckets, bucket_of_pair, tokens_per_batch, rows_multiple
    )
    order = np.lexsort((np.maximum(*sides), bucket_of_pair))
    batches = []
    for start, bucket in zip(starts, bucket_of_batch, strict=True):
        num_rows = rows_of_bucket[bucket]
        rows = _filled(order[start : start + num_rows], num_rows)
        batches.append(PlannedBatch(rows, *buckets[bucket]))
    return batches


def _filled(pairs: np.ndarray, num_rows: int) -> np.ndarray:
    """Return one pair a row, int64 `[num_rows]`, filled up with `FILLER`."""
    return np.pad(pairs, (0, num_rows - len(pairs)), constant_values=FILLER)
