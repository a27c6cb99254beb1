"""Which pairs form which batch, for every step of a run, known before its first step.

§5.1: pairs of about equal length are batched together, about 25,000 source and 25,000
target tokens a batch. Each batch has one of at most 11 shapes, so that XLA compiles at
most 11 times.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

import numpy as np

from keras_transformer import config

# Shapes that a run may compile.
MAX_RUNGS = 11

# The row index that stands for a row of pure padding.
FILLER = -1


@dataclasses.dataclass(frozen=True)
class PlannedBatch:
    """The pairs of one batch and the length that all its rows are padded to.

    Attributes:
        rows: int64 `[rows]`, indices into the corpus; -1 is a row of pure padding.
        length: Tokens of a row, padding included.
    """

    rows: np.ndarray
    length: int


class BatchPlan:
    """Batches as a pure function of (lengths, seed, epoch).

    Every epoch is shuffled over the whole corpus, then sorted into the rungs of a
    ladder of lengths and cut into batches. What a rung has left over moves up to the
    next rung, so each pair comes exactly once an epoch and only one batch holds filler
    rows. The number and the shapes of an epoch's batches are the same in every epoch.

    Args:
        lengths: int `[pairs]`, tokens of the longer side of each pair, EOS included.
        tokens_per_batch: Most tokens of one side in a batch, padding included.
        rows_multiple: The rows of each batch are a multiple of this (replicas times
            accumulated pieces).
        seed: Of the shuffle, at least 0.
        max_length: Longer pairs are left out; None keeps all.
        ladder: Row lengths to use, ascending; pairs longer than the last are left out.
            None chooses those that pad these lengths least.
        num_tokens: int `[pairs]`, tokens of source plus target of each pair, counted in
            `padding_rate`; None counts both sides as long as `lengths`.

    Raises:
        ValueError: If no pair is left, or `tokens_per_batch` holds fewer than
            `rows_multiple` rows of the longest pair.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        *,
        tokens_per_batch: int,
        rows_multiple: int = 1,
        seed: int = 0,
        max_length: int | None = None,
        ladder: Sequence[int] | None = None,
        num_tokens: np.ndarray | None = None,
    ):
        lengths = np.asarray(lengths)
        config.check_at_least("tokens_per_batch", tokens_per_batch, 1)
        config.check_at_least("rows_multiple", rows_multiple, 1)
        config.check_at_least("seed", seed, 0)
        self.tokens_per_batch = tokens_per_batch
        self.rows_multiple = rows_multiple
        self.seed = seed
        kept = fitting_pairs(lengths, max_length, ladder)
        self.num_left_out = len(lengths) - len(kept)
        lengths = lengths[kept]
        if ladder is None:
            ladder = choose_ladder(lengths, tokens_per_batch, rows_multiple)
        self.ladder = tuple(ladder)
        rows_of_rung = self._rows_of_rungs()
        self._kept = kept
        self._rungs = np.searchsorted(self.ladder, lengths).astype(np.uint8)
        self._starts, self._rung_of_batch = cut_into_batches(
            np.bincount(self._rungs, minlength=len(self.ladder)), rows_of_rung
        )
        self._rows_of_rung = rows_of_rung
        sides = 2 * lengths.astype(np.int64) if num_tokens is None else num_tokens[kept]
        self._num_real_tokens = int(np.sum(sides, dtype=np.int64))
        self._epochs: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._lock = threading.Lock()

    @property
    def num_pairs(self) -> int:
        """Pairs of an epoch."""
        return len(self._kept)

    @property
    def batches_per_epoch(self) -> int:
        """Batches of every epoch."""
        return len(self._starts)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(rows, length) of each kind of batch, shortest length first."""
        used = np.unique(self._rung_of_batch)
        return tuple((self._rows_of_rung[rung], self.ladder[rung]) for rung in used)

    @property
    def num_filler_rows(self) -> int:
        """Rows of pure padding in an epoch, all in one batch."""
        return int(self._rows_of_batches().sum()) - self.num_pairs

    @property
    def padding_rate(self) -> float:
        """Share of padding, filler rows included, in the matrices of both sides."""
        lengths = np.array(self.ladder)[self._rung_of_batch]
        positions = 2 * int(np.sum(self._rows_of_batches() * lengths))
        return 1 - self._num_real_tokens / positions

    def batch(self, step: int) -> PlannedBatch:
        """Return the batch of a step, counted from 0 over all epochs."""
        epoch, index = divmod(int(step), self.batches_per_epoch)
        order, batch_order = self._epoch(epoch)
        chosen = batch_order[index]
        rung = self._rung_of_batch[chosen]
        start, num_rows = self._starts[chosen], self._rows_of_rung[rung]
        rows = np.full(num_rows, FILLER, np.int64)
        members = self._kept[order[start : start + num_rows]]
        rows[: len(members)] = members
        return PlannedBatch(rows=rows, length=self.ladder[rung])

    def _rows_of_rungs(self) -> tuple[int, ...]:
        longest = self.ladder[-1]
        if self.rows_multiple * longest > self.tokens_per_batch:
            raise ValueError(
                "`tokens_per_batch` must hold `rows_multiple` rows of the longest "
                f"pair. Received: tokens_per_batch={self.tokens_per_batch}, "
                f"rows_multiple={self.rows_multiple}, longest row {longest} tokens. "
                f"Set tokens_per_batch to at least {self.rows_multiple * longest}, or "
                "lower max_length."
            )
        return rows_of_rungs(self.ladder, self.tokens_per_batch, self.rows_multiple)

    def _rows_of_batches(self) -> np.ndarray:
        return np.array(self._rows_of_rung)[self._rung_of_batch]

    def _epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the epoch's order of pairs and order of batches."""
        with self._lock:
            if epoch not in self._epochs:
                # Two stay: parallel readers cross the border between epochs together.
                while len(self._epochs) > 1:
                    farthest = max(self._epochs, key=lambda other: abs(other - epoch))
                    del self._epochs[farthest]
                self._epochs[epoch] = self._shuffle(epoch)
            return self._epochs[epoch]

    def _shuffle(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.Generator(np.random.Philox([self.seed, epoch]))
        shuffled = random.permutation(len(self._kept))
        # A stable sort by rung keeps the shuffled order inside each rung.
        order = shuffled[np.argsort(self._rungs[shuffled], kind="stable")]
        return order, random.permutation(self.batches_per_epoch)


def fitting_pairs(
    lengths: np.ndarray, max_length: int | None, ladder: Sequence[int] | None
) -> np.ndarray:
    """Return the indices of the pairs short enough for `max_length` and `ladder`.

    Raises:
        ValueError: If there are none, or `ladder` does not ascend.
    """
    if lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        raise ValueError(
            "`lengths` must be integers of shape [pairs]. "
            f"Received: dtype={lengths.dtype}, shape={lengths.shape}."
        )
    limits = [] if max_length is None else [max_length]
    if ladder is not None:
        if not 1 <= len(ladder) <= 255 or any(np.diff([0, *ladder]) < 1):
            raise ValueError(
                "`ladder` must hold 1 to 255 lengths that ascend from 1 or more. "
                f"Received: ladder={tuple(ladder)}."
            )
        limits.append(ladder[-1])
    kept = np.arange(len(lengths))
    if limits:
        kept = np.flatnonzero(lengths <= min(limits))
    if not len(kept):
        raise ValueError(
            f"No pair to batch: of {len(lengths)} pairs none has at most "
            f"{min(limits, default='any number of')} tokens a side. Raise max_length."
        )
    return kept


def choose_ladder(
    lengths: np.ndarray, tokens_per_batch: int, rows_multiple: int = 1
) -> tuple[int, ...]:
    """Return the row lengths, at most 11, whose batches have the fewest positions.

    Many rungs pad single rows less; few rungs leave less over that must move up. So the
    best ladder of each size is cut into batches, and the best of those is taken.

    Args:
        lengths: int `[pairs]`, not empty.
        tokens_per_batch: Most tokens of one side in a batch.
        rows_multiple: The rows of each batch are a multiple of this.
    """

    def num_positions(ladder):
        rows = rows_of_rungs(ladder, tokens_per_batch, rows_multiple)
        pairs = np.bincount(np.searchsorted(ladder, values), counts, len(ladder))
        _, rungs = cut_into_batches(pairs.astype(np.int64), rows)
        return int(np.sum(np.multiply(rows, ladder)[rungs]))

    values, counts = np.unique(lengths, return_counts=True)
    return min(ladders(values, counts), key=num_positions)


def ladders(
    values: np.ndarray, counts: np.ndarray, max_rungs: int = MAX_RUNGS
) -> list[tuple[int, ...]]:
    """Return the ladder of each size that pads least when each row takes the next rung.

    Dynamic programming over the histogram: the cheapest way to cover all lengths up to
    the j-th with k rungs ends in one rung at the j-th, after the cheapest way to cover
    those up to some i-th with k - 1 rungs.

    Args:
        values: int `[lengths]`, the different lengths, ascending, not empty.
        counts: int `[lengths]`, pairs of each.
        max_rungs: Rungs of the longest ladder.

    Returns:
        The best ladders of 1, 2, ... rungs, each ascending to the last of `values`; no
        more than there are values.
    """
    covered = np.concatenate([[0], np.cumsum(counts)])
    # cost[i, j]: positions of one rung at values[j - 1] that holds all lengths after
    # the i-th; infinite where there is none.
    cost = (covered[None, :] - covered[:, None]) * np.concatenate([[0], values])[
        None, :
    ]
    cost = np.where(np.tri(len(covered), dtype=bool), np.inf, cost)
    best, choices, found = cost[0], [], []
    for _ in range(min(max_rungs, len(values))):
        found.append(_follow(choices, values))
        totals = best[:, None] + cost
        choices.append(np.argmin(totals, axis=0))
        best = np.min(totals, axis=0)
    return found


def _follow(choices: Sequence[np.ndarray], values: np.ndarray) -> tuple[int, ...]:
    """Walk back from the last length through the rung chosen before each."""
    end, ladder = len(values), [int(values[-1])]
    for choice in reversed(choices):
        end = choice[end]
        ladder.append(int(values[end - 1]))
    return tuple(reversed(ladder))


def rows_of_rungs(
    ladder: Sequence[int], tokens_per_batch: int, rows_multiple: int
) -> tuple[int, ...]:
    """Return the rows of each rung's batches: as many as fit, at least one multiple."""
    multiples = (tokens_per_batch // length // rows_multiple for length in ladder)
    return tuple(max(1, multiple) * rows_multiple for multiple in multiples)


def cut_into_batches(
    pairs_of_rung: np.ndarray, rows_of_rung: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Cut pairs that are sorted by rung into batches; leftovers move to the next rung.

    Args:
        pairs_of_rung: int `[rungs]`, pairs of each rung.
        rows_of_rung: Rows of a batch of each rung.

    Returns:
        First pair and rung of each batch, int64 `[batches]` each.
    """
    starts, rungs, position = [], [], 0
    for rung, (end, rows) in enumerate(
        zip(np.cumsum(pairs_of_rung), rows_of_rung, strict=True)
    ):
        num_batches = (end - position) // rows
        if rung == len(rows_of_rung) - 1:
            num_batches = -(-(end - position) // rows)
        starts.append(position + rows * np.arange(num_batches))
        rungs.append(np.full(num_batches, rung))
        position += rows * num_batches
    return np.concatenate(starts), np.concatenate(rungs)


def sorted_batches(
    lengths: np.ndarray,
    *,
    tokens_per_batch: int,
    rows_multiple: int = 1,
    ladder: Sequence[int] | None = None,
) -> list[PlannedBatch]:
    """Plan one pass over all pairs, shortest first, each pair exactly once.

    The shapes are those of a ladder, as in `BatchPlan`; the last batch has only the
    rows it needs, rounded up to `rows_multiple`. Where not even `rows_multiple` rows
    fit into `tokens_per_batch`, the batch is larger: no pair is left out.

    Args:
        lengths: int `[pairs]`, tokens of the longer side, EOS included.
        tokens_per_batch: Tokens of one side in a batch, padding included.
        rows_multiple: The rows of each batch are a multiple of this.
        ladder: Row lengths to use where they reach; None chooses them.
    """
    lengths = np.asarray(lengths)
    if not len(lengths):
        return []
    longest = int(lengths.max())
    if ladder is None:
        ladder = choose_ladder(lengths, tokens_per_batch, rows_multiple)
    rungs = sorted({length for length in ladder if length <= longest} | {longest})
    rows_of_rung = rows_of_rungs(rungs, tokens_per_batch, rows_multiple)
    order = np.argsort(lengths, kind="stable")
    rung_of_pair = np.searchsorted(rungs, lengths)
    starts, rung_of_batch = cut_into_batches(
        np.bincount(rung_of_pair, minlength=len(rungs)), rows_of_rung
    )
    batches = []
    for start, rung in zip(starts, rung_of_batch, strict=True):
        members = order[start : start + rows_of_rung[rung]]
        rows = np.full(_round_up(len(members), rows_multiple), FILLER, np.int64)
        rows[: len(members)] = members
        batches.append(PlannedBatch(rows=rows, length=rungs[rung]))
    return batches


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
