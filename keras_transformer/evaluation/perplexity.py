"""Perplexity of references under a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_ROWS = 64


def reference_perplexity(
    model: Any,
    tokenizer: Any,
    sources: Sequence[str],
    references: Sequence[str],
    max_length: int = 1024,
) -> float:
    """Measure exp of the mean negative log-likelihood of the references' subwords.

    EOS counts as a subword. As in Table 3, the figure depends on the vocabulary and is
    not to be compared with perplexities per word.

    Args:
        model: A compiled model; its `evaluate` reports `perplexity`.
        tokenizer: The model's.
        sources: One text each.
        references: What each is translated to.
        max_length: Pairs with more tokens on a side are left out.

    Raises:
        ValueError: If no pair is left.
    """
    rows = [
        _with_eos(tokenizer, tokenizer.encode(list(texts)))
        for texts in (sources, references)
    ]
    lengths = np.array([max(map(len, pair)) for pair in zip(*rows, strict=True)])
    kept = np.flatnonzero(lengths <= max_length)
    if not len(kept):
        raise ValueError(
            f"No pair has at most {max_length} tokens on each side: there is no "
            "perplexity to measure."
        )
    order = kept[np.argsort(lengths[kept], kind="stable")]

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(order), _ROWS):
            picked = order[start : start + _ROWS]
            yield tuple(_padded(side, picked, model.config.pad_id) for side in rows)

    spec = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=(spec, spec))
    return float(model.evaluate(dataset, return_dict=True, verbose=0)["perplexity"])


def _with_eos(tokenizer, encoded):
    return [np.append(tokens, tokenizer.eos_id).astype(np.int32) for tokens in encoded]


def _padded(rows, picked, pad_id):
    length = max(len(rows[index]) for index in picked)
    padded = np.full((len(picked), length), pad_id, np.int32)
    for place, index in enumerate(picked):
        padded[place, : len(rows[index])] = rows[index]
    return padded
