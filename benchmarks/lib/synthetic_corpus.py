"""A corpus of random tokens with lengths typical of news text."""

from __future__ import annotations

import numpy as np

from keras_transformer import config
from keras_transformer.data.corpus import EncodedCorpus

_VOCAB_SIZE = 37_000


def lengths_like_news(pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw sentence lengths typical of news in subwords, EOS included.

    Source lengths are log-normal with median 25 and sigma 0.6. The ratio of target to
    source length is log-normal with median 1.05 and sigma 0.15. Both are clipped to
    256.

    Args:
        pairs: Number of pairs.
        seed: Random seed.

    Returns:
        Lengths of sources and of targets, int32 `[pairs]` each.
    """
    draw = np.random.default_rng(seed)
    sources = 25 * np.exp(0.6 * draw.standard_normal(pairs))
    targets = 1.05 * sources * np.exp(0.15 * draw.standard_normal(pairs))
    return tuple(
        np.clip(np.round(side), 2, 256).astype(np.int32) for side in (sources, targets)
    )


def random_corpus(
    source_lengths: np.ndarray, target_lengths: np.ndarray, seed: int
) -> EncodedCorpus:
    """Return an in-memory corpus of random tokens with these lengths.

    Args:
        source_lengths: int `[pairs]`, EOS included.
        target_lengths: int `[pairs]`, EOS included.
        seed: Seed of the tokens.
    """
    draw = np.random.default_rng(seed)
    sides = []
    for lengths in (source_lengths, target_lengths):
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        tokens = draw.integers(config.EOS_ID + 1, _VOCAB_SIZE, offsets[-1], np.uint16)
        tokens[offsets[1:] - 1] = config.EOS_ID
        sides.append((tokens, offsets))
    return EncodedCorpus(*sides, pad_id=config.PAD_ID)
