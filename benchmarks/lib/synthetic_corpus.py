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
    return _lengths(pairs, seed, median=25, sigma=0.6)


def mixed_lengths(pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw lengths half of which are typical of captions, half of news.

    Args:
        pairs: Same as in `lengths_like_news`.
        seed: Same as in `lengths_like_news`.
    """
    captions = _lengths(pairs // 2, seed, median=15, sigma=0.3)
    news = lengths_like_news(pairs - pairs // 2, seed + 1)
    return tuple(np.concatenate(side) for side in zip(captions, news, strict=True))


def _lengths(pairs, seed, median, sigma) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    sources = median * np.exp(sigma * draw.standard_normal(pairs))
    targets = 1.05 * sources * np.exp(0.15 * draw.standard_normal(pairs))
    return tuple(
        np.clip(np.round(side), 2, 256).astype(np.int32) for side in (sources, targets)
    )


def random_corpus(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    seed: int,
    vocab_size: int = _VOCAB_SIZE,
) -> EncodedCorpus:
    """Return an in-memory corpus of random tokens with these lengths.

    Args:
        source_lengths: int `[pairs]`, EOS included.
        target_lengths: int `[pairs]`, EOS included.
        seed: Seed of the tokens.
        vocab_size: Tokens to draw from.
    """
    draw = np.random.default_rng(seed)
    sides = []
    for lengths in (source_lengths, target_lengths):
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        tokens = draw.integers(config.EOS_ID + 1, vocab_size, offsets[-1], np.uint16)
        tokens[offsets[1:] - 1] = config.EOS_ID
        sides.append((tokens, offsets))
    return EncodedCorpus(*sides, pad_id=config.PAD_ID)
