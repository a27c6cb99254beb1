"""The buckets of a batch plan: the few lengths that rows are padded to.

Each bucket has a length for source rows and one for target rows. Neither is shorter
than in the bucket before, so a pair that fits into a bucket fits into all later ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Shapes that a run may compile.
MAX_BUCKETS = 11

# Most different lengths of one side to choose from. It bounds the table of pairs by
# both lengths where a corpus has very long rows.
MAX_CHOICES = 1024

# Choices by which both lengths of a bucket may change at once.
_NEAR = 4

# (source_length, target_length) of each bucket.
Buckets = Sequence[tuple[int, int]]


def choose_buckets(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    tokens_per_batch: int,
    rows_multiple: int = 1,
) -> tuple[tuple[int, int], ...]:
    """Return the lengths of at most 11 buckets whose batches have few positions.

    With many buckets a row has less padding; with few, fewer leftover pairs move to a
    longer bucket. The search starts from the best buckets of each number in which both
    sides have the same length, changes one bucket at a time while that helps, and
    returns the best result, which is never worse than a start.

    Args:
        source_lengths: int `[pairs]`, each at least 1, not empty.
        target_lengths: int `[pairs]`, likewise.
        tokens_per_batch: Most tokens of one side in a batch.
        rows_multiple: The rows of each batch are a multiple of this.
    """
    search = _Search(source_lengths, target_lengths, tokens_per_batch, rows_multiple)
    values, indices = _choices(np.maximum(source_lengths, target_lengths))
    starts = one_length_buckets(values, np.bincount(indices))
    found = [
        search.descend(search.nearest(lengths), step)
        for lengths in starts
        for step in (1, -1)
    ]
    _, buckets = min(found, key=lambda result: result[0])
    return search.lengths(buckets)


class _Search:
    """Local search over the lengths of buckets, each an index into the choices.

    The arguments are those of `choose_buckets`.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        tokens_per_batch: int,
        rows_multiple: int,
    ):
        self._tokens_per_batch = tokens_per_batch
        self._rows_multiple = rows_multiple
        self._sources, sources = _choices(source_lengths)
        self._targets, targets = _choices(target_lengths)
        shape = len(self._sources), len(self._targets)
        table = np.bincount(sources * shape[1] + targets, minlength=shape[0] * shape[1])
        # int64 [sources, targets]: pairs that fit into these two lengths.
        self._num_held = table.reshape(shape).cumsum(axis=0).cumsum(axis=1)

    def nearest(self, lengths: Sequence[int]) -> np.ndarray:
        """Return the buckets nearest to rows of these lengths, int `[buckets, 2]`."""
        buckets = np.stack(
            [
                np.searchsorted(values, lengths, side="right") - 1
                for values in (self._sources, self._targets)
            ],
            axis=1,
        )
        return np.maximum(buckets, 0)

    def lengths(self, buckets: np.ndarray) -> tuple[tuple[int, int], ...]:
        """Return (source_length, target_length) of each of int `[buckets, 2]`."""
        sources, targets = self._sources[buckets[:, 0]], self._targets[buckets[:, 1]]
        return tuple(zip(sources.tolist(), targets.tolist(), strict=True))

    def descend(self, buckets: np.ndarray, step: int) -> tuple[int, np.ndarray]:
        """Return the fewest positions found, and their buckets, int `[buckets, 2]`.

        The last bucket stays the same: it holds the longest of both sides.

        Args:
            buckets: Where to begin.
            step: 1 or -1: whether each round starts at the shortest or longest bucket.
        """
        fewest, has_improved = int(self.num_positions(buckets)), True
        while has_improved:
            has_improved = False
            for bucket in range(len(buckets) - 1)[::step]:
                tried = _with_other_lengths(buckets, bucket)
                positions = self.num_positions(tried)
                if positions.min() < fewest:
                    fewest, has_improved = int(positions.min()), True
                    buckets = tried[..., np.argmin(positions)]
        return fewest, buckets

    def num_positions(self, buckets: np.ndarray) -> np.ndarray:
        """Count both sides' positions in the batches that `cut_into_batches` makes.

        Args:
            buckets: int `[buckets, 2, ...]`, any number of alternatives.

        Returns:
            int64 `[...]`.
        """
        sources, targets = self._sources[buckets[:, 0]], self._targets[buckets[:, 1]]
        rows = rows_of_buckets(
            np.maximum(sources, targets), self._tokens_per_batch, self._rows_multiple
        )
        num_held = self._num_held[buckets[:, 0], buckets[:, 1]]
        filled = np.zeros_like(num_held)
        position = np.zeros_like(num_held[0])
        for bucket in range(len(buckets) - 1):
            left = num_held[bucket] - position
            filled[bucket] = left - left % rows[bucket]
            position += filled[bucket]
        left = num_held[-1] - position
        fewest = fewest_rows(left, rows[-1], self._rows_multiple)
        filled[-1] = left + -left % fewest
        return np.sum(filled * (sources + targets), axis=0)


def _with_other_lengths(buckets: np.ndarray, bucket: int) -> np.ndarray:
    """Return int `[buckets, 2, alternatives]` in which one bucket has other lengths.

    An alternative changes one side to any length between the neighbouring buckets, or
    both sides to near lengths.
    """
    lowest = buckets[bucket - 1] if bucket else np.zeros_like(buckets[0])
    ranges = list(zip(lowest, buckets[bucket + 1] + 1, strict=True))
    sources, targets = (np.arange(*ends) for ends in ranges)
    near = [
        np.arange(max(low, now - _NEAR), min(end, now + _NEAR + 1))
        for now, (low, end) in zip(buckets[bucket], ranges, strict=True)
    ]
    source, target = buckets[bucket]
    both = np.stack(np.meshgrid(*near), axis=-1).reshape(-1, 2)
    one = [(other, target) for other in sources], [(source, other) for other in targets]
    changed = np.concatenate([both, *one])
    tried = np.repeat(buckets[..., None], len(changed), axis=-1)
    tried[bucket] = changed.T
    return tried


def _choices(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths to choose from, and the first that holds each pair.

    Returns:
        int64 `[choices]`, ascending to the longest length, and int64 `[pairs]`.
    """
    counts = np.bincount(np.asarray(lengths, np.int64))
    values = np.flatnonzero(counts)
    step = -(-len(values) // MAX_CHOICES)
    values = values[::-step][::-1]
    return values, np.searchsorted(values, np.arange(len(counts)))[lengths]


def one_length_buckets(
    values: np.ndarray, counts: np.ndarray, max_buckets: int = MAX_BUCKETS
) -> list[tuple[int, ...]]:
    """Return the buckets that pad least, for each number of buckets.

    Both sides have the same length, and each row takes the first bucket that holds it.
    Dynamic programming over the histogram: the cheapest k buckets that cover all
    lengths up to the j-th are one bucket at the j-th, and the cheapest k - 1 buckets
    that cover the lengths up to some i-th.

    Args:
        values: int `[lengths]`, the different lengths, ascending, not empty.
        counts: int `[lengths]`, pairs of each.
        max_buckets: Most buckets.

    Returns:
        The lengths of the best 1, 2, ... buckets, each ascending to the last of
        `values`; at most as many as there are values.
    """
    covered = np.concatenate([[0], np.cumsum(counts)])
    # cost[i, j]: positions of one bucket at values[j - 1] that holds all lengths after
    # the i-th; infinite where j is not after i.
    cost = (covered[None, :] - covered[:, None]) * np.concatenate([[0], values])[
        None, :
    ]
    cost = np.where(np.tri(len(covered), dtype=bool), np.inf, cost)
    best, choices, found = cost[0], [], []
    for _ in range(min(max_buckets, len(values))):
        found.append(_follow(choices, values))
        totals = best[:, None] + cost
        choices.append(np.argmin(totals, axis=0))
        best = np.min(totals, axis=0)
    return found


def _follow(choices: Sequence[np.ndarray], values: np.ndarray) -> tuple[int, ...]:
    """Walk back from the last length through the bucket chosen before each."""
    end, buckets = len(values), [int(values[-1])]
    for choice in reversed(choices):
        end = choice[end]
        buckets.append(int(values[end - 1]))
    return tuple(reversed(buckets))


def buckets_of_pairs(
    buckets: Buckets, source_lengths: np.ndarray, target_lengths: np.ndarray
) -> np.ndarray:
    """Return the first bucket that holds both sides of each pair.

    Args:
        buckets: At most 255; the last holds every pair.
        source_lengths: int `[pairs]`.
        target_lengths: int `[pairs]`.

    Returns:
        uint8 `[pairs]`.
    """
    sources, targets = (
        # A table of all lengths: a lookup is faster than a search.
        np.searchsorted(values, np.arange(values[-1] + 1)).astype(np.uint8)[lengths]
        for values, lengths in zip(
            np.transpose(buckets), (source_lengths, target_lengths), strict=True
        )
    )
    return np.maximum(sources, targets)


def rows_of_buckets(
    longest: np.ndarray, tokens_per_batch: int, rows_multiple: int
) -> np.ndarray:
    """Return the rows of each bucket's batches: as many as fit, at least one multiple.

    Args:
        longest: int, any shape, the longer length of each bucket.
        tokens_per_batch: Most tokens of one side in a batch.
        rows_multiple: The rows are a multiple of this.

    Returns:
        int64, shape of `longest`.
    """
    return np.maximum(tokens_per_batch // longest // rows_multiple, 1) * rows_multiple


def fewest_rows(pairs: np.ndarray, rows: np.ndarray, rows_multiple: int) -> np.ndarray:
    """Return the fewest rows a batch needs if there are to be no more batches.

    Args:
        pairs: int, any shape, pairs to put into batches.
        rows: int, shape of `pairs`, rows of a batch so far, multiples of
            `rows_multiple`.
        rows_multiple: The result is a multiple of this, at least one.
    """
    batches = np.maximum(-(-pairs // rows), 1)
    return np.maximum(-(-pairs // (batches * rows_multiple)), 1) * rows_multiple


def cut_into_batches(
    buckets: Buckets,
    bucket_of_pair: np.ndarray,
    tokens_per_batch: int,
    rows_multiple: int = 1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split pairs, sorted by bucket, into batches; leftovers move to the next bucket.

    The batches of the last bucket are made only as high as their number needs, so that
    few rows are padding.

    Args:
        buckets: The lengths of each bucket.
        bucket_of_pair: int `[pairs]`, from `buckets_of_pairs`.
        tokens_per_batch: Most tokens of one side in a batch.
        rows_multiple: The rows of each batch are a multiple of this.

    Returns:
        First pair and bucket of each batch, int64 `[batches]` each, and the rows of a
        batch of each bucket, int64 `[buckets]`.
    """
    longest = np.max(buckets, axis=1)
    rows_of_bucket = rows_of_buckets(longest, tokens_per_batch, rows_multiple)
    ends = np.cumsum(np.bincount(bucket_of_pair, minlength=len(buckets)))
    starts, bucket_of_batch, position, last = [], [], 0, len(buckets) - 1
    for bucket, end in enumerate(ends):
        left = end - position
        if bucket == last:
            most_rows = rows_of_bucket[bucket]
            rows_of_bucket[bucket] = fewest_rows(left, most_rows, rows_multiple)
            left += -left % rows_of_bucket[bucket]
        num_batches = left // rows_of_bucket[bucket]
        starts.append(position + rows_of_bucket[bucket] * np.arange(num_batches))
        bucket_of_batch.append(np.full(num_batches, bucket))
        position += rows_of_bucket[bucket] * num_batches
    return np.concatenate(starts), np.concatenate(bucket_of_batch), rows_of_bucket
