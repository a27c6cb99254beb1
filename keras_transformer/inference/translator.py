"""Text to text: tokenizer, model and search as one module (§6.1)."""

from __future__ import annotations

import collections
import functools
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from keras_transformer import given_texts
from keras_transformer.config import (
    DecodingConfig,
    check_at_least,
    replaced,
)
from keras_transformer.decoding import BeamSearchResult
from keras_transformer.decoding.rules import TokenRule
from keras_transformer.decoding.rules.placeholders import KeptPlaceholders
from keras_transformer.inference.batch_size import TRANSLATION_BATCH_SIZE
from keras_transformer.inference.batching import (
    BATCHES_AT_ONCE,
    Kept,
    in_batches,
    in_blocks,
    text_batch,
)
from keras_transformer.inference.clean_text import clean, num_words_before
from keras_transformer.inference.compiling_beside import compiling
from keras_transformer.inference.generator import SequenceGenerator
from keras_transformer.inference.shortlist import Shortlist
from keras_transformer.inference.word_alignment import (
    pieces_without_ends,
    word_alignment,
)
from keras_transformer.model.transformer import Transformer

# Times in a row from which on a phrase is a loop, and words of the longest phrase.
_LOOP = 4
_LONGEST_PHRASE = 8


class Division(Protocol):
    """A text in two parts, such as `documents.text.Division`."""

    first: str
    second: str

    def join(self, first: str, second: str) -> str:
        """Return the translations of the parts as one."""


class Protected(Protocol):
    """A text whose translation must have parts of it, such as `ProtectedText`."""

    text: str

    def restore(self, translation: str, alignment: Sequence[tuple[int, int]]) -> str:
        """Return the translation of `text` with these parts."""


class Hypothesis(NamedTuple):
    """One translation."""

    text: str
    # Log probability / length penalty, in nats.
    score: float


class Translation(NamedTuple):
    """The translation of a source text."""

    text: str
    # Log probability / length penalty, in nats; 0 for a source without words; the sum
    # of its parts for a source that was divided.
    score: float
    # Whether the source was cut to its first `max_input_length` tokens.
    truncated: bool
    # The best hypotheses, best first.
    nbest: tuple[Hypothesis, ...]
    # Pairs of a source word and the word of `text` that comes from it, from 0, and the
    # pieces of `text` with their log probabilities in nats; only from functions with
    # the outputs of `Translator.align_batch`.
    alignment: tuple[tuple[int, int], ...] = ()
    token_scores: tuple[tuple[str, float], ...] = ()
    # Whether `text` repeats a phrase as the source does not; see `has_loop`.
    looped: bool = False

    @classmethod
    def from_json(cls, *values: Any) -> Translation:
        """Return a translation from its fields as `json` writes and reads them."""
        found = cls(*values)
        return found._replace(
            nbest=tuple(Hypothesis(*each) for each in found.nbest),
            alignment=tuple(map(tuple, found.alignment)),
            token_scores=tuple(map(tuple, found.token_scores)),
        )


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
    """

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
        result = self.search(tokens, num_best=self.num_best)
        return self.to_text(tokens, truncated, result, self.num_best)

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
            **self.to_text(source, truncated, result, 1),
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
        result = self.search(tokens, forced, self.num_best)
        return self.to_text(tokens, truncated, result, self.num_best)

    def to_text(
        self,
        tokens: tf.Tensor,
        truncated: tf.Tensor,
        result: BeamSearchResult,
        num_best: int,
    ) -> dict[str, tf.Tensor]:
        """Detokenize the outputs of a search.

        Args:
            tokens: int32 `[batch, source_length]`, from `source_tokens`.
            truncated: bool `[batch]`, from `source_tokens`.
            result: From `search`.
            num_best: Hypotheses to return for each source.

        Returns:
            Same as `translate_batch`.
        """
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


def translate_in_batches(
    texts: Sequence[str],
    batch_size: int,
    translate_batch: Callable[[tf.Tensor], dict[str, tf.Tensor]],
    divide: Callable[[str], Division | None] | None = None,
    at_once: int = BATCHES_AT_ONCE,
    protect: Callable[[str], Protected] | None = None,
    first_alone: bool = True,
    kept: Kept | None = None,
) -> list[Translation]:
    """Translate texts in batches of similar length, see `in_batches`; keeps the order.

    Args:
        texts: The sources.
        batch_size: Most sources of a batch.
        translate_batch: A function with the signature of `Translator.translate_batch`.
        divide: Divides a text that the model would cut; its parts are translated one
            by one and joined, without `nbest`. Returns None for one that cannot be
            divided, which is cut. Without `divide` all long texts are cut.
        at_once: Number of threads that call `translate_batch`.
        protect: Finds what a translation must have; None: nothing.
        first_alone: Same as in `in_batches`.
        kept: Same as in `in_batches`.
    """
    answer = _unpacked(translate_batch, protect)
    if divide is not None:
        answer = functools.partial(_answer_in_parts, answer, divide)
    return in_batches(texts, batch_size, answer, at_once, first_alone, kept)


def translate_in_blocks(
    texts: Iterable[str],
    batch_size: int,
    translate_batch: Callable[[tf.Tensor], dict[str, tf.Tensor]],
    block_size: int,
    at_once: int = BATCHES_AT_ONCE,
    protect: Callable[[str], Protected] | None = None,
    first_alone: bool = True,
    kept: Kept | None = None,
) -> Iterator[tuple[int, list[Translation]]]:
    """Same as `translate_in_batches`, but yields translations as `in_blocks` does."""
    answer = _unpacked(translate_batch, protect)
    return in_blocks(texts, batch_size, answer, block_size, at_once, first_alone, kept)


def _unpacked(
    translate_batch: Callable, protect: Callable[[str], Protected] | None
) -> Callable[[list[str]], list[Translation]]:
    """Return a function that translates a batch of Python strings."""

    def answer(texts):
        return _unpack(translate_batch(tf.constant(texts, tf.string)), texts)

    def answer_protected(texts):
        protected = [protect(given_texts.as_str(text)) for text in texts]
        answers = answer([each.text for each in protected])
        return [*map(_restored, answers, protected)]

    return answer if protect is None else answer_protected


def _restored(translation: Translation, protected: Protected) -> Translation:
    """Put what was protected into a translation; its alignment no longer fits."""
    nbest = tuple(
        Hypothesis(protected.restore(each.text, translation.alignment), each.score)
        for each in translation.nbest
    )
    text = protected.restore(translation.text, translation.alignment)
    return translation._replace(text=text, nbest=nbest, alignment=())


def _answer_in_parts(answer, divide, texts: Sequence[str]) -> list[Translation]:
    """Translate a batch, and texts that were cut again in parts."""
    translations = answer(texts)
    divisions = {
        row: division
        for row, translation in enumerate(translations)
        if translation.truncated and (division := divide(texts[row]))
    }
    if not divisions:
        return translations
    # In two batches, so that none has more texts than the first.
    first, second = (
        _answer_in_parts(
            answer, divide, [getattr(each, part) for each in divisions.values()]
        )
        for part in ("first", "second")
    )
    for (row, division), one, other in zip(
        divisions.items(), first, second, strict=True
    ):
        translations[row] = Translation(
            division.join(one.text, other.text),
            one.score + other.score,
            one.truncated or other.truncated,
            nbest=(),
            looped=one.looped or other.looped,
        )
    return translations


def _unpack(batch: dict[str, tf.Tensor], sources: Sequence[str]) -> list[Translation]:
    """Convert the tensors of one batch to Python values."""
    texts = [[text.decode() for text in row] for row in batch["translations"].numpy()]
    scores = batch["scores"].numpy().tolist()
    truncated = batch["truncated"].numpy().tolist()
    translations = [
        Translation(
            row[0],
            row_scores[0],
            cut,
            tuple(map(Hypothesis, row, row_scores)),
            looped=has_loop(row[0]) and not has_loop(source),
        )
        for row, row_scores, cut, source in zip(
            texts, scores, truncated, sources, strict=True
        )
    ]
    if "attention" not in batch:
        return translations
    return [
        _with_alignment(translation, source, *row)
        for translation, source, *row in zip(
            translations, sources, *_rows_of_alignment(batch), strict=True
        )
    ]


def has_loop(text: str) -> bool:
    """Return whether a phrase of 1 to 8 words comes four times in a row or more."""
    words = [word.strip(string.punctuation) for word in text.split()]
    if len(words) < _LOOP or max(collections.Counter(words).values()) < _LOOP:
        return False
    for size in range(1, _LONGEST_PHRASE + 1):
        num_equal = 0  # words that equal the one a phrase before them, in a row
        for before, word in zip(words, words[size:], strict=False):
            num_equal = num_equal + 1 if word == before else 0
            if num_equal == (_LOOP - 1) * size:
                return True
    return False


def _rows_of_alignment(batch):
    """Return the outputs that `align_batch` adds, NumPy `[batch, ...]`."""
    names = ("source_pieces", "target_pieces", "attention", "log_probabilities")
    rows = [batch[name].numpy() for name in names]
    words = batch.get("source_words")
    return [*rows, [None] * len(rows[0]) if words is None else words.numpy()]


def _with_alignment(
    translation,
    source,
    source_pieces,
    target_pieces,
    attention,
    log_probs,
    words_of_source,
):
    """Add the results of one row of `align_batch`."""
    source_pieces, target_pieces = (
        [piece.decode("utf-8", "replace") for piece in pieces if piece]
        for pieces in (source_pieces, target_pieces)
    )
    return translation._replace(
        alignment=word_alignment(
            source,
            translation.text,
            *pieces_without_ends(source_pieces, target_pieces),
            attention,
            words_of_source,
        ),
        token_scores=tuple(zip(target_pieces, log_probs.tolist(), strict=False)),
    )
