"""Scores of hypotheses: token log probabilities and the length penalty, §6.1."""

from __future__ import annotations

import math

import tensorflow as tf

from keras_transformer.config import DecodingConfig

# Log probability and score of impossible or absent hypotheses. Finite, because sums
# and differences of infinities give NaN; no real hypothesis comes near it.
NEGATIVE_INFINITY = -1e7

# Approximate tokens per block in `top_continuations`. Of the divisors of 37,000, 40 and
# 74 were the fastest on two CPU cores.
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

    Examples:
        >>> kt.decoding.length_penalty(tf.constant([1, 7]), alpha=1.0).numpy().tolist()
        [1.0, 2.0]
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


def log_totals(logits: tf.Tensor, for_xla: bool = False) -> tf.Tensor:
    """Return the log of the sum of exponentials: a token's logit minus its log p.

    It follows from the probability of one token, the likeliest. On two CPU cores
    softmax takes half the time of `tf.reduce_logsumexp`. XLA would compute all
    exponentials twice for it.

    Args:
        logits: float32 `[batch, beam, vocab]`.
        for_xla: Whether XLA compiles this.

    Returns:
        float32 `[batch, beam]`; NaN for invalid logits (NaN, +inf, all -inf).
    """
    if for_xla:
        largest = tf.reduce_max(logits, axis=-1)
        exponentials = tf.exp(logits - largest[:, :, tf.newaxis])
        return largest + tf.math.log(tf.reduce_sum(exponentials, axis=-1))
    largest, probability = (
        tf.reduce_max(values, axis=-1) for values in (logits, tf.nn.softmax(logits))
    )
    return largest - tf.math.log(probability)


def top_continuations(
    before: tf.Tensor, choices: tf.Tensor, count: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the `count` likeliest continuations over all hypotheses of a sentence.

    Equal to `tf.math.top_k` over all log probabilities, including ties (the first slot
    comes first, then the lower id), in two stages: the best token of each block of ids,
    then the tokens of the `count` best blocks. Other blocks cannot hold a result,
    because `count` blocks have a better token. `top_k` takes most of the time, and in
    two stages it reads hundreds of numbers for a sentence instead of thousands.

    Args:
        before: float32 `[batch, beam]`. What a token's logit is added to: the log
            probability of the hypothesis so far, less `log_totals`. NaN: nothing is
            possible.
        choices: float32 `[batch, beam, vocab]`. Logits, -inf for tokens that are not
            allowed.
        count: At least 1.

    Returns:
        float32 log probabilities of the longer hypotheses, largest first and
        NEGATIVE_INFINITY if impossible; int32 slots of the hypotheses; and int32 ids of
        the appended tokens. All `[batch, count]`.
    """
    blocks = _in_blocks(choices, count)  # [batch * beam, num_blocks, size]
    num_blocks = blocks.shape[1] or tf.shape(blocks)[1]  # of a slot
    all_blocks = num_blocks * (before.shape[1] or tf.shape(before)[1])  # of a sentence
    best = tf.reduce_max(blocks, axis=2) + tf.reshape(before, [-1, 1])
    best = tf.reshape(possible(best), [-1, all_blocks])
    kept = tf.math.top_k(best, tf.minimum(count, all_blocks)).indices
    # Sorted, so that the second `top_k` also takes the first of equals.
    kept = tf.sort(kept, axis=1)  # [batch, num_kept]

    num_kept, size = kept.shape[1] or tf.shape(kept)[1], blocks.shape[2]
    blocks = tf.reshape(blocks, [-1, all_blocks, size])
    log_probs = tf.gather(blocks, kept, batch_dims=1)  # [batch, num_kept, size]
    log_probs += tf.gather(before, kept // num_blocks, batch_dims=1)[:, :, tf.newaxis]
    log_probs = tf.reshape(possible(log_probs), [-1, num_kept * size])
    log_probs, positions = tf.math.top_k(log_probs, count)
    block = tf.gather(kept, positions // size, batch_dims=1)
    tokens = block % num_blocks * size + positions % size
    # An impossible one may be of the filler behind the last token.
    last = (choices.shape[2] or tf.shape(choices)[2]) - 1
    return log_probs, block // num_blocks, tf.minimum(tokens, last)


def possible(log_probs: tf.Tensor) -> tf.Tensor:
    """Return log probabilities, NEGATIVE_INFINITY for NaN and probability 0."""
    return tf.where(is_possible(log_probs), log_probs, NEGATIVE_INFINITY)


def _in_blocks(values: tf.Tensor, least: int) -> tf.Tensor:
    """[batch, beam, vocab] -> [batch * beam, blocks, size], filled up with -inf.

    `size` is at least `least`.
    """
    vocab_size = values.shape[2] or tf.shape(values)[2]
    size = _block_size(values.shape[2], least)
    filler = -vocab_size % size
    if tf.is_tensor(filler) or filler:
        ends = [[0, 0], [0, 0], [0, filler]]
        values = tf.pad(values, ends, constant_values=-math.inf)
    return tf.reshape(values, [-1, (vocab_size + filler) // size, size])


def _block_size(vocab_size: int | None, least: int) -> int:
    """Return a divisor of the vocabulary near `_BLOCK_SIZE`, or else that.

    With a divisor the logits need no padding, which would copy all of them.
    """
    wanted = max(_BLOCK_SIZE, least)
    near = range(max(_BLOCK_SIZE // 2, least), 2 * wanted + 1)
    divisors = [size for size in near if vocab_size and vocab_size % size == 0]
    return min(divisors, key=lambda size: abs(size - wanted), default=wanted)
