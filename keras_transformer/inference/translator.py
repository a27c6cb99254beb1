"""Text to text: tokenizer, model and search as one module (§6.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.config import (
    TRANSLATED_AT_ONCE,
    DecodingConfig,
    check_at_least,
)
from keras_transformer.decoding import BeamSearchResult
from keras_transformer.inference.generator import TextSearch, in_batches, in_blocks
from keras_transformer.model.transformer import Transformer


class Hypothesis(NamedTuple):
    """One translation."""

    text: str
    # Log probability / length penalty, in nats.
    score: float


class Translation(NamedTuple):
    """What a source text became."""

    text: str
    # Log probability / length penalty, in nats; 0 for a source without words.
    score: float
    # Whether the source was cut at the end to `max_input_length` tokens.
    truncated: bool
    # The best hypotheses, best first.
    nbest: tuple[Hypothesis, ...]


class Translator(TextSearch):
    """Translates text with a model, its tokenizer and beam search, §6.1.

    Programs, evaluation and the exported signatures all go through it.

    Args:
        model: The model.
        tokenizer: Of the `tokenization` package, the one the model was trained with.
        decoding: How to search; None: the paper's beam 4 and alpha 0.6.
        num_best: Hypotheses to return for each source, at most `decoding.beam_size`.
        **overrides: Fields of `DecodingConfig` to replace, such as `beam_size=1`.

    Raises:
        ValueError: If model and tokenizer do not fit each other, or `num_best` is
            outside [1, beam_size].
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: Any,
        decoding: DecodingConfig | None = None,
        *,
        num_best: int = 1,
        **overrides,
    ):
        decoding = dataclasses.replace(decoding or DecodingConfig(), **overrides)
        super().__init__(model, tokenizer, decoding, name="translator")
        check_num_best(num_best, decoding)
        self.num_best = num_best

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        """Translate one text, or several, to the best hypothesis of each."""
        if isinstance(text, str):
            return self.translate([text])[0].text
        return [translation.text for translation in self.translate(text)]

    def translate(
        self, texts: Sequence[str], batch_size: int = TRANSLATED_AT_ONCE
    ) -> list[Translation]:
        """Translate texts, sorted by length into batches, and return them in order.

        Args:
            texts: One source each.
            batch_size: Sources translated at once.
        """
        return translate_in_batches(texts, batch_size, self.translate_batch)

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False
    )
    def translate_batch(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translate a batch, in the graph.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            "translations", string `[batch, num_best]`, best first, "" where there are
            fewer; "scores", float32 `[batch, num_best]`, log probability / length
            penalty, NEGATIVE_INFINITY where there are fewer; "truncated", bool
            `[batch]`: whether the source was cut to `max_input_length` tokens. A source
            without words becomes "" with score 0.
        """
        tokens, truncated = self.source_tokens(text)
        result = self.search(tokens, num_best=self.num_best)
        return self.worded(tokens, truncated, result, self.num_best)

    def translate_with_prefix(
        self, text: tf.Tensor, target_prefix: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Translate a batch to outputs that begin with given texts, in the graph.

        Args:
            text: string `[batch]`, UTF-8.
            target_prefix: string `[batch]`; "" leaves a translation free. It is cut
                into subwords by itself, so it should end where a word does.

        Returns:
            As `translate_batch`; translations hold the prefix, and the output limit
            counts from its end.
        """
        tokens, truncated = self.source_tokens(text)
        prefix = tf.cast(self.tokenizer.tokenize(target_prefix), tf.int32)
        forced = prefix[:, : self.decoding.max_input_length].to_tensor(
            self.model.config.pad_id
        )
        result = self.search(tokens, forced, self.num_best)
        return self.worded(tokens, truncated, result, self.num_best)

    def worded(
        self,
        tokens: tf.Tensor,
        truncated: tf.Tensor,
        result: BeamSearchResult,
        num_best: int,
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of a search as texts: what `translate_batch` says.

        Args:
            tokens: int32 `[batch, source_length]`, from `source_tokens`.
            truncated: bool `[batch]`, from there too.
            result: Of the search.
            num_best: Hypotheses to return for each source.
        """
        best = result.tokens[:, :num_best]
        batch, length = tf.shape(best)[0], tf.shape(best)[2]
        flat = tf.reshape(best, (batch * num_best, length))
        texts = tf.reshape(self.tokenizer.detokenize(flat), (batch, num_best))
        has_words = self.lengths(tokens) > 1
        return {
            "translations": texts,
            "scores": tf.where(has_words[:, None], result.scores[:, :num_best], 0.0),
            "truncated": truncated,
        }

    def search(
        self,
        source_tokens: tf.Tensor,
        forced_prefix: tf.Tensor | None = None,
        num_best: int = 1,
    ) -> BeamSearchResult:
        """Search the best outputs for sources that are tokens already, in the graph.

        Args:
            source_tokens: int32 `[batch, source_length]`, EOS at the end of each, then
                padding.
            forced_prefix: int32 `[batch, prefix_length]`, what outputs begin with, then
                padding; None: they are free.
            num_best: How many hypotheses must be certain when the search stops.

        Returns:
            `beam_size` hypotheses a source; none for a source of EOS alone.

        Raises:
            ValueError: If `num_best` is outside [1, beam_size].
        """
        check_num_best(num_best, self.decoding)
        if forced_prefix is None:
            forced_prefix = tf.zeros([tf.shape(source_tokens)[0], 0], tf.int32)
        return self._search(source_tokens, forced_prefix, num_best)

    def _renewed(self):
        return Translator(
            self.model, self.tokenizer, self.decoding, num_best=self.num_best
        )

    # One graph for all signatures of an export.
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([], tf.int32),
        ],
        autograph=False,
    )
    def _search(self, source_tokens, forced_prefix, num_best):
        limits = self.output_limits(source_tokens)
        limits += tf.where(limits > 0, self.lengths(forced_prefix), 0)
        if self.model.config.position_encoding == "learned":
            limits = tf.minimum(limits, self.model.config.num_positions)
        return self.best_outputs(
            source_tokens, limits, num_best=num_best, forced_prefix=forced_prefix
        )


def check_num_best(num_best: int, decoding: DecodingConfig) -> None:
    """Raise unless a search can return so many hypotheses.

    Raises:
        ValueError: If it is outside [1, beam_size].
    """
    check_at_least("num_best", num_best, 1)
    if num_best > decoding.beam_size:
        raise ValueError(
            "`num_best` (--nbest) must be at most `beam_size`. Received: "
            f"num_best={num_best}, beam_size={decoding.beam_size}."
        )


def translate_in_batches(
    texts: Sequence[str],
    batch_size: int,
    translate_batch: Callable[[tf.Tensor], dict[str, tf.Tensor]],
) -> list[Translation]:
    """Translate texts in batches of about equal length, and return them in order.

    Args:
        texts: One source each.
        batch_size: Sources translated at once.
        translate_batch: Takes and returns what `Translator.translate_batch` does.

    Raises:
        ValueError: If `batch_size` is below 1.
    """
    return in_batches(texts, batch_size, _unpacked(translate_batch))


def translate_in_blocks(
    texts: Sequence[str],
    batch_size: int,
    translate_batch: Callable[[tf.Tensor], dict[str, tf.Tensor]],
    block_size: int,
) -> Iterator[tuple[int, list[Translation]]]:
    """Translate texts and yield translations in order as they come.

    Args:
        texts: One source each.
        batch_size: Sources translated at once.
        translate_batch: Takes and returns what `Translator.translate_batch` does.
        block_size: Successive texts that are sorted by length together.

    Yields:
        After each batch how many texts it had, and the translations that come next.

    Raises:
        ValueError: If `batch_size` is below 1.
    """
    return in_blocks(texts, batch_size, _unpacked(translate_batch), block_size)


def _unpacked(translate_batch: Callable) -> Callable[[list[str]], list[Translation]]:
    """Return what translates a batch of Python values."""
    return lambda texts: _unpack(translate_batch(tf.constant(texts, tf.string)))


def _unpack(batch: dict[str, tf.Tensor]) -> list[Translation]:
    """Turn tensors of one batch into Python values."""
    texts = [[text.decode() for text in row] for row in batch["translations"].numpy()]
    scores = batch["scores"].numpy().tolist()
    truncated = batch["truncated"].numpy().tolist()
    return [
        Translation(row[0], row_scores[0], cut, tuple(map(Hypothesis, row, row_scores)))
        for row, row_scores, cut in zip(texts, scores, truncated, strict=True)
    ]
