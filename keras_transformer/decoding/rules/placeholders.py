"""The rule that keeps the placeholders of a source in its translation.

Placeholders stand for what must not change, such as addresses and tags. A search with
this rule gives each one of the source once, and tags in pairs that are nested.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.config import CLOSING_TAG, OPENING_TAG, PLACEHOLDER
from keras_transformer.decoding.rules.token_rule import Hypotheses


class _Progress(NamedTuple):
    """What of a hypothesis decides how it may go on; int32."""

    # How often each symbol must still come, [batch, beam, symbols].
    missing: tf.Tensor
    # Number of the opening tag that must be closed first, negative if there is none,
    # [batch, beam].
    innermost: tf.Tensor


class KeptPlaceholders:
    """The rule that every placeholder is kept.

    Each placeholder comes as often as in the source, and so do tags, in pairs. A tag is
    closed before those that were opened earlier. A hypothesis ends after the last
    placeholder, and others wait if the length limit leaves room for no more.

    Args:
        ids: Ids of the symbols by name: `PLACEHOLDER`, `OPENING_TAG` and `CLOSING_TAG`
            with numbers. A tag whose partner is absent is an ordinary token.
        vocab_size: Number of ids.
        eos_id: Id that ends a hypothesis.
    """

    def __init__(self, ids: Mapping[str, int], vocab_size: int, eos_id: int):
        single = [ids[name] for name in _names(ids, PLACEHOLDER)]
        pairs = [
            (ids[name], ids[closing])
            for number, name in enumerate(_names(ids, OPENING_TAG), start=1)
            if (closing := CLOSING_TAG.format(number)) in ids
        ]
        self._num_single, self._num_pairs = len(single), len(pairs)
        # Symbols have numbers from 1: placeholders, opening tags, closing tags.
        symbols = [*single, *(pair[0] for pair in pairs), *(pair[1] for pair in pairs)]
        self._num_symbols = len(symbols)
        self._number_of_id = np.zeros(vocab_size, np.int32)
        self._number_of_id[symbols] = np.arange(1, len(symbols) + 1)
        change = [0] * (1 + len(single)) + [1] * len(pairs) + [-1] * len(pairs)
        self._depth_of_number = np.array(change, np.int32)
        # Columns of the answer: other tokens, symbols, EOS.
        self._column_of_id = self._number_of_id.copy()
        self._column_of_id[eos_id] = len(symbols) + 1

    def wanted(self, source: tf.Tensor, prefix: tf.Tensor) -> tf.Tensor:
        """Return how often each symbol must come, int32 `[batch, symbols]`.

        Args:
            source: int32 `[batch, source_length]`.
            prefix: int32 `[batch, prefix_length]`: forced tokens, whose symbols come
                whatever the source has.
        """
        counts = self._counts(self._numbers(source))
        # Of tags, only pairs.
        singles = counts[:, : self._num_single]
        opening, closing = tf.split(counts[:, self._num_single :], 2, axis=1)
        pairs = tf.minimum(opening, closing)
        forced = self._counts(self._numbers(prefix))
        return tf.maximum(tf.concat([singles, pairs, pairs], axis=1), forced)

    def __call__(
        self, hypotheses: Hypotheses, step: tf.Tensor, source: Mapping[str, tf.Tensor]
    ) -> tf.Tensor:
        """Return the tokens that may come next; see `TokenRule`.

        Args:
            hypotheses: The outputs so far.
            step: int32 scalar: number of tokens so far.
            source: With the result of `wanted` under that name.

        Returns:
            bool `[batch, beam, vocab]`.
        """
        tokens, limits, ids = hypotheses
        progress = self._progress(tokens, step, source["wanted"])
        num_missing = tf.reduce_sum(progress.missing, axis=2)
        is_complete = num_missing == 0
        num_left = limits[:, tf.newaxis] - step
        # EOS too needs a step.
        may_be_other = is_complete | (num_left > num_missing + 1)
        number = tf.range(1, self._num_symbols + 1)
        closing = progress.innermost[:, :, tf.newaxis] + self._num_pairs
        is_in_order = (self._depth_of_number[1:] >= 0) | (number == closing)
        columns = [
            may_be_other[:, :, tf.newaxis],
            (progress.missing > 0) & is_in_order,
            is_complete[:, :, tf.newaxis],
        ]
        column_of_id = tf.gather(self._column_of_id, ids)
        return tf.gather(tf.concat(columns, axis=2), column_of_id, axis=2)

    def _progress(self, tokens, step, wanted):
        positions = tf.range(1, tf.shape(tokens)[2] + 1)
        # Padding may be outside the vocabulary.
        numbers = self._numbers(tf.where(positions <= step, tokens, -1))
        batch, beam_size, max_steps = tf.unstack(tf.shape(tokens))
        counts = self._counts(tf.reshape(numbers, [batch * beam_size, max_steps]))
        counts = tf.reshape(counts, [batch, beam_size, self._num_symbols])
        changes = tf.gather(self._depth_of_number, numbers)
        depth = tf.reduce_sum(changes, axis=2, keepdims=True)
        # The last tag that was opened at this depth; earlier ones are closed.
        is_at_depth = (changes > 0) & (tf.cumsum(changes, axis=2) == depth)
        last = tf.reduce_max(tf.where(is_at_depth & (depth > 0), positions, 0), axis=2)
        innermost = tf.gather(numbers, tf.maximum(last - 1, 0), batch_dims=2)
        # No symbol has a number as small as what replaces "none".
        none = -self._num_symbols
        return _Progress(
            missing=tf.maximum(wanted[:, tf.newaxis] - counts, 0),
            innermost=tf.where(last > 0, innermost, none),
        )

    def _numbers(self, tokens):
        """Return the number of each token that is a symbol, 0 for others."""
        is_id = (tokens >= 0) & (tokens < len(self._number_of_id))
        return tf.gather(self._number_of_id, tf.where(is_id, tokens, 0)) * tf.cast(
            is_id, tf.int32
        )

    def _counts(self, numbers):
        """Return how often each symbol is in each row, int32 `[rows, symbols]`."""
        num_rows, length = tf.unstack(tf.shape(numbers))
        rows = tf.repeat(tf.range(num_rows), length)
        counts = tf.scatter_nd(
            tf.stack([rows, tf.reshape(numbers, [-1])], axis=1),
            tf.ones_like(rows),
            [num_rows, self._num_symbols + 1],
        )
        return counts[:, 1:]


def _names(ids: Mapping[str, int], form: str) -> Iterator[str]:
    """Yield the names of a form, with numbers from 1 on, as far as they have ids."""
    names = (form.format(number) for number in itertools.count(1))
    return itertools.takewhile(ids.__contains__, names)
