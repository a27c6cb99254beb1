"""Several pairs packed into each row of a batch, which leaves little padding.

The paper batches pairs of about equal length (§5.1), one a row. Here a row holds pairs
one after another, in the same order on both sides, and attention is masked by segment.
All rows have one shape, so XLA compiles once. Pairs with the same two lengths are
interchangeable: which lengths share a row is decided once, from the number of pairs of
each kind, and an epoch shuffles which pair of a kind takes which slot.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator

import numpy as np

from keras_transformer.data import batch_plan, buckets

# A row holds at least this many pairs of mean length. Longer rows have less padding but
# more attention, whose cost per token grows with the row.
_MIN_PAIRS_PER_ROW = 4

# The number of replicas times microbatches usually divides this. The rows of a batch
# with many rows are a multiple of it, so that no part gets filler rows.
_SHARES = 8
_MANY_ROWS = 32

# An epoch of a mixture draws about this many pairs of a corpus, or more, for each kind
# of slot. The number is rounded: with fewer pairs, some lengths would come too often;
# with more, slots would be longer than their pairs.
_DRAWS_OF_BLOCK = 4

# Rows that are filled alike: their number, and the (source_length, target_length) of
# the pairs in each of them.
Pattern = tuple[int, list[tuple[int, int]]]


class PackedBatchPlan(batch_plan.Plan):
    """Batches of packed rows.

    An epoch has its pairs in a new order and beside other pairs each time. In a
    mixture, pairs of a corpus with similar lengths share one kind of slot, which holds
    the longest of them. The number of batches is the same in every epoch, and all have
    one shape. Only the last batch of an epoch has filler rows, unless the devices that
    share batches do not divide their rows evenly. The arguments are those of `Plan`.

    Differs from the paper: its batches have pairs of about equal length; a packed batch
    has pairs of all lengths.

    Examples:
        >>> lengths = [3, 5, 3, 4, 2, 6]
        >>> plan = kt.data.PackedBatchPlan(lengths, lengths, tokens_per_batch=24)
        >>> plan.batch(0).rows.shape
        (1, 3)
    """

    def _plan(self, source_lengths, target_lengths):
        sides = [side.astype(np.int64) for side in (source_lengths, target_lengths)]
        tokens_per_batch, rows_multiple = self.tokens_per_batch, self.rows_multiple
        longest = max(int(side.max()) for side in sides)
        batch_plan.check_rows_fit(longest, tokens_per_batch, rows_multiple)
        typical = self._typical_lengths(*sides)
        self._row = row_lengths(*typical, tokens_per_batch // rows_multiple)
        # The kind of a pair: its two lengths.
        lengths, self._kinds, counts = _kinds_of_pairs(*sides)
        if self._mixture:
            blocks = self._mixture.blocks(self._kinds, _DRAWS_OF_BLOCK)
            longest_of_block = [_longest(side, blocks)[blocks] for side in sides]
            lengths, self._kinds, counts = _kinds_of_pairs(*longest_of_block)
            self._kinds = self._mixture.divide(self._kinds)
            drawn = self._kinds[self._pairs_of_epoch(0)]
            counts = np.bincount(drawn, minlength=len(lengths))
        self._ends, slots = _slots_of_rows(
            lengths, fill_rows(lengths, counts, *self._row)
        )
        # A stable sort of small integers is the fastest.
        self._slot_order = np.argsort(slots.astype(self._kinds.dtype), kind="stable")
        longer = max(self._row)
        if tokens_per_batch // longer >= _MANY_ROWS:
            rows_multiple = math.lcm(rows_multiple, _SHARES)
        most_rows = buckets.rows_of_buckets(
            np.array(longer), tokens_per_batch, rows_multiple
        )
        num_rows = np.array(len(self._ends) - 1)
        self._rows = int(buckets.fewest_rows(num_rows, most_rows, rows_multiple))

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
        slots = starts[:, None] + np.arange(np.max(ends - starts))
        rows = np.full((self._rows, slots.shape[1]), batch_plan.FILLER, np.int64)
        is_pair = slots < ends[:, None]
        rows[: len(chosen)][is_pair] = pairs[slots[is_pair]]
        return batch_plan.PlannedBatch(rows, *self._row)

    def _shuffle(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pair in each slot of the epoch, and the order of rows."""
        random = np.random.Generator(np.random.Philox([self.seed, epoch]))
        shuffled = random.permutation(self._pairs_of_epoch(epoch))
        # The pairs of a kind take the slots of this kind in shuffled order.
        order = shuffled[np.argsort(self._kinds[shuffled], kind="stable")]
        pairs = np.empty_like(order)
        pairs[self._slot_order] = self._kept[order]
        return pairs, random.permutation(len(self._ends) - 1)


def row_lengths(
    source_lengths: np.ndarray, target_lengths: np.ndarray, most_tokens: int
) -> tuple[int, int]:
    """Return the tokens of a source row and of a target row that pairs are packed into.

    They are proportional to the mean lengths of the two sides, so that both sides fill
    up together. They are the shortest rows that hold the longest pair, and several
    pairs of mean length.

    Args:
        source_lengths: int `[pairs]`, not empty.
        target_lengths: int `[pairs]`, likewise.
        most_tokens: Limit of both lengths.
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
    """Fill rows with all pairs, each once, so that little room is left.

    A row begins with the longest remaining pair. Then the best fit is added as long as
    a pair fits: the pair whose difference of target and source length is nearest to the
    difference of the room on the two sides, and of several such pairs the longest. So
    both sides fill up together. A row is repeated while there are pairs of its lengths.

    The time depends on the number of kinds, hardly on the number of pairs.

    Args:
        lengths: int `[kinds, 2]`, source and target length of each kind of pair, at
            least 1 and at most the length of a row.
        counts: int `[kinds]`, pairs of each kind.
        source_room: Tokens of a source row.
        target_room: Tokens of a target row.
    """
    remaining = _RemainingPairs(lengths, counts)
    patterns = []
    while (found := remaining.longest()) is not None:
        source_left, target_left, row = source_room, target_room, []
        while found is not None:
            remaining.take(found, 1)
            row.append(found)
            source_left, target_left = source_left - found[0], target_left - found[1]
            found = remaining.best_fit(source_left, target_left)
        patterns.append((1 + remaining.take_again(row), row))
    return patterns


class _RemainingPairs:
    """The pairs that are in no row yet, by their two lengths.

    For each difference target - source, an integer has one bit per remaining source
    length. The longest pair that fits is its highest bit below a limit.

    The arguments are those of `fill_rows`.
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
        """Return the lengths of the pair with the longest side, if one is left."""
        while self._by_length and not self._counts[self._by_length[-1]]:
            self._by_length.pop()
        return self._by_length[-1] if self._by_length else None

    def best_fit(self, source_room: int, target_room: int) -> tuple[int, int] | None:
        """Return the lengths of the pair that `fill_rows` adds; None if none fits.

        Args:
            source_room: Most tokens of its source.
            target_room: Most tokens of its target.
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
        """Remove pairs of these lengths."""
        self._counts[kind] -= count
        if not self._counts[kind]:
            source, target = kind
            self._sources[target - source] &= ~(1 << source)

    def take_again(self, row: list[tuple[int, int]]) -> int:
        """Remove pairs for as many rows like this one as possible; return how many."""
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

    Very long lengths are rounded up, so that there are not too many kinds.

    Returns:
        int64 `[kinds, 2]`; the smallest unsigned type that holds it `[pairs]`; int64
        `[kinds]`.
    """
    longest = [int(side.max()) for side in (source_lengths, target_lengths)]
    unit = -(-max(longest) // buckets.MAX_CHOICES)
    # A table of all kinds: a count is faster than a sort.
    rounded = [-(-side // unit) for side in (source_lengths, target_lengths)]
    width = -(-longest[1] // unit) + 1
    kind_of_pair = rounded[0] * width + rounded[1]
    table = np.bincount(kind_of_pair)
    kinds = np.flatnonzero(table)
    numbers = np.zeros(len(table), np.min_scalar_type(len(kinds)))
    numbers[kinds] = np.arange(len(kinds))
    lengths = unit * np.stack(np.divmod(kinds, width), axis=1)
    return np.minimum(lengths, longest), numbers[kind_of_pair], table[kinds]


def _longest(lengths: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Return the maximum of the lengths in each block, int64 `[blocks]`."""
    longest = np.zeros(int(blocks.max()) + 1, np.int64)
    np.maximum.at(longest, blocks, lengths)
    return longest


def _slots_of_rows(
    lengths: np.ndarray, patterns: list[Pattern]
) -> tuple[np.ndarray, np.ndarray]:
    """Return where each row's slots end, after a 0, and the kind of every slot."""
    kinds = {kind: number for number, kind in enumerate(map(tuple, lengths.tolist()))}
    times = np.array([times for times, _ in patterns])
    sizes = np.array([len(row) for _, row in patterns])
    slots = [np.tile([kinds[kind] for kind in row], count) for count, row in patterns]
    ends = np.cumsum(np.repeat(sizes, times))
    return np.concatenate([[0], ends]), np.concatenate(slots)
