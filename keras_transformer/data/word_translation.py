"""Which target pieces each source piece goes with: IBM model 1 (Brown et al. 1993)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keras_transformer.data.corpus import EncodedCorpus

# Pairs of a source and a target token that are counted, 30 bytes each; of a larger
# corpus only every n-th sentence is read.
_MOST_LINKS = 1 << 25
# Later steps of expectation maximization change which pieces come first very little.
_NUM_STEPS = 5


class _Links(NamedTuple):
    """Every source token of a sentence with every target token of its translation."""

    # The different pairs of pieces.
    sources: np.ndarray  # int64 [pairs]
    targets: np.ndarray  # int64 [pairs]
    # The pair of each link; those of one target token follow each other.
    pairs: np.ndarray  # int64 [links]
    counts: np.ndarray  # int64 [target tokens]: links of each


def likeliest_translations(
    corpus: EncodedCorpus, source_vocab_size: int, count: int, excluded: np.ndarray
) -> np.ndarray:
    """Return the target pieces that each source piece most often stands for.

    Every target token comes from one source token, or from EOS, which takes what has no
    source word.

    Args:
        corpus: The pairs. Of a very large corpus some are read, at equal distances.
        source_vocab_size: Number of ids of the source.
        count: Most target pieces of a source piece.
        excluded: Ids of target pieces that are not wanted.

    Returns:
        int32 `[source_vocab_size, count]`, likeliest first, filled with -1.
    """
    links = _links(corpus)
    expected = _expected_counts(links)
    is_wanted = ~np.isin(links.targets, excluded)
    sources, targets = links.sources[is_wanted], links.targets[is_wanted]
    order = np.lexsort((-expected[is_wanted], sources))
    sources, targets = sources[order], targets[order]
    # The first of each source piece has rank 0.
    ranks = np.arange(len(sources)) - np.searchsorted(sources, sources)
    is_best = ranks < count
    table = np.full((source_vocab_size, count), -1, np.int32)
    table[sources[is_best], ranks[is_best]] = targets[is_best]
    return table


def _links(corpus: EncodedCorpus) -> _Links:
    """Link the sentences of a corpus; the target's EOS is left out."""
    lengths = [corpus.source_lengths, corpus.target_lengths - 1]
    total = int(lengths[0].astype(np.int64) @ lengths[1])
    indices = np.arange(0, len(corpus), max(1, -(-total // _MOST_LINKS)))
    num_sources, num_targets = (side[indices] for side in lengths)
    # With a column for the target's EOS, which the mask leaves out.
    source, target = corpus.rows(indices, num_sources.max(), num_targets.max() + 1)
    is_source = np.arange(source.shape[1]) < num_sources[:, None]
    is_target = np.arange(target.shape[1]) < num_targets[:, None]
    source, target = source[is_source].astype(np.int64), target[is_target]

    counts = np.repeat(num_sources, num_targets).astype(np.int64)
    first = np.repeat(np.cumsum(num_sources) - num_sources, num_targets)
    before = np.cumsum(counts) - counts
    positions = np.repeat(first - before, counts) + np.arange(counts.sum())
    shift = int(target.max(initial=0)) + 1
    keys = source[positions] * shift + np.repeat(target, counts)
    found, pairs = np.unique(keys, return_inverse=True)
    return _Links(*np.divmod(found, shift), pairs, counts)


def _expected_counts(links: _Links) -> np.ndarray:
    """Return how often each pair stands for one another, float `[pairs]`."""
    expected = probabilities = np.ones(len(links.sources))
    if not len(links.counts):
        return expected
    starts = np.cumsum(links.counts) - links.counts
    for _ in range(_NUM_STEPS):
        shares = probabilities[links.pairs]
        shares /= np.repeat(np.add.reduceat(shares, starts), links.counts)
        expected = np.bincount(links.pairs, shares, len(links.sources))
        probabilities = expected / np.bincount(links.sources, expected)[links.sources]
    return expected
