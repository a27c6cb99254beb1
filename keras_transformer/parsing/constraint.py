"""Which symbol may come next in a tree: the rule that makes parses well-formed.

Asked inside the beam search's step, so that only sequences are searched that
`linearise` could have written over this sentence. All is worked out from the symbols so
far; nothing is carried from step to step, so hypotheses may change slots.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from keras_transformer import config
from keras_transformer.config import check_at_least
from keras_transformer.parsing.symbols import SymbolVocabulary

# Symbols that no tree can do without, besides its words: the root's brackets and EOS.
NUM_NEEDED = 3


@dataclasses.dataclass(frozen=True)
class ConstraintConfig:
    """How far a tree may go; without limits, an untrained model only opens brackets.

    Raises:
        ValueError: If a number is below 1.
    """

    # Constituents around a word. The deepest of the Penn Treebank's sample has 28.
    max_depth: int = 64
    # Symbols in a row that open a constituent. The sample has 6 at most.
    max_openings: int = 12

    def __post_init__(self):
        check_at_least("max_depth", self.max_depth, 1)
        check_at_least("max_openings", self.max_openings, 1)


@dataclasses.dataclass(frozen=True)
class _Progress:
    """How far hypotheses are, each int32 or bool `[batch, beam]`."""

    depth: tf.Tensor  # constituents that are open
    words_left: tf.Tensor
    innermost: tf.Tensor  # the symbol that opened the innermost of them; else pad_id
    openings: tf.Tensor  # symbols in a row, up to the last, that open
    has_begun: tf.Tensor


class WellFormed:
    """The rule for a batch of sentences: brackets that match, around every word once.

    * The first symbol opens the root. What closes is the innermost open constituent,
      and only when something is in it; the root, when all words are.
    * A word comes, or a constituent opens, while words are left.
    * Nothing opens that could not be closed again within the limits.
    * After the root comes EOS alone.

    So at every step there is a symbol that may come, and every hypothesis ends with EOS
    at the latest where its length limit is.

    Args:
        vocabulary: Of the symbols.
        num_words: int32 `[batch]`, at least 1 each; 0 allows no symbol.
        max_lengths: int32 `[batch]`: symbols of an output, EOS among them; at least
            `num_words` + `NUM_NEEDED`, or a sentence has no parse.
        limits: Of depth and openings; None: no such limits.
    """

    def __init__(
        self,
        vocabulary: SymbolVocabulary,
        num_words: tf.Tensor,
        max_lengths: tf.Tensor,
        limits: ConstraintConfig | None,
    ):
        self._num_words = tf.cast(num_words, tf.int32)[:, tf.newaxis]
        self._max_lengths = tf.cast(max_lengths, tf.int32)[:, tf.newaxis]
        self._limits = limits
        size = vocabulary.vocab_size
        self._ids = tf.range(size)
        # By id: what a symbol adds to the depth.
        self._depth_of_id = np.zeros(size, np.int32)
        self._depth_of_id[vocabulary.opening_ids] = 1
        self._depth_of_id[vocabulary.closing_ids] = -1
        self._is_word_id = vocabulary.is_word

    def allowed_tokens(self, tokens: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Say which symbols may come next, in the form that `beam_search` asks for.

        Args:
            tokens: int32 `[batch, beam, max_steps]`: the symbols so far, which were
                allowed themselves, and padding after them.
            step: int32 scalar: how many they are.

        Returns:
            bool `[batch, beam, vocab]`.
        """
        now = self._progress(tokens, step)
        may_be_word = (now.depth > 0) & (now.words_left > 0)
        is_last = now.depth == 1
        may_close = (now.depth > 0) & (now.openings == 0)
        may_close &= ~is_last | (now.words_left == 0)
        may_end = now.has_begun & (now.depth == 0)
        closing = tf.where(may_close, now.innermost + 1, -1)  # follows what opens

        def where(may, is_such):
            return may[:, :, tf.newaxis] & is_such

        return (
            where(may_be_word, self._is_word_id)
            | where(self._may_open(now, step), self._depth_of_id == 1)
            | (self._ids == closing[:, :, tf.newaxis])
            | where(may_end, self._ids == config.EOS_ID)
        )

    def _may_open(self, now: _Progress, step: tf.Tensor) -> tf.Tensor:
        # With one more open, the words, what closes, and EOS are still to come.
        still_to_come = now.words_left + (now.depth + 1) + 1
        may_open = (now.words_left > 0) & ((now.depth > 0) | ~now.has_begun)
        may_open &= still_to_come <= self._max_lengths - (step + 1)
        if self._limits is None:
            return may_open
        may_open &= now.depth < self._limits.max_depth
        return may_open & (now.openings < self._limits.max_openings)

    def _progress(self, tokens: tf.Tensor, step: tf.Tensor) -> _Progress:
        # Only symbols of trees count; padding may be outside the vocabulary.
        is_past = tf.range(tf.shape(tokens)[2]) < step  # [max_steps]
        changes = tf.gather(self._depth_of_id, tf.where(is_past, tokens, 0))
        depths = tf.cumsum(changes, axis=2)  # after each symbol
        depth = tf.reduce_sum(changes, axis=2)
        is_word = tf.gather(self._is_word_id, tf.where(is_past, tokens, 0))
        num_words = tf.reduce_sum(tf.cast(is_word, tf.int32), axis=2)
        is_opening = changes > 0
        number = tf.range(1, tf.shape(tokens)[2] + 1)  # of each symbol, from 1
        # The last that opened to this depth: one before it at that depth is closed.
        opened = tf.where(is_opening & (depths == depth[:, :, tf.newaxis]), number, 0)
        place = tf.reduce_max(opened, axis=2) - 1
        innermost = tf.gather(tokens, tf.maximum(place, 0), batch_dims=2)
        other = tf.where(is_past & ~is_opening, number, 0)
        return _Progress(
            depth=depth,
            words_left=self._num_words - num_words,
            innermost=innermost,
            openings=step - tf.reduce_max(other, axis=2),
            has_begun=tf.fill(tf.shape(depth), step > 0),
        )


def is_tree(
    vocabulary: SymbolVocabulary, num_words: tf.Tensor, tokens: tf.Tensor
) -> tf.Tensor:
    """Say which sequences are a tree over their sentence, in the graph.

    Args:
        vocabulary: Of the symbols.
        num_words: int32 `[batch]`.
        tokens: int32 `[batch, max_steps]`: each ended by EOS, then padding.

    Returns:
        bool `[batch]`.
    """
    steps = tf.shape(tokens)[1]
    rule = WellFormed(vocabulary, num_words, tf.fill(tf.shape(num_words), steps), None)

    def check(step, is_right, has_ended):
        allowed = rule.allowed_tokens(tokens[:, tf.newaxis], step)[:, 0]
        is_allowed = tf.gather(allowed, tokens[:, step], batch_dims=1)
        is_right &= has_ended | is_allowed
        return step + 1, is_right, has_ended | (tokens[:, step] == config.EOS_ID)

    _, is_right, has_ended = tf.while_loop(
        lambda step, _, has_ended: (step < steps) & ~tf.reduce_all(has_ended),
        check,
        (0, tf.fill(tf.shape(num_words), True), tf.fill(tf.shape(num_words), False)),
    )
    return is_right & has_ended
