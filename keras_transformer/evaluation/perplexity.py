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

    EOS counts as a subword. As in Table 3, the value depends on the vocabulary and must
    not be compared with perplexities per word.

    Args:
        model: A compiled model; its `evaluate` reports `perplexity`.
        tokenizer: The model's tokenizer.
        sources: Source texts.
        references: Their reference translations.
        max_length: Pairs with more tokens on a side are left out.

    Raises:
        ValueError: If no pair is left.
    """
    lengths = np.maximum(*(_lengths(tokenizer, side) for side in (sources, references)))
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
            yield tuple(
                tokenizer.encode_rows([side[index] for index in picked])
                for side in (sources, references)
            )

    spec = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=(spec, spec))
    dataset = dataset.apply(
        tf.data.experimental.assert_cardinality(-(-len(order) // _ROWS))
    )
    return float(model.evaluate(dataset, return_dict=True, verbose=0)["perplexity"])


def _lengths(tokenizer, texts):
    """Return the tokens of each text, EOS included, int `[len(texts)]`."""
    return np.array([len(tokens) + 1 for tokens in tokenizer.encode(list(texts))])
