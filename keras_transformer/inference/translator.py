"""Text to text: tokenizer, model and search as one module (§6.1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import keras_transformer
from keras_transformer import given_texts, tasks
from keras_transformer.config import (
    DecodingConfig,
    check_at_least,
    replaced,
)
from keras_transformer.decoding import BeamSearchResult
from keras_transformer.decoding.rules import TokenRule
from keras_transformer.decoding.rules.placeholders import KeptPlaceholders
from keras_transformer.inference.clean_text import (
    clean,
    num_words_before,
    text_batch,
)
from keras_transformer.inference.generator import SequenceGenerator
from keras_transformer.inference.shortlist import Shortlist
from keras_transformer.model.transformer import Transformer
from keras_transformer.translation.batch_sizes import TRANSLATION_BATCH_SIZE
from keras_transformer.translation.compiling_beside import compiling
from keras_transformer.translation.pipeline import Translation, translate_in_batches


class Translator(SequenceGenerator):
    """Translates text with a model, its tokenizer and beam search, §6.1.

    Programs, evaluation and the exported signatures use this class.

    Args:
        model: The model.
        tokenizer: The tokenizer that the model was trained with, from the
            `tokenization` package.
        decoding: Settings of the search; None: the paper's beam 4 and alpha 0.6.
        num_best: Hypotheses to return for each source, at most `decoding.beam_size`.
        shortlist: The target pieces that a search of given sources chooses from; None:
            all.
        others: Further models of an ensemble, trained with the same tokenizer. The
            probability of a piece is the mean of theirs and `model`'s.
        token_rules: Further rules on which tokens may come next, in searches, samples
            and exports; see `decoding.rules.TokenRule`. Their `source` has
            "source_tokens", int32 `[batch, source_length]`.
        **overrides: Fields of `DecodingConfig` to replace, such as `beam_size=1`.

    Raises:
        ValueError: If model, tokenizer and shortlist do not match, or `num_best` is
            outside [1, beam_size].

    Examples:
        >>> translator = kt.Translator(
        ...     model, tokenizer, beam_size=2, max_input_length=23
        ... )
        >>> len(translator(["one two", "two"]))
        2
        >>> translation = translator.translate(["one two"])[0]
        >>> translation.truncated
        False
    """

    task = tasks.TRANSLATION

    @classmethod
    def from_pretrained(cls, model: str | os.PathLike, **options: Any) -> Translator:
        """Return the translator of a model, ready for many texts.

        Args:
            model: The folder of a run, or the name of a published model on the Hugging
                Face Hub; as in `keras_transformer.open_model`.
            **options: As in `keras_transformer.open_model`.

        Raises:
            ValueError: If it is an export, and as `keras_transformer.open_model`.
        """
        translator = keras_transformer.open_model(model, **options).searcher
        if translator is None:
            raise ValueError(
                f"{model} is an export, whose search is in its graph: use open_model."
            )
        return translator

    def __init__(
        self,
        model: Transformer,
        tokenizer: Any,
        decoding: DecodingConfig | None = None,
        *,
        num_best: int = 1,
        shortlist: Shortlist | None = None,
        others: Sequence[Transformer] = (),
        token_rules: Sequence[TokenRule] = (),
        **overrides,
    ):
        decoding = replaced(decoding or DecodingConfig(), overrides)
        super().__init__(model, tokenizer, decoding, "translator", others, token_rules)
        check_num_best(num_best, decoding)
        self.num_best = num_best
        if shortlist is not None:
            shortlist.check(model.config, decoding.beam_size)
        self.shortlist = shortlist

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        """Return the best translation of one text, or of each of several."""
        if given_texts.is_one(text):
            return self.translate(text)[0].text
        return [translation.text for translation in self.translate(text)]

    def translate(
        self, texts: Sequence[str], batch_size: int = TRANSLATION_BATCH_SIZE
    ) -> list[Translation]:
        """Translate texts in batches of similar length; keeps the order.

        Args:
            texts: The sources; see `given_texts.each`. One is a list of itself.
            batch_size: Most sources of a batch.

        Raises:
            TypeError: If a source is no string.
        """
        return translate_in_batches(texts, batch_size, self.translate_batch)

    def translate_batch(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translate a batch, in the graph.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            "translations", string `[batch, num_best]`, best first, filled with "";
            "scores", float32 `[batch, num_best]`, log probability / length penalty,
            filled with NEGATIVE_INFINITY; "truncated", bool `[batch]`: whether the
            source was cut to `max_input_length` tokens. A source without words becomes
            "" with score 0.
        """
        return self._compiling(self._translate_batch)(text_batch(text))

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False
    )
    def _translate_batch(self, text):
        tokens, truncated = self.source_tokens(text)
        return self.search_texts(tokens, truncated, num_best=self.num_best)

    def align_batch(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translate a batch and tell where each piece comes from, in the graph.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            Those of `translate_batch` with the best translation alone;
            "source_pieces", string `[batch, source]`, and "target_pieces", string
            `[batch, target]`, both with "</s>" at the end, then ""; "attention",
            float32 `[batch, target, source]`: encoder-decoder attention of the head
            that learned to align, `alignment_head` of the configuration, or else of the
            penultimate layer (the one that aligns best: Garg et al. 2019), mean over
            heads; "source_words", int32 `[batch, source]`: the number of the word of
            the source that each source piece belongs to, from 0, -1 for none;
            "log_probabilities", float32 `[batch, target]`, of each target piece
            without length penalty, 0 for a prefix of the tokenizer's. The last two are
            0 at the padding.
        """
        return self._compiling(self._align_batch)(text_batch(text))

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False
    )
    def _align_batch(self, text):
        source, truncated = self.source_tokens(text)
        result = self.search(source)
        # At least one position, so that a batch without words has a shape.
        target = tf.pad(
            result.tokens[:, 0],
            [[0, 0], [0, 1]],
            constant_values=self.model.config.pad_id,
        )
        most = tf.reduce_max(tf.concat([result.lengths[:, 0], [1]], axis=0))
        target = target[:, :most]
        outputs, weights = self.ensemble.decode(source, target)
        if self.model.config.alignment_head is None:
            attention = tf.reduce_mean(weights[max(0, len(weights) - 2)], axis=1)
        else:
            layer, head = self.model.config.alignment_head
            attention = weights[layer][:, head]
        is_target = target != self.model.config.pad_id
        log_probs = self.ensemble.token_log_probs(outputs, target)
        is_predicted = tf.range(most) >= self.unscored_steps
        return {
            **self._to_text(source, truncated, result, 1),
            "source_pieces": self.tokenizer.pieces(source),
            "source_words": self._source_words(text, source),
            "target_pieces": self.tokenizer.target_pieces(target),
            "attention": tf.where(
                is_target[:, :, tf.newaxis], tf.cast(attention, tf.float32), 0.0
            ),
            "log_probabilities": tf.where(is_predicted, log_probs, 0.0),
        }

    def _compiling(self, translate_batch: Callable) -> Callable:
        """Return what also compiles programs, unless it becomes part of a graph."""
        return compiling(
            translate_batch, self.compiler if tf.executing_eagerly() else None
        )

    def _source_words(self, text: tf.Tensor, source: tf.Tensor) -> tf.Tensor:
        """Return the number of the word of each token of `source_tokens`, -1: none."""
        cleaned = clean(text, self.tokenizer.markers)
        words = self.tokenizer.source_words(cleaned)
        words = words.to_tensor(-1, shape=tf.stack([-1, tf.shape(source)[1]]))
        moved = tf.maximum(words + num_words_before(text, cleaned)[:, None], 0)
        words = tf.where(words < 0, -1, moved)
        return tf.where(source == self.model.config.eos_id, -1, words)

    def translate_with_prefix(
        self, text: tf.Tensor, target_prefix: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Translate a batch into outputs that begin with given texts, in the graph.

        Args:
            text: string `[batch]`, UTF-8.
            target_prefix: string `[batch]`; "" for no prefix. The prefix is tokenized
                separately, so it should end at the end of a word.

        Returns:
            Same as `translate_batch`. Translations include the prefix, and the output
            limit counts from its end.
        """
        tokens, truncated = self.source_tokens(text)
        prefix = self.tokenizer.tokenize_target(clean(target_prefix))
        prefix = tf.cast(prefix, tf.int32)
        forced = prefix[:, : self.decoding.max_input_length].to_tensor(
            self.model.config.pad_id
        )
        return self.search_texts(tokens, truncated, forced, self.num_best)

    def search_texts(
        self,
        tokens: tf.Tensor,
        truncated: tf.Tensor,
        forced_prefix: tf.Tensor | None = None,
        num_best: int = 1,
    ) -> dict[str, tf.Tensor]:
        """Search the best translations of tokenized sources, in the graph.

        Args:
            tokens: int32 `[batch, source_length]`, from `source_tokens`.
            truncated: bool `[batch]`, from `source_tokens`.
            forced_prefix: Same as in `search`.
            num_best: Hypotheses to return for each source.

        Returns:
            Same as `translate_batch`.
        """
        result = self.search(tokens, forced_prefix, num_best)
        return self._to_text(tokens, truncated, result, num_best)

    def _to_text(self, tokens, truncated, result, num_best) -> dict[str, tf.Tensor]:
        """Detokenize the result of a search; see `search_texts`."""
        best = result.tokens[:, :num_best]
        batch, length = tf.shape(best)[0], tf.shape(best)[2]
        flat = tf.reshape(best, (batch * num_best, length))
        texts = tf.reshape(self.tokenizer.detokenize(flat), (batch, num_best))
        has_words = self.has_words(tokens)
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
        """Search the best outputs for tokenized sources, in the graph.

        Args:
            source_tokens: int32 `[batch, source_length]`, each with EOS, then padding.
            forced_prefix: int32 `[batch, prefix_length]`, the first tokens of each
                output, then padding; None: no prefix.
            num_best: Number of hypotheses that must be certain before the search stops.

        Returns:
            `beam_size` hypotheses per source; none for a source of EOS only.

        Raises:
            ValueError: If `num_best` is outside [1, beam_size].
        """
        check_num_best(num_best, self.decoding)
        if forced_prefix is None:
            forced_prefix = self.own_prefix(tf.shape(source_tokens)[0])
        return self._search(source_tokens, forced_prefix, num_best)

    def rules(self):
        kept = self._kept()
        return [*super().rules(), *([kept] if kept else [])]

    def rule_inputs(self, source_tokens, forced_prefix):
        known = super().rule_inputs(source_tokens, forced_prefix)
        if kept := self._kept():
            known["wanted"] = kept.wanted(source_tokens, forced_prefix)
        return known

    def _kept(self) -> KeptPlaceholders | None:
        """Return the rule for placeholders, if the vocabulary has some."""
        ids, config = self.tokenizer.placeholders, self.model.config
        if not ids:
            return None
        return KeptPlaceholders(ids, config.output_vocab_size, config.eos_id)

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Those of the model and, unless `allow_unk`, the unknown token of targets."""
        ids, unknown = super().suppressed_ids, self.tokenizer.target_unk_id
        if self.decoding.allow_unk or unknown is None or unknown in ids:
            return ids
        return (*ids, unknown)

    def own_prefix(self, batch: tf.Tensor) -> tf.Tensor:
        """Return the tokens that every target begins with, int32 `[batch, 0 or 1]`."""
        prefix_id = self.tokenizer.target_prefix_id
        if prefix_id is None:
            return tf.zeros([batch, 0], tf.int32)
        return tf.fill([batch, 1], prefix_id)

    def _copy(self):
        return Translator(
            self.model,
            self.tokenizer,
            self.decoding,
            num_best=self.num_best,
            shortlist=self.shortlist,
            others=self.ensemble.models[1:],
            token_rules=self.token_rules,
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
        if (num_positions := self.ensemble.num_positions) is not None:
            limits = tf.minimum(limits, num_positions)
        ids = self.output_ids(source_tokens, forced_prefix)
        return self.best_outputs(
            source_tokens, limits, forced_prefix, ids=ids, num_best=num_best
        )


def check_num_best(num_best: int, decoding: DecodingConfig) -> None:
    """Raise ValueError unless `num_best` is in [1, beam_size]."""
    check_at_least("num_best", num_best, 1)
    if num_best > decoding.beam_size:
        raise ValueError(
            "`num_best` (--nbest) must be at most `beam_size`. Received: "
            f"num_best={num_best}, beam_size={decoding.beam_size}."
        )
