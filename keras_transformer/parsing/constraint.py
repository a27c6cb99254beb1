"""Constrained decoding: the symbols that may come next in a well-formed tree.

The beam search asks for them in every step, so it only visits sequences that
`linearise` could write for this sentence. The answer depends only on the symbols so
far; no state is kept between steps, so hypotheses may move between beam slots.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from keras_transformer import config
from keras_transformer.config import check_at_least
from keras_transformer.decoding.rules import Hypotheses
from keras_transformer.parsing.symbols import SymbolVocabulary

# Fewest symbols of a tree in addition to its words: the root's brackets and EOS.
NUM_NEEDED = 3


@dataclasses.dataclass(frozen=True)
class ConstraintConfig:
    """Limits of a tree. Without limits, an untrained model only opens brackets.

    Raises:
        ValueError: If a number is below 1.
    """

    # Constituents around a word. The maximum in the Penn Treebank's sample is 28.
    max_depth: int = 64
    # Consecutive symbols that open a constituent. The maximum in the sample is 6.
    max_openings: int = 12

    def __post_init__(self):
        check_at_least("max_depth", self.max_depth, 1)
        check_at_least("max_openings", self.max_openings, 1)


@dataclasses.dataclass(frozen=True)
class _Progress:
    """State of the hypotheses, each int32 or bool `[batch, beam]`."""

    depth: tf.Tensor  # number of open constituents
    words_left: tf.Tensor
    innermost: tf.Tensor  # symbol that opened the innermost open constituent, or pad_id
    openings: tf.Tensor  # number of consecutive opening symbols at the end
    has_begun: tf.Tensor


class WellFormed:
    """The token rule for trees: matching brackets, every word once.

    * The first symbol opens the root. A closing symbol closes the innermost open
      constituent, which must not be empty; the root closes after the last word.
    * A word, or an opening symbol, may come while words are left.
    * A constituent may open only if it can be closed within the limits.
    * After the root, only EOS may come.

    Hence every step allows at least one symbol, and every hypothesis ends with EOS
    within its length limit.

    The length limit of a sentence is at least `num_words` + `NUM_NEEDED`; else it has
    no parse.

    Args:
        vocabulary: The vocabulary of the symbols.
        limits: Limits of depth and openings; None: no limits.
    """

    def __init__(self, vocabulary: SymbolVocabulary, limits: ConstraintConfig | None):
        self._limits = limits
        size = vocabulary.vocab_size
        # By id: change of the depth by a symbol.
        self._depth_of_id = np.zeros(size, np.int32)
        self._depth_of_id[vocabulary.opening_ids] = 1
        self._depth_of_id[vocabulary.closing_ids] = -1
        self._is_word_id = vocabulary.is_word

    def __call__(
        self, hypotheses: Hypotheses, step: tf.Tensor, source: Mapping[str, tf.Tensor]
    ) -> tf.Tensor:
        """Return the symbols that may come next; see `TokenRule`.

        Args:
            hypotheses: The outputs so far, of allowed symbols.
            step: int32 scalar: number of symbols so far.
            source: "num_words", int32 `[batch]`, at least 1 each; 0 allows no symbol.

        Returns:
            bool `[batch, beam, vocab]`.
        """
        tokens, limits, ids = hypotheses
        progress = self._progress(tokens, step, source["num_words"])
        steps_left = limits[:, tf.newaxis] - step
        may_be_word = (progress.depth > 0) & (progress.words_left > 0)
        is_root = progress.depth == 1
        may_close = (progress.depth > 0) & (progress.openings == 0)
        may_close &= ~is_root | (progress.words_left == 0)
        may_end = progress.has_begun & (progress.depth == 0)
        # A closing id follows its opening id.
        closing = tf.where(may_close, progress.innermost + 1, -1)

        def allow_if(condition, ids):
            return condition[:, :, tf.newaxis] & ids

        return (
            allow_if(may_be_word, self._is_word_id)
            | allow_if(self._may_open(progress, steps_left), self._depth_of_id == 1)
            | (ids == closing[:, :, tf.newaxis])
            | allow_if(may_end, ids == config.EOS_ID)
        )

    def _may_open(self, progress: _Progress, steps_left: tf.Tensor) -> tf.Tensor:
        # Symbols needed after one more opening: words, closing symbols, EOS.
        num_needed = progress.words_left + (progress.depth + 1) + 1
        may_open = (progress.words_left > 0) & (
            (progress.depth > 0) | ~progress.has_begun
        )
        may_open &= num_needed < steps_left
        if self._limits is None:
            return may_open
        may_open &= progress.depth < self._limits.max_depth
        return may_open & (progress.openings < self._limits.max_openings)

    def _progress(
        self, tokens: tf.Tensor, step: tf.Tensor, words: tf.Tensor
    ) -> _Progress:
        # Ignore padding, which may be outside the vocabulary.
        is_past = tf.range(tf.shape(tokens)[2]) < step  # [max_steps]
        changes = tf.gather(self._depth_of_id, tf.where(is_past, tokens, 0))
        depths = tf.cumsum(changes, axis=2)  # after each symbol
        depth = tf.reduce_sum(changes, axis=2)
        is_word = tf.gather(self._is_word_id, tf.where(is_past, tokens, 0))
        num_words = tf.reduce_sum(tf.cast(is_word, tf.int32), axis=2)
        is_opening = changes > 0
        number = tf.range(1, tf.shape(tokens)[2] + 1)  # of each symbol, from 1
        # The last symbol that opened a constituent at the current depth; earlier ones
        # at this depth are closed.
        opened = tf.where(is_opening & (depths == depth[:, :, tf.newaxis]), number, 0)
        index = tf.reduce_max(opened, axis=2) - 1
        innermost = tf.gather(tokens, tf.maximum(index, 0), batch_dims=2)
        other = tf.where(is_past & ~is_opening, number, 0)
        return _Progress(
            depth=depth,
            words_left=words[:, tf.newaxis] - num_words,
            innermost=innermost,
            openings=step - tf.reduce_max(other, axis=2),
            has_begun=tf.fill(tf.shape(depth), step > 0),
        )


def is_tree(
    vocabulary: SymbolVocabulary, num_words: tf.Tensor, tokens: tf.Tensor
) -> tf.Tensor:
    """Return which sequences are a tree over their sentence, in the graph.

    Args:
        vocabulary: The vocabulary of the symbols.
        num_words: int32 `[batch]`.
        tokens: int32 `[batch, max_steps]`: each with EOS at the end, then padding.

    Returns:
        bool `[batch]`.
    """
    steps = tf.shape(tokens)[1]
    limits = tf.fill(tf.shape(num_words), steps)
    ids = tf.range(vocabulary.vocab_size)
    hypotheses = Hypotheses(tokens[:, tf.newaxis], limits, ids)
    rule = WellFormed(vocabulary, None)

    def check(step, is_valid, has_ended):
        allowed = rule(hypotheses, step, {"num_words": num_words})[:, 0]
        is_allowed = tf.gather(allowed, tokens[:, step], batch_dims=1)
        is_valid &= has_ended | is_allowed
        return step + 1, is_valid, has_ended | (tokens[:, step] == config.EOS_ID)

    _, is_valid, has_ended = tf.while_loop(
        lambda step, _, has_ended: (step < steps) & ~tf.reduce_all(has_ended),
        check,
        (0, tf.fill(tf.shape(num_words), True), tf.fill(tf.shape(num_words), False)),
    )
    return is_valid & has_ended
