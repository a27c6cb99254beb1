"""Guided alignment: a loss that teaches attention where to look.

"Guided Alignment Training for Topic-Aware Neural Machine Translation" (Chen et al.
2016) adds to the loss a distance between attention and a known alignment of the words.
In translation the alignment comes with the corpus, from a program that aligns words;
afterwards the attention of one head aligns the words of translations.
In parsing the alignment is exact: at each step the next word of the sentence is known.
Without this loss the decoder must learn to count symbols, for which thousands of trees
are not enough.

Differs from the paper, which has no such loss. It changes only the training; model and
search are the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.config import SPACE
from keras_transformer.parsing.symbols import SymbolVocabulary
from keras_transformer.tokenization.sentence_piece import SentencePieceTokenizer

Tensor = Any

# Keeps the logarithm finite.
_SMALLEST = 1e-6


class AlignmentGuide:
    """A loss on the attention of one head that does not look at aligned tokens.

    "Jointly Learning to Align and Translate with Transformer Models" (Garg et al.
    2019): the cross-entropy between equal weights on the source tokens that are aligned
    with a target token, and the attention that predicts this token. Target tokens
    without alignment have no loss.

    Args:
        weight: Factor on this loss, above 0; the loss of the tokens has factor 1.
        head: Layer of the decoder and its head, from 0.
    """

    takes_alignment = True

    def __init__(self, weight: float, head: tuple[int, int]):
        self.weight = weight
        self.head = head

    def token_losses(
        self, batch: tuple[Tensor, Tensor, Tensor], cross_weights: Sequence[Tensor]
    ) -> Tensor:
        """Return the loss of each target token.

        Args:
            batch: Source, target, and which source tokens each target token is aligned
                with, bool `[batch, target_length, source_length]`.
            cross_weights: As in `NextWordGuide.token_losses`.

        Returns:
            float32 `[batch, target_length]` in nats.
        """
        layer, head = self.head
        weights = tf.cast(cross_weights[layer][:, head], tf.float32)
        aligned = tf.cast(batch[2], tf.float32)
        missed = -tf.reduce_sum(aligned * tf.math.log(weights + _SMALLEST), axis=-1)
        number = tf.reduce_sum(aligned, axis=-1)
        return self.weight * tf.math.divide_no_nan(missed, number)


class NextWordGuide:
    """A loss on a parser's attention that does not look at the next word.

    The first head of each decoder layer's encoder-decoder attention should look at the
    tokens of the next word, and at EOS after the last word. The loss is the negative
    logarithm of its weights there.

    Args:
        weight: Factor on this loss, above 0; the loss of the symbols has factor 1.
        tokenizer: Tokenizer of the sentences.
        vocabulary: Symbols of the trees.

    Raises:
        ValueError: If the tokens do not mark where words begin.
    """

    def __init__(
        self, weight: float, tokenizer: Any, vocabulary: SymbolVocabulary
    ) -> None:
        if not isinstance(tokenizer, SentencePieceTokenizer):
            raise ValueError(
                "`guided_alignment` needs tokens that tell where words begin, as "
                f"those of --tokenizer=bpe do. Received: {tokenizer.kind}. Prepare "
                "the data with --tokenizer=bpe, or set --guided_alignment=0."
            )
        self.weight = weight
        pieces = tokenizer.pieces(tf.range(tokenizer.vocab_size)[tf.newaxis])
        self._begins = np.array(
            [piece.decode().startswith(SPACE) for piece in pieces.numpy()[0]]
        )
        # Padding begins words of its own, so that it is not part of EOS.
        self._begins[[tokenizer.eos_id, tokenizer.pad_id]] = True
        self._is_word = vocabulary.is_word

    def check(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Raise unless sources have as many words as their trees.

        A few may differ, because a tokenizer replaces a no-break space by a space.

        Args:
            pairs: Token ids of sources and of targets, EOS at the end of each.

        Raises:
            ValueError: If more than a tenth differ: the tokens do not mark words.
        """
        num_other = sum(
            # EOS counts as the beginning of a word, but is none.
            self._begins[source].sum() - 1 != self._is_word[target].sum()
            for source, target in pairs
        )
        if 10 * num_other > len(pairs):
            raise ValueError(
                "`guided_alignment` needs tokens that tell where words begin. "
                f"Received: {num_other:,} of {len(pairs):,} sentences have another "
                "number of words than of tokens that begin with SentencePiece's "
                "space. Prepare the data with --tokenizer=bpe and without "
                "--tokenizer_model, or set --guided_alignment=0."
            )

    def token_losses(
        self, batch: tuple[Tensor, Tensor], cross_weights: Sequence[Tensor]
    ) -> Tensor:
        """Return the loss of each symbol, the mean over the layers.

        Args:
            batch: Source, int32 `[batch, source_length]`, EOS at the end, then padding;
                and target, int32 `[batch, target_length]`, the symbols to predict.
            cross_weights: Attention weights of each layer, float
                `[batch, heads, target_length, source_length]`.

        Returns:
            float32 `[batch, target_length]` in nats, padding included.
        """
        aligned = self.alignment(*batch)
        losses = []
        for weights in cross_weights:
            first = tf.cast(weights[:, 0], tf.float32)
            there = tf.reduce_sum(tf.where(aligned, first, 0.0), axis=-1)
            losses.append(-tf.math.log(there + _SMALLEST))
        return self.weight * tf.add_n(losses) / len(losses)

    def alignment(self, source: Tensor, target: Tensor) -> Tensor:
        """Return which tokens belong to the next word, from each symbol on.

        Args:
            source: As in `token_losses`.
            target: As in `token_losses`.

        Returns:
            bool `[batch, target_length, source_length]`.
        """
        begins = tf.cast(tf.gather(self._begins, source), tf.int32)
        is_word = tf.cast(tf.gather(self._is_word, target), tf.int32)
        word_of_token = tf.cumsum(begins, axis=1)  # from 1
        next_word = tf.cumsum(is_word, axis=1, exclusive=True) + 1
        return next_word[:, :, tf.newaxis] == word_of_token[:, tf.newaxis, :]
