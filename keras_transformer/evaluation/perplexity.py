"""Perplexity of references under a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_transformer.inference.translator import Translator

_ROWS = 64


def reference_perplexity(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    max_length: int = 1024,
) -> float:
    """Measure exp of the mean negative log-likelihood of the references' subwords.

    EOS counts as a subword. As in Table 3, the value depends on the vocabulary and must
    not be compared with perplexities per word.

    Args:
        translator: The model, or the models of an ensemble, and their tokenizer.
        sources: Source texts.
        references: Their reference translations.
        max_length: Pairs with more tokens on a side are left out, and pairs that have
            more than a model has positions for.

    Raises:
        ValueError: If no pair is left.
    """
    tokenizer = translator.tokenizer
    max_length = min(max_length, translator.ensemble.num_positions or max_length)
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

    rows = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[rows, rows], autograph=False)
    def log_probs(source, target):
        outputs, _ = translator.ensemble.decode(source, target)
        return tf.reduce_sum(translator.ensemble.token_log_probs(outputs, target))

    total, num_tokens = 0.0, 0
    for start in range(0, len(order), _ROWS):
        picked = order[start : start + _ROWS]
        source = tokenizer.encode_rows([sources[index] for index in picked])
        target = tokenizer.encode_rows([references[index] for index in picked], True)
        total += float(log_probs(source, target))
        num_tokens += int(np.sum(target != tokenizer.pad_id))
    with np.errstate(over="ignore"):  # infinite if the training diverged
        return float(np.exp(-total / num_tokens))


def _lengths(encoded):
    """Return the tokens of each text with EOS, int `[texts]`."""
    return np.array([len(tokens) + 1 for tokens in encoded])
