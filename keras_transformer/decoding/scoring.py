"""Scores of hypotheses: token log probabilities and the length penalty, §6.1."""

from __future__ import annotations

import math

import tensorflow as tf

from keras_transformer.config import DecodingConfig

# Log probability and score of impossible or absent hypotheses. Finite, because sums
# and differences of infinities give NaN; no real hypothesis comes near it.
NEGATIVE_INFINITY = -1e7

# Approximate tokens per block in `top_tokens`. Of the divisors of 37,000, 40 and 74
# were the fastest on two CPU cores.
_BLOCK_SIZE = 64


def length_penalty(lengths: tf.Tensor, alpha: float, kind: str = "wu") -> tf.Tensor:
    """Return the number by which a log probability is divided.

    "wu" is ((5 + length) / 6) ** alpha, from

    Wu et al. 2016, "Google's Neural Machine Translation System", Eq. 14; the paper
    uses alpha = 0.6 (§6.1) and 0.3 for parsing (§6.3). It is 1 at length 1, and at any
    length for alpha = 0.

    Args:
        lengths: int or float, any shape. Tokens of the output with EOS, without BOS.
        alpha: 0 or more; larger values favour longer outputs.
        kind: "wu", or "power" for length ** alpha, as in Marian.

    Returns:
        float32, shape of `lengths`.
    """
    lengths = tf.cast(lengths, tf.float32)
    return tf.pow(lengths if kind == "power" else (5.0 + lengths) / 6.0, alpha)


def normalized_scores(
    log_probs: tf.Tensor, lengths: tf.Tensor, config: DecodingConfig
) -> tf.Tensor:
    """Return log_probs / length penalty; impossible ones stay NEGATIVE_INFINITY.

    Args:
        log_probs: float32, any shape. Sums of log p over the tokens.
        lengths: int32, broadcasts against `log_probs`.
        config: `length_penalty` and `length_penalty_alpha` are read.

    Returns:
        float32, shape of `log_probs`.
    """
    penalty = length_penalty(
        lengths, config.length_penalty_alpha, config.length_penalty
    )
    scores = log_probs / penalty
    return tf.where(is_possible(log_probs), scores, NEGATIVE_INFINITY)


def is_possible(log_probs: tf.Tensor) -> tf.Tensor:
    """Return True where a hypothesis is real: False for NaN and probability 0."""
    return log_probs > NEGATIVE_INFINITY


def extended_log_probs(
    log_probs: tf.Tensor,
    token_logits: tf.Tensor,
    logits: tf.Tensor,
    likeliest: tf.Tensor,
) -> tf.Tensor:
    """Return the log probabilities of hypotheses with one more token.

    Computes log-softmax for the appended tokens only. The log of the sum of
    exponentials follows from the probability of one token, the likeliest: its logit
    minus its log probability. On two CPU cores softmax takes half the time of
    `tf.reduce_logsumexp`.

    Args:
        log_probs: float32 `[batch, beam]`. Log probabilities of the hypotheses so far.
        token_logits: float32 `[batch, beam, count]`. Logits of the tokens to append.
        logits: float32 `[batch, beam, vocab]`. Logits of the whole vocabulary.
        likeliest: int32 `[batch, beam]`. The token with the largest logit.

    Returns:
        float32 `[batch, beam, count]`; NEGATIVE_INFINITY for tokens of probability 0
        and for all tokens after invalid logits (NaN, +inf, all -inf).
    """
    largest, probability = (
        tf.gather(values, likeliest[:, :, tf.newaxis], batch_dims=2)
        for values in (logits, tf.nn.softmax(logits))
    )
    log_total = largest - tf.math.log(probability)  # [batch, beam, 1]
    longer = log_probs[:, :, tf.newaxis] + (token_logits - log_total)
    return tf.where(is_possible(longer), longer, NEGATIVE_INFINITY)


def top_tokens(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the `count` largest logits of each row, and their ids.

    Equal to `tf.math.top_k`, including ties (the lower id comes first), in two stages:
    the largest logit of each block of ids, then the ids of the `count` best blocks.
    Other blocks cannot hold a result, because `count` blocks have a larger logit. On
    two CPU cores this takes a fifth of the time (37,000 words, count 8).

    Args:
        logits: float32 `[batch, beam, vocab]`. If vocab is unknown when the graph is
            built, as with a shortlist, there is a single stage.
        count: At most vocab.

    Returns:
        float32 logits and int32 ids, both `[batch, beam, count]`, largest first.
    """
    vocab_size = logits.shape[-1]
    if vocab_size is None:
        return tf.math.top_k(logits, count)
    block_size = _block_size(vocab_size)
    num_blocks = -(-vocab_size // block_size)
    if num_blocks <= 2 * count:
        return tf.math.top_k(logits, count)
    rows = tf.shape(logits)[:2]
    filler = num_blocks * block_size - vocab_size
    if filler:
        logits = tf.pad(
            logits, [[0, 0], [0, 0], [0, filler]], constant_values=-math.inf
        )
    # -> [batch, beam, num_blocks, block]
    blocks = tf.reshape(logits, tf.concat([rows, [num_blocks, block_size]], axis=0))
    best_blocks = tf.math.top_k(tf.reduce_max(blocks, axis=-1), count).indices
    # Sorted by id, so that the second top_k also breaks ties by the lower id.
    best_blocks = tf.sort(best_blocks, axis=-1)  # [batch, beam, count]
    kept = tf.gather(blocks, best_blocks, batch_dims=2)  # [batch, beam, count, block]
    ids = best_blocks[..., tf.newaxis] * block_size + tf.range(block_size)
    flat = tf.concat([rows, [count * block_size]], axis=0)
    values, positions = tf.math.top_k(tf.reshape(kept, flat), count)
    return values, tf.gather(tf.reshape(ids, flat), positions, batch_dims=2)


def _block_size(vocab_size: int) -> int:
    """Return a divisor of the vocabulary near `_BLOCK_SIZE`, else `_BLOCK_SIZE`.

    With a divisor the logits need no padding, which would copy all of them.
    """
    near = range(_BLOCK_SIZE // 2, 2 * _BLOCK_SIZE + 1)
    divisors = [size for size in near if vocab_size % size == 0]
    return min(divisors, key=lambda size: abs(size - _BLOCK_SIZE), default=_BLOCK_SIZE)
