"""Text to trees: tokenizer, model and a beam search over well-formed trees, §6.3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer import config, given_texts, tasks, white_space
from keras_transformer.config import DecodingConfig, replaced
from keras_transformer.decoding import BeamSearchResult
from keras_transformer.inference.clean_text import clean, text_batch
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
from keras_transformer.presets import PARSER_DECODING
from keras_transformer.translation.batch_sizes import PARSING_BATCH_SIZE
from keras_transformer.translation.batching import first_call_alone, in_batches
from keras_transformer.treebank import linearisation


class Parse(NamedTuple):
    """The parse of one sentence."""

    # None for a sentence without words. Repaired if the model's output was not `valid`.
    tree: Tree | None
    # Log probability / length penalty, in nats; 0 for a sentence without words.
    score: float
    # Whether the sentence was cut to the input limit; the tree has all words.
    truncated: bool
    # Whether the model's output was a tree over the sentence.
    valid: bool

    @property
    def text(self) -> str:
        """Brackets on one line; "" for no tree."""
        return "" if self.tree is None else str(self.tree)


class ParseText(NamedTuple):
    """The parse of one sentence as text, same as the outputs of an export."""

    # Brackets on one line; "" for no tree.
    text: str
    score: float
    truncated: bool
    valid: bool


class Parser(SequenceGenerator):
    """Parses sentences with a model, its tokenizer and beam search, §6.3.

    Used by programs, evaluation and the exported signature. Sentences are split into
    words at white space, so punctuation must be separated by spaces. The model reads
    the words in the treebank's form ("-LRB-" for "("), joined by single spaces.

    The search is restricted to well-formed trees over the sentence (`WellFormed`), so
    every tree is valid and contains every word once and in order. Words beyond
    `max_input_length`, which the model cannot see, are appended to the root.

    Args:
        model: The model; its target vocabulary is `vocabulary`.
        tokenizer: The source tokenizer of the `tokenization` package that the model was
            trained with.
        vocabulary: The symbols that the model writes.
        decoding: Search settings; None: the paper's beam 21, alpha 0.3 and input + 300.
        constraint: Limits of a tree.
        constrained: Whether to restrict the search to trees. Use False only for
            comparison: the output may then be invalid.
        **overrides: Fields of `DecodingConfig` to replace, such as `beam_size=1`.

    Raises:
        ValueError: If model, tokenizer and vocabulary do not match, or the limits leave
            no room for a tree.

    Differs from the paper, whose search is not restricted to trees.

    Examples:
        >>> parse = parser.parse(["A dog runs ."])[0]
        >>> parse.tree.words
        ['A', 'dog', 'runs', '.']
    """

    task = tasks.PARSING

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
        decoding = replaced(decoding or PARSER_DECODING, overrides)
        super().__init__(model, tokenizer, decoding, name="parser")
        check_symbols(model, vocabulary)
        check_room(self.decoding)
        check_repeats(self.decoding)
        self.vocabulary = vocabulary
        self.constraint = constraint or ConstraintConfig()
        self.constrained = constrained

    def __call__(self, sentence: str | Sequence[str]) -> Tree | list[Tree | None]:
        """Return the tree of a sentence, or the trees of several sentences."""
        if given_texts.is_one(sentence):
            return self.parse(sentence)[0].tree
        return [parse.tree for parse in self.parse(sentence)]

    def parse(
        self, sentences: Sequence[str], batch_size: int = PARSING_BATCH_SIZE
    ) -> list[Parse]:
        """Parse sentences in batches of similar length; return parses in input order.

        Args:
            sentences: Sentences with words and punctuation separated by spaces; one is
                a list of itself.
            batch_size: Sentences parsed at once.

        Raises:
            TypeError: If a sentence is no string.
        """

        def parse_one_batch(batch):
            batch = [*map(given_texts.as_str, batch)]
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

        sentences = given_texts.as_list(sentences, "sentences")
        return in_batches(sentences, batch_size, first_call_alone(parse_one_batch))

    def parse_batch(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Parse a batch, in the graph.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            "tree", string `[batch]`: brackets on one line; "score", float32 `[batch]`:
            log probability / length penalty; "truncated", bool `[batch]`: whether the
            sentence was cut to `max_input_length` tokens; "valid", bool `[batch]`:
            whether the output is a tree over the sentence. It is False, and the tree
            "", only without the constraint or if the logits are not finite. A sentence
            without words has the tree "", is valid and has score 0.
        """
        answer = self._answers(text_batch(text))
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

    # Shared by `parse` and `parse_batch`, so that it is traced once.
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _answers(self, text):
        words = graph_text.split_words(clean(text))
        tokens, truncated = self._read(words)
        num_words = self.words_to_cover(words)
        result = self.search(tokens, num_words)
        symbols = result.tokens[:, 0]
        has_words = num_words > 0
        is_valid = result.finished[:, 0] | ~has_words
        if not self.constrained:
            is_valid &= is_tree(self.vocabulary, num_words, symbols) | ~has_words
        written = graph_text.write_trees(
            self.vocabulary,
            tf.where(is_valid[:, tf.newaxis], symbols, config.PAD_ID),
            words,
        )
        return {
            "tree": written,
            "symbols": symbols,
            "score": tf.where(has_words, result.scores[:, 0], 0.0),
            "truncated": truncated,
            "valid": is_valid,
        }

    def too_long(self, sentences: Sequence[str]) -> list[bool]:
        """Return which sentences exceed the model's input limit."""
        words = graph_text.split_words(clean(text_batch(sentences)))
        return self._read(words)[1].numpy().tolist()

    def _read(self, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return `source_tokens` of sentences that are split into words."""
        escaped = graph_text.escape_words(words)
        return self.source_tokens(
            tf.strings.reduce_join(escaped, axis=1, separator=" ")
        )

    def words_to_cover(self, words: tf.RaggedTensor) -> tf.Tensor:
        """Return the number of words that the search covers, int32 `[batch]`.

        At most as many as the model can see, which bounds the cost of very long
        sentences. The other words are appended without a search.
        """
        num_words = tf.cast(words.row_lengths(), tf.int32)
        return tf.minimum(num_words, self.decoding.max_input_length - 1)

    def search(
        self, source_tokens: tf.Tensor, num_words: tf.Tensor
    ) -> BeamSearchResult:
        """Search the best trees of tokenized sentences, in the graph.

        Args:
            source_tokens: int32 `[batch, source_length]`, each with EOS at the end,
                then padding.
            num_words: int32 `[batch]`: words of each tree; 0: no search.

        Returns:
            `beam_size` hypotheses per sentence.
        """
        # A tree needs this many symbols, even if several words share a token.
        limits = tf.maximum(self.output_limits(source_tokens), num_words + NUM_NEEDED)
        limits = tf.where(num_words > 0, limits, 0)
        known = {"num_words": num_words}
        return self.best_outputs(source_tokens, limits, rule_inputs=known)

    def program_sizes(self, device):
        """Return none: the search of a tree has 21 hypotheses and hundreds of steps."""
        del device
        return []

    def rules(self):
        own = [WellFormed(self.vocabulary, self.constraint)] if self.constrained else []
        return [*super().rules(), *own]

    def _tree(self, sentence: str, symbols: Any, is_valid: bool) -> Tree | None:
        """Return the tree of a sentence, repaired if it is not valid."""
        if white_space.is_blank(sentence):
            return None
        # Split at ASCII white space, same as `split_words`.
        stripped = white_space.strip(sentence).encode()
        words = [word.decode() for word in stripped.split()]
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
    """Parse sentences in batches of similar length, see `in_batches`; keeps the order.

    `parse_batch` is a function with the signature of `Parser.parse_batch`.
    """

    def parse_one_batch(batch):
        answer = parse_batch(tf.constant(batch, tf.string))
        texts = [tree.decode() for tree in answer["tree"].numpy()]
        others = (answer[name].numpy().tolist() for name in ParseText._fields[1:])
        return list(map(ParseText, texts, *others))

    return in_batches(sentences, batch_size, first_call_alone(parse_one_batch))


def check_symbols(model: Transformer, vocabulary: SymbolVocabulary) -> None:
    """Raise ValueError unless size and special ids are those of the model's outputs."""
    wanted = {
        "output_vocab_size": vocabulary.vocab_size,
        "pad_id": config.PAD_ID,
        "bos_id": config.BOS_ID,
        "eos_id": config.EOS_ID,
    }
    for name, value in wanted.items():
        if getattr(model.config, name) != value:
            raise ValueError(
                f"The symbols do not match the model: `{name}` is {value} in the "
                f"vocabulary and {getattr(model.config, name)} in the model. Use the "
                "labels that the model was trained with."
            )


def check_room(decoding: DecodingConfig) -> None:
    """Raise ValueError unless every sentence has room for a tree.

    The input needs a word and EOS, the output the root's brackets.
    """
    for name in ("max_input_length", "extra_decode_length"):
        if getattr(decoding, name) < 2:
            raise ValueError(
                f"`{name}` must be at least 2 for parsing, so that the smallest tree "
                f"fits. Received: {name}={getattr(decoding, name)}."
            )


def check_repeats(decoding: DecodingConfig) -> None:
    """Raise ValueError unless the search may repeat symbols, and must know them."""
    for name in ("no_repeat_ngram_size", "max_repetitions"):
        if number := getattr(decoding, name):
            raise ValueError(
                f"`{name}` must be 0 for parsing: brackets repeat in every tree. "
                f"Received: {name}={number}."
            )
    if decoding.allow_unk:
        raise ValueError(
            "`allow_unk` must be False for parsing: no tree has an unknown symbol. "
            "Received: allow_unk=True."
        )
