"""Rules against tokens that repeat what their hypothesis has."""

from __future__ import annotations

import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding.rules.token_rule import TokenRule

# Most tokens of a phrase whose repetitions `max_repetitions` bounds.
_LONGEST_PHRASE = 8


def rules_of(config: DecodingConfig) -> list[TokenRule]:
    """Return the rules for `no_repeat_ngram_size` and `max_repetitions`, where set.

    They never rule out EOS, so every hypothesis can end.
    """
    wanted = [
        (repeated_ngrams, config.no_repeat_ngram_size),
        (repeated_phrases, config.max_repetitions),
    ]
    return [_without(repeated, number) for repeated, number in wanted if number]


def _without(repeated, number: int) -> TokenRule:
    """Rule out the tokens that `repeated` returns."""

    def rule(hypotheses, step, source):
        del source
        tokens, vocab = hypotheses.tokens, hypotheses.ids
        found = repeated(tokens, step, number)
        return ~_as_mask(*found, vocab.shape[0] or tf.size(vocab))

    return rule


def repeated_ngrams(
    tokens: tf.Tensor, step: tf.Tensor, size: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the tokens that would complete an n-gram the hypothesis already has.

    These are the tokens that followed earlier occurrences of its last `size` - 1
    tokens.

    Args:
        tokens: int32 `[batch, beam, max_steps]`: the tokens so far, then padding.
        step: int32 scalar: number of tokens so far.
        size: n, at least 1.

    Returns:
        Ids, int32 `[batch, beam, max_steps]`, and whether they are such tokens, bool.
    """
    before = tf.range(1 - size, 0)  # positions of n - 1 tokens, relative to the next
    ends = tf.range(tf.shape(tokens)[2])  # position of the last token of each n-gram
    # -> [batch, beam, max_steps, size - 1]; too early positions are excluded below
    beginnings = tf.gather(tokens, tf.maximum(ends[:, tf.newaxis] + before, 0), axis=2)
    last = tf.gather(tokens, tf.maximum(step + before, 0), axis=2)
    is_repeat = tf.reduce_all(beginnings == last[:, :, tf.newaxis], axis=3)
    return tokens, is_repeat & (ends >= size - 1) & (ends < step)


def repeated_phrases(
    tokens: tf.Tensor, step: tf.Tensor, most: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the tokens that would complete a phrase once more than `most` in a row.

    With the last tokens they would be `most` + 1 times the same phrase of 1 to 8
    tokens, with nothing in between.

    Args:
        tokens: Same as in `repeated_ngrams`.
        step: Same as in `repeated_ngrams`.
        most: Most repetitions in a row, at least 1.

    Returns:
        Ids, int32 `[batch, beam, 8]`, and whether they are such tokens, bool.
    """
    ids, are_repeats = [], []
    for size in range(1, _LONGEST_PHRASE + 1):
        # Each of the last tokens equals the one a phrase before it.
        last = step - tf.range(1, most * size)
        pair = (
            tf.gather(tokens, tf.maximum(positions, 0), axis=2)
            for positions in (last, last - size)
        )
        is_repeat = tf.reduce_all(tf.equal(*pair), axis=2)
        are_repeats.append(is_repeat & (step >= (most + 1) * size - 1))
        ids.append(tokens[:, :, tf.maximum(step - size, 0)])
    return tf.stack(ids, axis=2), tf.stack(are_repeats, axis=2)


def _as_mask(
    ids: tf.Tensor, are_ruled_out: tf.Tensor, vocab_size: int | tf.Tensor
) -> tf.Tensor:
    """Return bool `[batch, beam, vocab]` from ids `[batch, beam, count]`."""
    # Padding, also that of a sentence which is done, may be outside the vocabulary.
    ids = tf.clip_by_value(ids, 0, vocab_size - 1)
    batch, beam_size, count = tf.unstack(tf.shape(ids))
    rows = tf.repeat(tf.range(batch * beam_size), count)
    counts = tf.scatter_nd(
        tf.stack([rows, tf.reshape(ids, [-1])], axis=1),
        tf.reshape(tf.cast(are_ruled_out, tf.int32), [-1]),
        [batch * beam_size, vocab_size],
    )
    return tf.reshape(counts > 0, [batch, beam_size, vocab_size])
