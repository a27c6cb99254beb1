"""Text to text: tokenizer, model and search as one module (§6.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.config import DecodingConfig, check_at_least
from keras_transformer.decoding import BeamSearchResult, beam_search
from keras_transformer.model import Transformer


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


class Translator(tf.Module):
    """Translates text with a model, its tokenizer and beam search, §6.1.

    Programs, evaluation and the exported signatures all go through `translate_batch`.

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
        super().__init__(name="translator")
        check_vocabulary(model, tokenizer)
        decoding = dataclasses.replace(decoding or DecodingConfig(), **overrides)
        check_at_least("num_best", num_best, 1)
        if num_best > decoding.beam_size:
            raise ValueError(
                "`num_best` (--nbest) must be at most `beam_size`. Received: "
                f"num_best={num_best}, beam_size={decoding.beam_size}."
            )
        self.model = model
        self.tokenizer = tokenizer
        self.decoding = fit_positions(decoding, model)
        self.num_best = num_best

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        """Translate one text, or several, to the best hypothesis of each."""
        if isinstance(text, str):
            return self.translate([text])[0].text
        return [translation.text for translation in self.translate(text)]

    def translate(
        self, texts: Sequence[str], batch_size: int = 64
    ) -> list[Translation]:
        """Translate texts, sorted by length into batches, and return them in order.

        Args:
            texts: One source each.
            batch_size: Sources translated at once.
        """
        return translate_in_batches(texts, batch_size, self.translate_batch)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
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
        tokens, truncated = self._source_tokens(text)
        result = self.search(tokens)
        best = result.tokens[:, : self.num_best]
        batch, num_best, length = tf.unstack(tf.shape(best))
        flat = tf.reshape(best, (batch * num_best, length))
        texts = tf.reshape(self.tokenizer.detokenize(flat), (batch, num_best))
        has_words = self._lengths(tokens) > 1
        return {
            "translations": texts,
            "scores": tf.where(
                has_words[:, None], result.scores[:, : self.num_best], 0.0
            ),
            "truncated": truncated,
        }

    def search(self, source_tokens: tf.Tensor) -> BeamSearchResult:
        """Search the best outputs for sources that are tokens already, in the graph.

        Args:
            source_tokens: int32 `[batch, source_length]`, EOS at the end of each, then
                padding.

        Returns:
            `beam_size` hypotheses a source; none for a source of EOS alone.
        """
        config = self.model.config
        lengths = self._lengths(source_tokens)
        limits = tf.where(lengths > 1, lengths + self.decoding.extra_decode_length, 0)
        max_steps = tf.reduce_max(tf.concat([limits, [0]], axis=0))
        source = self.model.start_decoding(source_tokens)
        cache = self.model.empty_cache(
            tf.shape(source_tokens)[0], self.decoding.beam_size, max_steps
        )

        def step_fn(tokens, step, ancestry, cache):
            seen = ancestry[:, :, : step + 1]
            return self.model.decode_step(tokens, step, seen, source, cache)

        return beam_search(
            step_fn,
            cache,
            max_lengths=limits,
            max_steps=max_steps,
            config=self.decoding,
            bos_id=config.bos_id,
            eos_id=config.eos_id,
            pad_id=config.pad_id,
            num_best=self.num_best,
        )

    def _source_tokens(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return int32 `[batch, source_length]` ended by EOS, and which were cut."""
        config = self.model.config
        tokens = tf.cast(self.tokenizer.tokenize(text), tf.int32)
        most = self.decoding.max_input_length - 1
        truncated = tokens.row_lengths() > most
        ends = tf.fill([tf.shape(text)[0], 1], config.eos_id)
        ended = tf.concat([tokens[:, :most], tf.RaggedTensor.from_tensor(ends)], axis=1)
        return ended.to_tensor(config.pad_id), truncated

    def _lengths(self, tokens: tf.Tensor) -> tf.Tensor:
        is_real = tf.cast(tokens != self.model.config.pad_id, tf.int32)
        return tf.reduce_sum(is_real, axis=1)


def check_vocabulary(model: Transformer, tokenizer: Any) -> None:
    """Raise unless the tokenizer's ids are those of the model.

    Raises:
        ValueError: If sizes or special ids differ.
    """
    config = model.config
    wanted = {
        "vocab_size": config.vocab_size,
        "pad_id": config.pad_id,
        "bos_id": config.bos_id,
        "eos_id": config.eos_id,
    }
    for name, value in wanted.items():
        if getattr(tokenizer, name) != value:
            raise ValueError(
                f"The tokenizer is not the model's: `{name}` is "
                f"{getattr(tokenizer, name)} there and {value} in the model. Use the "
                "tokenizer the model was trained with."
            )


def fit_positions(decoding: DecodingConfig, model: Transformer) -> DecodingConfig:
    """Lower the input limit where a learned position table would end within an output.

    Raises:
        ValueError: If the table is shorter than `extra_decode_length` alone.
    """
    if model.config.position_encoding != "learned":
        return decoding
    room = model.config.num_positions - decoding.extra_decode_length
    if room < 2:
        raise ValueError(
            "`extra_decode_length` must leave room in the table of learned positions. "
            f"Received: extra_decode_length={decoding.extra_decode_length}, "
            f"num_positions={model.config.num_positions}."
        )
    limit = min(decoding.max_input_length, room)
    return dataclasses.replace(decoding, max_input_length=limit)


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
    check_at_least("batch_size", batch_size, 1)
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    translations: dict[int, Translation] = {}
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = translate_batch(tf.constant([texts[row] for row in rows], tf.string))
        translations.update(zip(rows, _unpack(batch), strict=True))
    return [translations[row] for row in range(len(texts))]


def _unpack(batch: dict[str, tf.Tensor]) -> list[Translation]:
    """Turn tensors of one batch into Python values."""
    texts = [[text.decode() for text in row] for row in batch["translations"].numpy()]
    scores = batch["scores"].numpy().tolist()
    truncated = batch["truncated"].numpy().tolist()
    return [
        Translation(row[0], row_scores[0], cut, tuple(map(Hypothesis, row, row_scores)))
        for row, row_scores, cut in zip(texts, scores, truncated, strict=True)
    ]
