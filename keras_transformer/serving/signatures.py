"""The signatures of an exported model: strings in, strings and scores out.

The first axis of all inputs and outputs is the batch, of any size including 0, which
all inputs must share. Rows are independent, so a server may batch the requests of
several clients.
"""

from __future__ import annotations

import tensorflow as tf

from keras_transformer import decoding, wording
from keras_transformer.documents import graph_text
from keras_transformer.inference.translator import Translator, check_num_best
from keras_transformer.parsing.parser import Parser
from keras_transformer.translation.batch_sizes import TRANSLATION_BATCH_SIZE

Tensors = dict[str, tf.Tensor]


def _batched(dtype: tf.DType, name: str) -> tf.TensorSpec:
    return tf.TensorSpec([None], dtype, name=name)


def _of_one_batch(**inputs: tf.Tensor) -> list[tf.Tensor]:
    """Return the inputs of a signature; the graph refuses batches of other sizes."""
    sizes = [tf.size(value) for value in inputs.values()]
    form = wording.unequal_inputs(dict.fromkeys(inputs, "{}"))
    # The plain operation: `tf.debugging.Assert` would add a branch.
    check = tf.raw_ops.Assert(
        condition=tf.reduce_all(tf.equal(sizes[0], sizes)),
        data=[tf.strings.format(form, sizes)],
    )
    # What follows waits for the check, so that no other error comes first.
    with tf.control_dependencies([check]):
        return [tf.identity(value) for value in inputs.values()]


class ServingModule(tf.Module):
    """The signatures of an exported translator.

    Args:
        translator: The translator.
        num_best: Hypotheses that `nbest` returns; None: the beam size.
        source_language: Code of the language of documents, for the rules of its
            sentences; "": unknown.

    Raises:
        ValueError: If `num_best` is outside [1, beam_size].
    """

    def __init__(
        self,
        translator: Translator,
        num_best: int | None = None,
        source_language: str = "",
    ):
        super().__init__(name="serving")
        self.translator = translator
        self.source_language = source_language
        self.num_best = translator.decoding.beam_size if num_best is None else num_best
        check_num_best(self.num_best, translator.decoding)

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """Return the functions by signature name."""
        chosen = {
            "serving_default": self.serving_default,
            "nbest": self.nbest,
            "prefix": self.prefix,
            "sample": self.sample,
            "align": self.align,
            "score": self.score,
            "document": self.document,
        }
        if self.translator.tokenizer.is_multilingual:
            chosen["multilingual"] = self.multilingual
        return chosen

    @tf.function(input_signature=[_batched(tf.string, "text")], autograph=False)
    def serving_default(self, text: tf.Tensor) -> Tensors:
        """Translate.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            "translation", string `[batch]`; "score", float32 `[batch]`, log probability
            / length penalty; "truncated", bool `[batch]`, whether the source was cut at
            the length limit.
        """
        return _best(self.translator.translate_batch(text))

    @tf.function(input_signature=[_batched(tf.string, "text")], autograph=False)
    def nbest(self, text: tf.Tensor) -> Tensors:
        """Return several translations of each text.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            "translations", string `[batch, n]`, best first, "" where there are fewer;
            "scores", float32 `[batch, n]`, -1e7 where there are fewer.
        """
        translator = self.translator
        tokens, truncated = translator.source_tokens(text)
        result = translator.search_texts(tokens, truncated, num_best=self.num_best)
        return {name: result[name] for name in ("translations", "scores")}

    @tf.function(
        input_signature=[_batched(tf.string, "text"), _batched(tf.string, "prefix")],
        autograph=False,
    )
    def prefix(self, text: tf.Tensor, prefix: tf.Tensor) -> Tensors:
        """Translate with given beginnings of the translations.

        Args:
            text: string `[batch]`, UTF-8.
            prefix: string `[batch]`: beginning of each translation; "": none.

        Returns:
            Same as `serving_default`; translation and score include the prefix.
        """
        text, prefix = _of_one_batch(text=text, prefix=prefix)
        return _best(self.translator.translate_with_prefix(text, prefix))

    @tf.function(
        input_signature=[
            _batched(tf.string, "text"),
            _batched(tf.float32, "temperature"),
            _batched(tf.int32, "top_k"),
            _batched(tf.float32, "top_p"),
            _batched(tf.int32, "seed"),
        ],
        autograph=False,
    )
    def sample(
        self,
        text: tf.Tensor,
        temperature: tf.Tensor,
        top_k: tf.Tensor,
        top_p: tf.Tensor,
        seed: tf.Tensor,
    ) -> Tensors:
        """Sample a random translation.

        Args:
            text: string `[batch]`, UTF-8.
            temperature: float32 `[batch]`: 1: the model's probabilities; 0, negative
                or NaN: the most likely token.
            top_k: int32 `[batch]`: sample from the k most likely tokens; 0 or negative:
                from all.
            top_p: float32 `[batch]`: sample from the most likely tokens with this total
                probability; 1 or more: from all; 0, negative or NaN: the most likely
                token.
            seed: int32 `[batch]`: the same seed gives the same translation.

        Returns:
            "translation", string `[batch]`; "log_probability", float32 `[batch]`, of
            the unmodified model, but for tokens that a rule excludes;
            "truncated", bool `[batch]`.
        """
        text, temperature, top_k, top_p, seed = _of_one_batch(
            text=text, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
        )
        translator = self.translator
        tokens, truncated = translator.source_tokens(text)
        limits = translator.output_limits(tokens)
        options = decoding.SamplingOptions(
            self._uniforms(seed), temperature, top_k, top_p
        )
        result = translator.random_outputs(tokens, limits, options)
        return {
            "translation": translator.tokenizer.detokenize(result.tokens),
            "log_probability": result.log_probs,
            "truncated": truncated,
        }

    @tf.function(input_signature=[_batched(tf.string, "text")], autograph=False)
    def align(self, text: tf.Tensor) -> Tensors:
        """Translate, and tell where each target piece comes from and how likely it is.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            Those of `serving_default`, and those that `Translator.align_batch` adds:
            "source_pieces", "source_words", "target_pieces", "attention" and
            "log_probabilities".
        """
        result = dict(self.translator.align_batch(text))
        best = _best(result)
        del result["translations"], result["scores"]
        return {**result, **best}

    @tf.function(
        input_signature=[
            _batched(tf.string, "text"),
            _batched(tf.string, "target_text"),
        ],
        autograph=False,
    )
    def score(self, text: tf.Tensor, target_text: tf.Tensor) -> Tensors:
        """Return the log probability of given translations.

        Args:
            text: string `[batch]`, UTF-8.
            target_text: string `[batch]`: a translation of each text.

        Returns:
            "log_probability", float32 `[batch]`: natural logarithm, including EOS,
            without length penalty; "num_tokens", int32 `[batch]`: tokens of the target,
            including EOS. Texts over the length limit are cut.
        """
        text, target_text = _of_one_batch(text=text, target_text=target_text)
        translator, config = self.translator, self.translator.model.config
        source, _ = translator.source_tokens(text)
        target, _ = translator.target_tokens(target_text)
        # At least one position, so that an empty batch has a shape.
        target = tf.pad(target, [[0, 0], [0, 1]], constant_values=config.pad_id)
        outputs, _ = translator.ensemble.decode(source, target)
        each = translator.ensemble.token_log_probs(outputs, target)
        return {
            "log_probability": tf.reduce_sum(each, axis=1),
            "num_tokens": translator.lengths(target),
        }

    @tf.function(input_signature=[_batched(tf.string, "text")], autograph=False)
    def document(self, text: tf.Tensor) -> Tensors:
        """Translate texts of many sentences, and keep their layout.

        Args:
            text: string `[batch]`, UTF-8: paragraphs, lists and letters as described in
                `graph_text.segment`.

        Returns:
            "translation", string `[batch]`; "truncated", bool `[batch]`, false unless a
            single character has more tokens than the length limit: sentences over it
            are translated in parts.
        """
        tokens = self.translator.tokenizer.language_tokens
        pieces, is_cut = graph_text.divide_long(
            graph_text.segment(text, self.source_language, tokens),
            lambda sentences: self.translator.source_tokens(sentences)[1],
            tokens,
        )
        sentences = graph_text.without_invisible(pieces.sentences())
        translations = self._translations(sentences)
        batch = tf.shape(text, out_type=tf.int64)[0]
        num_cut = tf.math.unsorted_segment_sum(
            tf.cast(is_cut, tf.int32), pieces.rows, batch
        )
        return {
            "translation": graph_text.join(pieces, translations, batch),
            "truncated": num_cut > 0,
        }

    def _translations(self, texts: tf.Tensor) -> tf.Tensor:
        """Translate any number of texts in batches of similar length."""
        order = tf.argsort(tf.strings.length(texts))
        texts = tf.gather(texts, order)

        def body(translations):
            start = tf.size(translations)
            found = self.translator.translate_batch(
                texts[start : start + TRANSLATION_BATCH_SIZE]
            )
            return (tf.concat([translations, found["translations"][:, 0]], axis=0),)

        (translations,) = tf.while_loop(
            lambda translations: tf.size(translations) < tf.size(texts),
            body,
            (tf.zeros([0], tf.string),),
            (tf.TensorShape([None]),),
        )
        return tf.gather(translations, tf.math.invert_permutation(order))

    @tf.function(
        input_signature=[
            _batched(tf.string, "text"),
            _batched(tf.string, "source_language"),
            _batched(tf.string, "target_language"),
        ],
        autograph=False,
    )
    def multilingual(
        self, text: tf.Tensor, source_language: tf.Tensor, target_language: tf.Tensor
    ) -> Tensors:
        """Translate between given languages, with a multilingual model.

        Args:
            text: string `[batch]`, UTF-8.
            source_language: string `[batch]`: code of the language of each text. Models
                whose sources begin with the target language accept any.
            target_language: string `[batch]`: code of the language to translate into,
                unless the text begins with another, as in ">>de<< A dog."

        Returns:
            Same as `serving_default`; "" with score -1e7 for an unknown language.
        """
        text, source_language, target_language = _of_one_batch(
            text=text, source_language=source_language, target_language=target_language
        )
        if self.translator.tokenizer.language_tokens:
            return self._into(target_language, text)
        translator = self.translator
        source = translator.tokenizer.language_ids(source_language)
        target = translator.tokenizer.language_ids(target_language)
        is_known = (source >= 0) & (target >= 0)
        tokens, truncated = translator.source_tokens(tf.where(is_known, text, ""))
        # The first token of a source is its language.
        tokens = tf.concat([tf.maximum(source, 0)[:, None], tokens[:, 1:]], axis=1)
        prefix = tf.maximum(target, 0)[:, None]
        return self._between(is_known, tokens, truncated, prefix)

    def _into(self, language: tf.Tensor, text: tf.Tensor) -> Tensors:
        """Translate with a model that is told the target language by the source."""
        translator = self.translator
        ids = translator.tokenizer.language_ids(language)
        is_known = ids >= 0
        tokens, truncated = translator.source_tokens(
            tf.where(is_known, text, ""), prefix_ids=ids
        )
        return self._between(is_known, tokens, truncated)

    def _between(self, is_known, tokens, truncated, forced_prefix=None) -> Tensors:
        """Translate tokenized texts whose languages are known, or not."""
        best = _best(self.translator.search_texts(tokens, truncated, forced_prefix))
        score = tf.where(is_known, best["score"], decoding.NEGATIVE_INFINITY)
        return {**best, "score": score}

    def _uniforms(self, seeds: tf.Tensor) -> tf.Tensor:
        """Return random numbers for every step, float32 `[batch, longest output]`."""
        settings = self.translator.decoding
        longest = settings.max_input_length + settings.extra_decode_length
        return tf.map_fn(
            lambda seed: tf.random.stateless_uniform([longest], tf.stack([seed, 0])),
            seeds,
            fn_output_signature=tf.TensorSpec([longest], tf.float32),
        )


class ParsingModule(tf.Module):
    """The signature of an exported parser.

    Args:
        parser: The parser.
        num_best: None: a parser gives one tree.
        source_language: Not needed: a parser reads sentences.

    Raises:
        ValueError: If `num_best` is given.
    """

    def __init__(
        self, parser: Parser, num_best: int | None = None, source_language: str = ""
    ):
        del source_language
        if num_best is not None:
            raise ValueError(
                "`num_best` (--nbest) is for translation models; a parser gives one "
                f"tree. Received: num_best={num_best}."
            )
        super().__init__(name="serving")
        self.parser = parser

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """Return the functions by signature name."""
        return {"parse": self.parse}

    @tf.function(input_signature=[_batched(tf.string, "text")], autograph=False)
    def parse(self, text: tf.Tensor) -> Tensors:
        """Parse.

        Args:
            text: string `[batch]`, UTF-8: sentences with words and punctuation
                separated by spaces.

        Returns:
            "tree", string `[batch]`: Penn Treebank brackets on one line, "" for a
            sentence without words; "score", float32 `[batch]`: log probability / length
            penalty; "truncated", bool `[batch]`: whether the sentence was cut to the
            input limit; "valid", bool `[batch]`: whether the model's output is a tree
            over the sentence.
        """
        return self.parser.parse_batch(text)


def _best(result: Tensors) -> Tensors:
    """Return the best hypothesis of each row of a translator's result."""
    return {
        "translation": result["translations"][:, 0],
        "score": result["scores"][:, 0],
        "truncated": result["truncated"],
    }
