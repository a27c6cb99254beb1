"""Text to trees: tokenizer, model and a search among well-formed trees, §6.3."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer import config
from keras_transformer.config import DecodingConfig
from keras_transformer.decoding import BeamSearchResult
from keras_transformer.inference.batching import in_batches
from keras_transformer.inference.generator import SequenceGenerator
from keras_transformer.model.transformer import Transformer
from keras_transformer.parsing import Tree, delinearise, graph_text, repair
from keras_transformer.parsing.constraint import (
    NUM_NEEDED,
    ConstraintConfig,
    WellFormed,
    is_tree,
)
from keras_transformer.parsing.symbols import SymbolVocabulary
from keras_transformer.treebank import linearisation

# Sentences parsed at once, unless asked otherwise. With beam 21 and room for the input
# + 300 symbols, each takes the memory of some 20 translations.
BATCH_SIZE = 16

# §6.3: beam 21, alpha 0.3, at most input + 300.
PAPER_DECODING = DecodingConfig(
    beam_size=21, length_penalty_alpha=0.3, extra_decode_length=300
)


class Parse(NamedTuple):
    """What a sentence became."""

    # None for a sentence without words. Where the model's answer was none (`valid`),
    # it is repaired.
    tree: Tree | None
    # Log probability / length penalty, in nats; 0 for a sentence without words.
    score: float
    # Whether the model read a part of the sentence only; the tree has all words.
    truncated: bool
    # Whether the model's answer was a tree over the sentence.
    valid: bool


class ParseText(NamedTuple):
    """What a sentence became, in the treebank's form; as an export answers."""

    # The tree's brackets on one line; "" for none.
    text: str
    score: float
    truncated: bool
    valid: bool


class Parser(SequenceGenerator):
    """Parses sentences with a model, its tokenizer and beam search, §6.3.

    Programs, evaluation and the exported signature all go through it. A sentence is cut
    into words at white space, so punctuation must stand apart; the model reads the
    words in the treebank's form ("-LRB-" for "("), with single spaces between them.

    The search is among well-formed trees over the sentence alone (`WellFormed`), so
    every tree is valid whatever the model says, and every word stands in it once and in
    order. Words that the model cannot see, beyond `max_input_length`, stand last under
    the root.

    Args:
        model: The model; its target vocabulary is `vocabulary`.
        tokenizer: Of the sentences: of the `tokenization` package, the one the model
            was trained with.
        vocabulary: The symbols that the model writes.
        decoding: How to search; None: the paper's beam 21, alpha 0.3 and input + 300.
        constraint: How far a tree may go.
        constrained: Whether the search is among trees alone. False is for comparison:
            the answer may be no tree then.
        **overrides: Fields of `DecodingConfig` to replace, such as `beam_size=1`.

    Raises:
        ValueError: If model, tokenizer and vocabulary do not fit each other, or the
            limits leave no room for a tree.

    Differs from the paper: there, nothing keeps the output a tree.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: Any,
        vocabulary: SymbolVocabulary,
        decoding: DecodingConfig | None = None,
        constraint: ConstraintConfig | None = None,
        *,
        constrained: bool = True,
        **overrides,
    ):
        decoding = dataclasses.replace(decoding or PAPER_DECODING, **overrides)
        super().__init__(model, tokenizer, decoding, name="parser")
        check_symbols(model, vocabulary)
        check_room(self.decoding)
        self.vocabulary = vocabulary
        self.constraint = constraint or ConstraintConfig()
        self.constrained = constrained

    def __call__(self, sentence: str | Sequence[str]) -> Tree | list[Tree | None]:
        """Parse one sentence, or several, to the tree of each."""
        if isinstance(sentence, str):
            return self.parse([sentence])[0].tree
        return [parse.tree for parse in self.parse(sentence)]

    def parse(
        self, sentences: Sequence[str], batch_size: int = BATCH_SIZE
    ) -> list[Parse]:
        """Parse sentences, sorted by length into batches, and return them in order.

        Args:
            sentences: One each, words and punctuation apart.
            batch_size: Sentences parsed at once.
        """

        def parsed(batch):
            answer = self._answers(tf.constant(batch, tf.string))
            rows = zip(
                batch,
                answer["symbols"].numpy(),
                *(answer[name].numpy().tolist() for name in Parse._fields[1:]),
                strict=True,
            )
            return [
                Parse(self._tree(sentence, symbols, valid), score, truncated, valid)
                for sentence, symbols, score, truncated, valid in rows
            ]

        return in_batches(sentences, batch_size, parsed)

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False
    )
    def parse_batch(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Parse a batch, in the graph.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            "tree", string `[batch]`, brackets on one line; "score", float32 `[batch]`,
            log probability / length penalty; "truncated", bool `[batch]`: whether the
            model read but a part, up to `max_input_length` tokens; "valid", bool
            `[batch]`: whether what the model wrote is a tree over the sentence, which
            fails only without the constraint, or with logits that are no distribution:
            then the tree is "". A sentence without words has the tree "", valid, with
            score 0.
        """
        answer = self._answers(text)
        return {name: answer[name] for name in ("tree", *Parse._fields[1:])}

    def _copy(self):
        return Parser(
            self.model,
            self.tokenizer,
            self.vocabulary,
            self.decoding,
            self.constraint,
            constrained=self.constrained,
        )

    # One graph for `parse` and `parse_batch`.
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _answers(self, text):
        words = graph_text.split_words(text)
        tokens, truncated = self._read(words)
        num_words = self.words_to_cover(words)
        result = self.search(tokens, num_words)
        symbols = result.tokens[:, 0]
        has_words = num_words > 0
        is_valid = result.finished[:, 0] | ~has_words
        if not self.constrained:
            is_valid &= is_tree(self.vocabulary, num_words, symbols) | ~has_words
        trees = graph_text.write_trees(
            self.vocabulary,
            tf.where(is_valid[:, tf.newaxis], symbols, config.PAD_ID),
            words,
        )
        return {
            "tree": trees,
            "symbols": symbols,
            "score": tf.where(has_words, result.scores[:, 0], 0.0),
            "truncated": truncated,
            "valid": is_valid,
        }

    def too_long(self, sentences: Sequence[str]) -> list[bool]:
        """Say of which sentences the model would read but a part."""
        words = graph_text.split_words(tf.constant(sentences, tf.string))
        return self._read(words)[1].numpy().tolist()

    def _read(self, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return `source_tokens` of sentences that are words already."""
        escaped = graph_text.escape_words(words)
        return self.source_tokens(
            tf.strings.reduce_join(escaped, axis=1, separator=" ")
        )

    def words_to_cover(self, words: tf.RaggedTensor) -> tf.Tensor:
        """Count the words that the search covers, int32 `[batch]`.

        No more than the model could see: a sentence that is longer by far would cost
        what its words cost. The others need no search.
        """
        num_words = tf.cast(words.row_lengths(), tf.int32)
        return tf.minimum(num_words, self.decoding.max_input_length - 1)

    def search(
        self, source_tokens: tf.Tensor, num_words: tf.Tensor
    ) -> BeamSearchResult:
        """Search the best trees for sentences that are tokens already, in the graph.

        Args:
            source_tokens: int32 `[batch, source_length]`, EOS at the end of each, then
                padding.
            num_words: int32 `[batch]`, that each tree is over; 0: none.

        Returns:
            `beam_size` hypotheses a sentence.
        """
        # So many symbols as a tree needs, however few tokens its words are.
        limits = tf.maximum(self.output_limits(source_tokens), num_words + NUM_NEEDED)
        limits = tf.where(num_words > 0, limits, 0)
        known = {"num_words": num_words, "limits": limits}
        allowed = self._allowed_tokens if self.constrained else None
        return self.best_outputs(source_tokens, limits, known, allowed_tokens=allowed)

    def _allowed_tokens(self, tokens, step, source):
        rule = WellFormed(
            self.vocabulary, source["num_words"], source["limits"], self.constraint
        )
        return rule.allowed_tokens(tokens, step)

    def _tree(self, sentence: str, symbols: Any, is_valid: bool) -> Tree | None:
        """Return the tree of a sentence, repaired where it is none."""
        # As `split_words` does: at ASCII white space.
        words = [word.decode() for word in sentence.encode().split()]
        if not words:
            return None
        labels = self.vocabulary.decode(symbols.tolist())
        word_symbols = self.vocabulary.word_symbols
        if not is_valid:
            labels = repair(labels, len(words), word_symbols=word_symbols)
        known = {*word_symbols, linearisation.WORD}
        predicted = [symbol for symbol in labels if symbol in known]
        left = [linearisation.WORD] * (len(words) - len(predicted))
        labels[-1:-1] = left
        return delinearise(
            labels,
            words,
            linearisation.merge_tags(words, predicted + left),
            known,
        )


def parse_in_batches(
    sentences: Sequence[str],
    batch_size: int,
    parse_batch: Callable[[tf.Tensor], dict[str, tf.Tensor]],
) -> list[ParseText]:
    """Parse sentences in batches of about equal length, and return them in order.

    Args:
        sentences: One each.
        batch_size: Sentences parsed at once.
        parse_batch: Takes and returns what `Parser.parse_batch` does.

    Raises:
        ValueError: If `batch_size` is below 1.
    """

    def parsed(batch):
        answer = parse_batch(tf.constant(batch, tf.string))
        trees = [tree.decode() for tree in answer["tree"].numpy()]
        others = (answer[name].numpy().tolist() for name in ParseText._fields[1:])
        return list(map(ParseText, trees, *others))

    return in_batches(sentences, batch_size, parsed)


def check_symbols(model: Transformer, vocabulary: SymbolVocabulary) -> None:
    """Raise unless the symbols' ids are those that the model writes.

    Raises:
        ValueError: If the size or a special id differs.
    """
    wanted = {
        "output_vocab_size": vocabulary.vocab_size,
        "pad_id": config.PAD_ID,
        "bos_id": config.BOS_ID,
        "eos_id": config.EOS_ID,
    }
    for name, value in wanted.items():
        if getattr(model.config, name) != value:
            raise ValueError(
                f"The symbols are not the model's: `{name}` is {value} for them and "
                f"{getattr(model.config, name)} in the model. Use the labels the model "
                "was trained with."
            )


def check_room(decoding: DecodingConfig) -> None:
    """Raise unless every sentence has room for a tree.

    Raises:
        ValueError: If a limit is below 2: of the input, for a word and EOS; of what an
            output may have more, for the root's brackets.
    """
    for name in ("max_input_length", "extra_decode_length"):
        if getattr(decoding, name) < 2:
            raise ValueError(
                f"`{name}` must be at least 2 for parsing, or the smallest tree has no "
                f"room. Received: {name}={getattr(decoding, name)}."
            )
