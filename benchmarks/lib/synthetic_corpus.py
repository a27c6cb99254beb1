"""A corpus of random tokens with lengths as of news text."""

from __future__ import annotations

import numpy as np

from keras_transformer import config
from keras_transformer.data.corpus import EncodedCorpus

_VOCAB_SIZE = 37_000


def lengths_like_news(pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw lengths like those of news in subwords, EOS included.

    Sources are log-normal with median 25 and sigma 0.6; a target is 1.05 times as long,
    log-normally with sigma 0.15. Both are cut at 256.

    Args:
        pairs: How many.
        seed: Of the draw.

    Returns:
        int32 `[pairs]` of sources and of targets.
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
    """Make a corpus of random tokens with these lengths, in memory.

    Args:
        source_lengths: int `[pairs]`, EOS included.
        target_lengths: int `[pairs]`, EOS included.
        seed: Of the tokens.
    """
    draw = np.random.default_rng(seed)
    sides = []
    for lengths in (source_lengths, target_lengths):
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        tokens = draw.integers(config.EOS_ID + 1, _VOCAB_SIZE, offsets[-1], np.uint16)
        tokens[offsets[1:] - 1] = config.EOS_ID
        sides.append((tokens, offsets))
    return EncodedCorpus(*sides, pad_id=config.PAD_ID)
