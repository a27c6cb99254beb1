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
    lengths = np.maximum(
        _lengths(tokenizer.encode(list(sources))),
        _lengths(tokenizer.encode_target(list(references))),
    )
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
            yield (
                tokenizer.encode_rows([sources[index] for index in picked]),
                tokenizer.encode_rows([references[index] for index in picked], True),
            )

    spec = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=(spec, spec))
    dataset = dataset.apply(
        tf.data.experimental.assert_cardinality(-(-len(order) // _ROWS))
    )
    return float(model.evaluate(dataset, return_dict=True, verbose=0)["perplexity"])


def _lengths(encoded):
    """Return the tokens of each text with EOS, int `[texts]`."""
    return np.array([len(tokens) + 1 for tokens in encoded])
