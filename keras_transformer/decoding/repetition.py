"""Which tokens would repeat an n-gram of their hypothesis."""

from __future__ import annotations

import tensorflow as tf


def repeats_ngram(
    tokens: tf.Tensor, step: tf.Tensor, size: int, vocab_size: int
) -> tf.Tensor:
    """Return the tokens that would complete an n-gram the hypothesis already has.

    These are the tokens that followed earlier occurrences of its last `size` - 1
    tokens. EOS is never one of them, so every hypothesis can end.

    Args:
        tokens: int32 `[batch, beam, max_steps]`: the tokens so far, then padding.
        step: int32 scalar: number of tokens so far.
        size: n, at least 1.
        vocab_size: Number of ids.

    Returns:
        bool `[batch, beam, vocab]`.
    """
    before = tf.range(1 - size, 0)  # positions of n - 1 tokens, relative to the next
    ends = tf.range(tf.shape(tokens)[2])  # position of the last token of each n-gram
    # -> [batch, beam, max_steps, size - 1]; too early positions are excluded below
    beginnings = tf.gather(tokens, tf.maximum(ends[:, tf.newaxis] + before, 0), axis=2)
    last = tf.gather(tokens, tf.maximum(step + before, 0), axis=2)
    is_repeat = tf.reduce_all(beginnings == last[:, :, tf.newaxis], axis=3)
    is_repeat &= (ends >= size - 1) & (ends < step)  # [batch, beam, max_steps]
    # Padding, also that of a sentence which is done, may be outside the vocabulary.
    ids = tf.clip_by_value(tokens, 0, vocab_size - 1)
    batch, beam_size, max_steps = tf.unstack(tf.shape(tokens))
    rows = tf.repeat(tf.range(batch * beam_size), max_steps)
    counts = tf.scatter_nd(
        tf.stack([rows, tf.reshape(ids, [-1])], axis=1),
        tf.reshape(tf.cast(is_repeat, tf.int32), [-1]),
        [batch * beam_size, vocab_size],
    )
    return tf.reshape(counts > 0, [batch, beam_size, vocab_size])
