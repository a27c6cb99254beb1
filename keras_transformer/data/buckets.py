"""The ladder of a batch plan: the few lengths that rows are padded to.

Each rung has a length for source rows and one for target rows, and neither is below
that of the rung before. So the pairs that a rung holds are held by all rungs after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Shapes that a run may compile.
MAX_RUNGS = 11

# Lengths of one side that rungs are chosen from: with all of a corpus of very long
# rows, the table of pairs by both lengths would not be small.
_MAX_CHOICES = 1024

# Choices by which both lengths of a rung may change at once.
_NEAR = 4

# (source_length, target_length) of each rung.
Ladder = Sequence[tuple[int, int]]


def choose_ladder(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    tokens_per_batch: int,
    rows_multiple: int = 1,
) -> tuple[tuple[int, int], ...]:
    """Return the lengths of at most 11 rungs whose batches have few positions.

    Many rungs pad single rows less; few rungs leave less over that must move up. So the
    search begins from the best ladder of each size in which both sides have one length,
    changes one rung at a time as long as that helps, and returns the best ladder it
    came to. None of those it began from is better.

    Args:
        source_lengths: int `[pairs]`, each at least 1, not empty.
        target_lengths: int `[pairs]`, likewise.
        tokens_per_batch: Most tokens of one side in a batch.
        rows_multiple: The rows of each batch are a multiple of this.
    """
    search = _Search(source_lengths, target_lengths, tokens_per_batch, rows_multiple)
    values, indices = _choices(np.maximum(source_lengths, target_lengths))
    starts = one_length_ladders(values, np.bincount(indices))
    found = [
        search.descend(search.nearest(lengths), step)
        for lengths in starts
        for step in (1, -1)
    ]
    _, rungs = min(found, key=lambda result: result[0])
    return search.lengths(rungs)


class _Search:
    """Local search over the lengths of rungs, each an index into the choices.

    Args:
        source_lengths: As of `choose_ladder`, likewise the others.
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
        """Return int `[rungs, 2]`, rungs that hold what rows of these lengths do."""
        rungs = np.stack(
            [
                np.searchsorted(values, lengths, side="right") - 1
                for values in (self._sources, self._targets)
            ],
            axis=1,
        )
        return np.maximum(rungs, 0)

    def lengths(self, rungs: np.ndarray) -> tuple[tuple[int, int], ...]:
        """Return (source_length, target_length) of each of int `[rungs, 2]`."""
        sources, targets = self._sources[rungs[:, 0]], self._targets[rungs[:, 1]]
        return tuple(zip(sources.tolist(), targets.tolist(), strict=True))

    def descend(self, rungs: np.ndarray, step: int) -> tuple[int, np.ndarray]:
        """Return the fewest positions found from int `[rungs, 2]`, and their rungs.

        The last rung stays: it holds the longest of both sides.

        Args:
            rungs: Where to begin.
            step: 1 or -1: whether each round goes up or down the ladder.
        """
        fewest, has_improved = int(self.num_positions(rungs)), True
        while has_improved:
            has_improved = False
            for rung in range(len(rungs) - 1)[::step]:
                tried = _with_other_lengths(rungs, rung)
                positions = self.num_positions(tried)
                if positions.min() < fewest:
                    fewest, has_improved = int(positions.min()), True
                    rungs = tried[..., np.argmin(positions)]
        return fewest, rungs

    def num_positions(self, rungs: np.ndarray) -> np.ndarray:
        """Count both sides' positions in the batches that `cut_into_batches` makes.

        Args:
            rungs: int `[rungs, 2, ...]`, any number of ladders.

        Returns:
            int64 `[...]`.
        """
        sources, targets = self._sources[rungs[:, 0]], self._targets[rungs[:, 1]]
        rows = rows_of_rungs(
            np.maximum(sources, targets), self._tokens_per_batch, self._rows_multiple
        )
        num_held = self._num_held[rungs[:, 0], rungs[:, 1]]
        filled = np.zeros_like(num_held)
        position = np.zeros_like(num_held[0])
        for rung in range(len(rungs) - 1):
            left = num_held[rung] - position
            filled[rung] = left - left % rows[rung]
            position += filled[rung]
        left = num_held[-1] - position
        fewest = fewest_rows(left, rows[-1], self._rows_multiple)
        filled[-1] = left + -left % fewest
        return np.sum(filled * (sources + targets), axis=0)


def _with_other_lengths(rungs: np.ndarray, rung: int) -> np.ndarray:
    """Return int `[rungs, 2, ladders]` in which one rung has other lengths.

    They are all those between the rungs around it of one side, the other side as it is,
    and those of both sides that are near.
    """
    lowest = rungs[rung - 1] if rung else np.zeros_like(rungs[0])
    ranges = list(zip(lowest, rungs[rung + 1] + 1, strict=True))
    sources, targets = (np.arange(*ends) for ends in ranges)
    near = [
        np.arange(max(low, now - _NEAR), min(end, now + _NEAR + 1))
        for now, (low, end) in zip(rungs[rung], ranges, strict=True)
    ]
    source, target = rungs[rung]
    both = np.stack(np.meshgrid(*near), axis=-1).reshape(-1, 2)
    one = [(other, target) for other in sources], [(source, other) for other in targets]
    changed = np.concatenate([both, *one])
    tried = np.repeat(rungs[..., None], len(changed), axis=-1)
    tried[rung] = changed.T
    return tried


def _choices(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths to choose from, ascending to the longest.

    Returns:
        int64 `[choices]`, and int64 `[pairs]`, the first choice that holds each pair.
    """
    counts = np.bincount(np.asarray(lengths, np.int64))
    values = np.flatnonzero(counts)
    step = -(-len(values) // _MAX_CHOICES)
    values = values[::-step][::-1]
    return values, np.searchsorted(values, np.arange(len(counts)))[lengths]


def one_length_ladders(
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


def rungs_of_pairs(
    ladder: Ladder, source_lengths: np.ndarray, target_lengths: np.ndarray
) -> np.ndarray:
    """Return the first rung that holds both sides of each pair.

    Args:
        ladder: At most 255 rungs, whose last holds every pair.
        source_lengths: int `[pairs]`.
        target_lengths: int `[pairs]`.

    Returns:
        uint8 `[pairs]`.
    """
    sources, targets = (
        # A table of all lengths: looking up is faster than searching.
        np.searchsorted(values, np.arange(values[-1] + 1)).astype(np.uint8)[lengths]
        for values, lengths in zip(
            np.transpose(ladder), (source_lengths, target_lengths), strict=True
        )
    )
    return np.maximum(sources, targets)


def rows_of_rungs(
    longest: np.ndarray, tokens_per_batch: int, rows_multiple: int
) -> np.ndarray:
    """Return the rows of each rung's batches: as many as fit, at least one multiple.

    Args:
        longest: int, any shape, the longer length of each rung.
        tokens_per_batch: Most tokens of one side in a batch.
        rows_multiple: The rows are a multiple of this.

    Returns:
        int64, shape of `longest`.
    """
    return np.maximum(tokens_per_batch // longest // rows_multiple, 1) * rows_multiple


def fewest_rows(pairs: np.ndarray, rows: np.ndarray, rows_multiple: int) -> np.ndarray:
    """Return the fewest rows with which pairs fill no more batches than with `rows`.

    Args:
        pairs: int, any shape.
        rows: int, shape of `pairs`, multiples of `rows_multiple`.
        rows_multiple: The result is a multiple of this, at least one.
    """
    batches = np.maximum(-(-pairs // rows), 1)
    return np.maximum(-(-pairs // (batches * rows_multiple)), 1) * rows_multiple


def cut_into_batches(
    pairs_of_rung: np.ndarray, rows_of_rung: np.ndarray, rows_multiple: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut pairs that are sorted by rung into batches; leftovers move to the next rung.

    The batches of the last rung get only as many rows as it takes to hold what is left
    in no more of them, so that few rows are filled up.

    Args:
        pairs_of_rung: int `[rungs]`, pairs of each rung.
        rows_of_rung: int `[rungs]`, most rows of a batch of each rung.
        rows_multiple: The rows of each batch are a multiple of this.

    Returns:
        First pair and rung of each batch, int64 `[batches]` each, and the rows of a
        batch of each rung, int64 `[rungs]`.
    """
    rows_of_rung, ends = np.array(rows_of_rung), np.cumsum(pairs_of_rung)
    starts, rungs, position, last = [], [], 0, len(rows_of_rung) - 1
    for rung, end in enumerate(ends):
        left = end - position
        if rung == last:
            rows_of_rung[rung] = fewest_rows(left, rows_of_rung[rung], rows_multiple)
            left += -left % rows_of_rung[rung]
        num_batches = left // rows_of_rung[rung]
        starts.append(position + rows_of_rung[rung] * np.arange(num_batches))
        rungs.append(np.full(num_batches, rung))
        position += rows_of_rung[rung] * num_batches
    return np.concatenate(starts), np.concatenate(rungs), rows_of_rung
