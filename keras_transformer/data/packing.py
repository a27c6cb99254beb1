"""Several pairs packed into each row of a batch, which leaves little padding.

The paper batches pairs of about equal length (§5.1), one a row. Here a row holds pairs
one after another, in the same order on both sides, and attention is masked by segment.
All rows have one shape, so XLA compiles once. Pairs of one source length and one target
length are alike: which lengths share a row is worked out once, from how many pairs
there are of each, and an epoch shuffles who stands in which of the places.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator

import numpy as np

from keras_transformer import config
from keras_transformer.data import batch_plan, buckets

# Pairs of mean length that a row holds at least. Longer rows leave less padding, and
# attention, whose cost a token grows with the row, costs more.
_MIN_PAIRS_PER_ROW = 4

# Replicas and accumulated pieces that share a batch are mostly a divisor of this. Where
# a batch has many rows, they are a multiple of it, so that none gets filler rows.
_SHARES = 8
_MANY_ROWS = 32

# Lengths of one side that are told apart, as with the rungs of a ladder.
_MAX_CHOICES = 1024

# How rows are filled: how many rows, and the (source_length, target_length) of the
# pairs in each of them.
Pattern = tuple[int, list[tuple[int, int]]]


class PackedBatchPlan(batch_plan.Plan):
    """Batches of packed rows as a pure function of (lengths, seed, epoch).

    Every pair comes exactly once an epoch, in an order and in company of its own each
    time. The number of batches is the same in every epoch, and all have one shape; only
    the last batch of an epoch holds filler rows, unless what shares the batches divides
    their rows unevenly.

    Args:
        source_lengths: int `[pairs]`, tokens of each source, EOS included.
        target_lengths: int `[pairs]`, tokens of each target, EOS included.
        tokens_per_batch: Most tokens of one side in a batch, padding included.
        rows_multiple: The rows of each batch are a multiple of this (replicas times
            accumulated pieces).
        seed: Of the shuffle, at least 0.
        max_length: Pairs with a longer side are left out; None keeps all.

    Raises:
        ValueError: If no pair is left, or `tokens_per_batch` holds fewer than
            `rows_multiple` rows of the longest pair.

    Differs from the paper: it batches pairs by length, so that a batch has long pairs
    or short ones; a packed batch has pairs of all lengths.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        tokens_per_batch: int,
        rows_multiple: int = 1,
        seed: int = 0,
        max_length: int | None = None,
    ):
        config.check_at_least("tokens_per_batch", tokens_per_batch, 1)
        config.check_at_least("rows_multiple", rows_multiple, 1)
        config.check_at_least("seed", seed, 0)
        sides = np.asarray(source_lengths), np.asarray(target_lengths)
        kept = batch_plan.fitting_pairs(*sides, max_length, None)
        super().__init__(kept, len(sides[0]) - len(kept), seed)
        sides = [side[kept].astype(np.int64) for side in sides]
        longest = max(int(side.max()) for side in sides)
        batch_plan.check_rows_fit(longest, tokens_per_batch, rows_multiple)
        self._row = row_lengths(*sides, tokens_per_batch // rows_multiple)
        # The kind of a pair: its two lengths.
        lengths, self._kinds, counts = _kinds_of_pairs(*sides)
        self._ends, places = _lay_out(lengths, fill_rows(lengths, counts, *self._row))
        # Stable sorts of small integers, of pairs and of places, are the fastest.
        self._place_order = np.argsort(places.astype(self._kinds.dtype), kind="stable")
        longer = max(self._row)
        if tokens_per_batch // longer >= _MANY_ROWS:
            rows_multiple = math.lcm(rows_multiple, _SHARES)
        most_rows = buckets.rows_of_rungs(
            np.array(longer), tokens_per_batch, rows_multiple
        )
        num_rows = np.array(len(self._ends) - 1)
        self._rows = int(buckets.fewest_rows(num_rows, most_rows, rows_multiple))
        self._num_real_tokens = sum(int(side.sum()) for side in sides)

    @property
    def pairs_per_row(self) -> float:
        """Mean number of pairs in a row that is not pure padding."""
        return self.num_pairs / (len(self._ends) - 1)

    @property
    def batches_per_epoch(self) -> int:
        """Batches of every epoch."""
        return -(-(len(self._ends) - 1) // self._rows)

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        """(rows, source_length, target_length) of all batches: one shape."""
        return ((self._rows, *self._row),)

    @property
    def num_filler_rows(self) -> int:
        """Rows of pure padding in an epoch, all in its last batch."""
        return self.batches_per_epoch * self._rows - (len(self._ends) - 1)

    def padding_rate_of(self, rows_multiple: int) -> float:
        rows = -(-self._rows // rows_multiple) * rows_multiple
        positions = self.batches_per_epoch * rows * sum(self._row)
        return 1 - self._num_real_tokens / positions

    def batch(self, step: int) -> batch_plan.PlannedBatch:
        epoch, index = divmod(int(step), self.batches_per_epoch)
        pairs, row_order = self._epoch(epoch)
        chosen = row_order[index * self._rows : (index + 1) * self._rows]
        starts, ends = self._ends[chosen], self._ends[chosen + 1]
        places = starts[:, None] + np.arange(np.max(ends - starts))
        rows = np.full((self._rows, places.shape[1]), batch_plan.FILLER, np.int64)
        is_pair = places < ends[:, None]
        rows[: len(chosen)][is_pair] = pairs[places[is_pair]]
        return batch_plan.PlannedBatch(rows, *self._row)

    def _shuffle(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pair at each place of the epoch, and its order of rows."""
        random = np.random.Generator(np.random.Philox([self.seed, epoch]))
        shuffled = random.permutation(len(self._kept))
        # Those of a kind take the places of this kind in shuffled order.
        order = shuffled[np.argsort(self._kinds[shuffled], kind="stable")]
        pairs = np.empty_like(order)
        pairs[self._place_order] = self._kept[order]
        return pairs, random.permutation(len(self._ends) - 1)


def row_lengths(
    source_lengths: np.ndarray, target_lengths: np.ndarray, most_tokens: int
) -> tuple[int, int]:
    """Return the tokens of a source row and of a target row that pairs are packed into.

    They are as the means of the two sides, so that both fill up together: the shortest
    rows that hold the longest pair and several of mean length.

    Args:
        source_lengths: int `[pairs]`, not empty.
        target_lengths: int `[pairs]`, likewise.
        most_tokens: Neither is longer.
    """
    sides = source_lengths, target_lengths
    pairs = max(_MIN_PAIRS_PER_ROW, *(side.max() / side.mean() for side in sides))
    # Rounded first: 3 pairs of mean length 7 are 21 tokens, and not 22.
    source, target = (
        min(math.ceil(round(pairs * side.mean(), 6)), most_tokens) for side in sides
    )
    return source, target


def fill_rows(
    lengths: np.ndarray, counts: np.ndarray, source_room: int, target_room: int
) -> list[Pattern]:
    """Fill rows with all pairs, each once, so that few tokens of room are left.

    A row begins with the longest pair that is left. Then comes, again and again, the
    pair whose target is longer than its source by most nearly as much as the room of
    the target is than that of the source, of several the longest: so both sides fill up
    together. Rows are filled alike as long as there are pairs of these lengths.

    The time is that of the kinds, and hardly that of the pairs.

    Args:
        lengths: int `[kinds, 2]`, source and target length of each kind of pair, at
            least 1 and at most what there is room for.
        counts: int `[kinds]`, pairs of each.
        source_room: Tokens of a source row.
        target_room: Tokens of a target row.
    """
    left = _Left(lengths, counts)
    patterns = []
    while (found := left.longest()) is not None:
        source_left, target_left, row = source_room, target_room, []
        while found is not None:
            left.take(found, 1)
            row.append(found)
            source_left, target_left = source_left - found[0], target_left - found[1]
            found = left.best_fit(source_left, target_left)
        patterns.append((1 + left.take_again(row), row))
    return patterns


class _Left:
    """The pairs that are in no row yet, by their two lengths.

    Of those with one difference target - source, an integer has a bit for each source
    length that is left: the longest that fits is its highest bit below a limit.

    Args:
        lengths: As of `fill_rows`, likewise the other.
    """

    def __init__(self, lengths: np.ndarray, counts: np.ndarray):
        kinds = list(map(tuple, lengths.tolist()))
        self._counts = dict(zip(kinds, counts.tolist(), strict=True))
        # The longest last.
        self._by_length = sorted(kinds, key=lambda kind: (max(kind), min(kind)))
        differences = [target - source for source, target in kinds]
        self._lowest, self._highest = min(differences), max(differences)
        self._sources = dict.fromkeys(range(self._lowest, self._highest + 1), 0)
        for source, target in kinds:
            self._sources[target - source] |= 1 << source

    def longest(self) -> tuple[int, int] | None:
        """Return the lengths of the pair with the longest side; None: none is left."""
        while self._by_length and not self._counts[self._by_length[-1]]:
            self._by_length.pop()
        return self._by_length[-1] if self._by_length else None

    def best_fit(self, source_room: int, target_room: int) -> tuple[int, int] | None:
        """Return the lengths of the pair that `fill_rows` puts there; None: none fits.

        Args:
            source_room: Tokens that its source may have.
            target_room: Tokens that its target may have.
        """
        for difference in _nearest(
            target_room - source_room,
            max(self._lowest, 1 - source_room),
            min(self._highest, target_room - 1),
        ):
            limit = min(source_room, target_room - difference)
            fitting = self._sources[difference] & ((2 << limit) - 1)
            if fitting:
                source = fitting.bit_length() - 1
                return source, source + difference
        return None

    def take(self, kind: tuple[int, int], count: int) -> None:
        """Take pairs of these lengths away."""
        self._counts[kind] -= count
        if not self._counts[kind]:
            source, target = kind
            self._sources[target - source] &= ~(1 << source)

    def take_again(self, row: list[tuple[int, int]]) -> int:
        """Take pairs for rows like this one, as many as there are; return how many."""
        wanted = collections.Counter(row)
        times = min(self._counts[kind] // count for kind, count in wanted.items())
        if times:
            for kind, count in wanted.items():
                self.take(kind, times * count)
        return times


def _nearest(goal: int, lowest: int, highest: int) -> Iterator[int]:
    """Yield the integers from `lowest` to `highest`, the nearest to `goal` first."""
    if lowest > highest:
        return
    goal = min(max(goal, lowest), highest)
    yield goal
    on_both_sides = min(goal - lowest, highest - goal)
    for distance in range(1, on_both_sides + 1):
        yield goal + distance
        yield goal - distance
    yield from range(goal + on_both_sides + 1, highest + 1)
    yield from range(goal - on_both_sides - 1, lowest - 1, -1)


def _kinds_of_pairs(
    source_lengths: np.ndarray, target_lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the lengths of each kind, the kind of each pair, and pairs of each kind.

    Very long pairs are rounded up: the lengths of a kind are the room they need.

    Returns:
        int64 `[kinds, 2]`; the smallest unsigned type that holds it `[pairs]`; int64
        `[kinds]`.
    """
    longest = [int(side.max()) for side in (source_lengths, target_lengths)]
    unit = -(-max(longest) // _MAX_CHOICES)
    # A table of all kinds: counting is faster than sorting.
    rounded = [-(-side // unit) for side in (source_lengths, target_lengths)]
    width = -(-longest[1] // unit) + 1
    kind_of_pair = rounded[0] * width + rounded[1]
    table = np.bincount(kind_of_pair)
    kinds = np.flatnonzero(table)
    numbers = np.zeros(len(table), np.min_scalar_type(len(kinds)))
    numbers[kinds] = np.arange(len(kinds))
    lengths = unit * np.stack(np.divmod(kinds, width), axis=1)
    return np.minimum(lengths, longest), numbers[kind_of_pair], table[kinds]


def _lay_out(
    lengths: np.ndarray, patterns: list[Pattern]
) -> tuple[np.ndarray, np.ndarray]:
    """Return where each row's places end, after a 0, and the kind of every place."""
    kinds = {kind: number for number, kind in enumerate(map(tuple, lengths.tolist()))}
    times = np.array([times for times, _ in patterns])
    sizes = np.array([len(row) for _, row in patterns])
    places = [np.tile([kinds[kind] for kind in row], count) for count, row in patterns]
    ends = np.cumsum(np.repeat(sizes, times))
    return np.concatenate([[0], ends]), np.concatenate(places)
