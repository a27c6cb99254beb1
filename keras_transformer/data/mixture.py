"""Which pairs of several corpora an epoch has, as a pure function of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_transformer.data.metadata import CorpusMetadata


class Mixture:
    """Draws the pairs of each epoch from several corpora.

    An epoch has as many pairs as the corpora together, of which each corpus has its
    share. The pairs of a corpus are divided into groups, such as those of a bucket, and
    every epoch draws the same number from a group. It goes on where the epoch before it
    ended, in an endless sequence of shuffles of the group: no pair is drawn again
    before all others of its group have been drawn as often.

    Args:
        corpora: The corpora, in the order of their pairs; the shares sum to 1.
        kept: int `[pairs]`, ascending indices of the pairs to draw from.
        seed: Seed of the shuffles.

    Raises:
        ValueError: If none of a corpus's pairs is kept.
    """

    def __init__(self, corpora: Sequence[CorpusMetadata], kept: np.ndarray, seed: int):
        self._seed = seed
        ends = np.cumsum([corpus.pairs for corpus in corpora])
        corpus_of_pair = np.searchsorted(ends, kept, side="right")
        self._corpus_of_pair = corpus_of_pair.astype(np.min_scalar_type(len(ends)))
        available = np.bincount(self._corpus_of_pair, minlength=len(ends))
        for corpus, count in zip(corpora, available, strict=True):
            if not count:
                raise ValueError(
                    f"No pair of the corpus {corpus.name!r} is short enough for a "
                    "batch. Raise max_length, or prepare the data without this corpus."
                )
        shares = np.array([corpus.share for corpus in corpora])
        self._pairs_of_corpus = at_least_one(apportion(len(kept), shares), available)
        self.divide(np.zeros(len(kept), np.uint8))

    def divide(self, groups: np.ndarray) -> np.ndarray:
        """Draw from groups of each corpus, instead of from each whole corpus.

        Args:
            groups: int `[pairs]`, the group of each pair, counted from 0.

        Returns:
            `groups`, where all pairs of a corpus are in its last group if an epoch has
            fewer pairs of the corpus than it has groups.
        """
        num_groups = int(groups.max()) + 1
        table = self._table(groups, num_groups)
        is_small = np.count_nonzero(table, axis=1) > self._pairs_of_corpus
        if is_small.any():
            last = num_groups - 1 - np.argmax(table[:, ::-1] > 0, axis=1)
            merged = last.astype(groups.dtype)[self._corpus_of_pair]
            groups = np.where(is_small[self._corpus_of_pair], merged, groups)
            table = self._table(groups, num_groups)
        cells = self._cells(groups, num_groups)
        # A stable sort of small integers is the fastest.
        self._members = np.argsort(
            cells.astype(np.min_scalar_type(table.size)), kind="stable"
        )
        self._ends = np.cumsum(table)
        self._draws = np.concatenate(
            [
                at_least_one(apportion(pairs, row), row)
                for pairs, row in zip(self._pairs_of_corpus, table, strict=True)
            ]
        )
        return groups

    def blocks(self, groups: np.ndarray, num_draws: int) -> np.ndarray:
        """Join successive groups of each corpus from which an epoch draws few pairs.

        Args:
            groups: int `[pairs]`, the group of each pair, counted from 0.
            num_draws: Pairs that an epoch draws from most blocks, or more.

        Returns:
            int `[pairs]`, the block of each pair; different corpora have different
            blocks.
        """
        num_groups = int(groups.max()) + 1
        table = self._table(groups, num_groups)
        before = np.cumsum(table, axis=1) - table
        rates = self._pairs_of_corpus / table.sum(axis=1)
        numbers = (before * rates[:, None] // num_draws).astype(np.int64)
        numbers += np.cumsum(numbers.max(axis=1) + 1)[:, None]
        return numbers.ravel()[self._cells(groups, num_groups)]

    def draw(self, epoch: int) -> np.ndarray:
        """Return the pairs of an epoch, int64 `[pairs]`, positions in `kept`."""
        starts = np.concatenate([[0], self._ends[:-1]])
        return np.concatenate(
            [
                self._draw(
                    self._members[start:end], int(self._draws[cell]), cell, epoch
                )
                for cell, (start, end) in enumerate(
                    zip(starts, self._ends, strict=True)
                )
                if end > start
            ]
        )

    def _draw(self, members, num_draws, cell, epoch):
        """Return the next pairs in the shuffles of one group, in any order."""
        number, position = divmod(epoch * num_draws, len(members))
        head = self._shuffle(members, number, cell)[position:][:num_draws]
        # The order inside a whole pass does not matter: an epoch is shuffled again.
        passes, left = divmod(num_draws - len(head), len(members))
        tail = self._shuffle(members, number + passes + 1, cell)[:left] if left else []
        return np.concatenate([head, np.tile(members, passes), tail]).astype(np.int64)

    def _shuffle(self, members, number, cell):
        # NumPy pads seeds with zeros: the last 1 makes this another seed than that of
        # an epoch, (seed, epoch).
        random = np.random.Generator(np.random.Philox([self._seed, number, cell, 1]))
        return random.permutation(members)

    def _table(self, groups, num_groups):
        """Count the pairs of each corpus and group, int64 `[corpora, groups]`."""
        num_corpora = len(self._pairs_of_corpus)
        cells = self._cells(groups, num_groups)
        counts = np.bincount(cells, minlength=num_corpora * num_groups)
        return counts.reshape(num_corpora, num_groups)

    def _cells(self, groups, num_groups):
        return self._corpus_of_pair.astype(np.int64) * num_groups + groups


def apportion(total: int, weights: np.ndarray) -> np.ndarray:
    """Divide a number in proportion to weights, by the method of largest remainders.

    Returns:
        int64, shape of `weights`; the sum is `total`.
    """
    exact = total * weights / np.sum(weights)
    counts = np.floor(exact).astype(np.int64)
    largest = np.argsort(counts - exact, kind="stable")
    counts[largest[: total - counts.sum()]] += 1
    return counts


def at_least_one(counts: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Raise counts of 0 to 1 where something is available, and lower the largest."""
    counts = counts.copy()
    for position in np.flatnonzero((counts == 0) & (available > 0)):
        counts[np.argmax(counts)] -= 1
        counts[position] += 1
    return counts
