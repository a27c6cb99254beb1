"""A model that reads text and generates tokens: tokenizer, model and search.

`Translator` and `Parser` are both generators. They differ in which outputs are allowed
and in how tokens become text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import tensorflow as tf

from keras_transformer import hardware
from keras_transformer.config import INT8, DecodingConfig
from keras_transformer.decoding import (
    BeamSearchResult,
    SampleResult,
    SamplingOptions,
    beam_search,
    no_hypotheses,
    no_sample,
    sample,
)
from keras_transformer.decoding.beam_search import StepFunction
from keras_transformer.decoding.rules import TokenRule, repetition
from keras_transformer.decoding.rules.single_tokens import begin_with, never
from keras_transformer.inference import length_groups
from keras_transformer.inference.clean_text import clean
from keras_transformer.inference.decoder_step import FEW_ROWS
from keras_transformer.inference.ensemble import Ensemble
from keras_transformer.inference.search_programs import SearchPrograms
from keras_transformer.inference.shortlist import OutputIds, Shortlist
from keras_transformer.model.transformer import Transformer
from keras_transformer.translation import program_sizes
from keras_transformer.translation.compiling_beside import CompilerBeside
from keras_transformer.translation.program_sizes import Size
from keras_transformer.wording import shown

Answer = TypeVar("Answer")

# Steps of a search between two compactions.
STEPS_AT_ONCE = 8


class SequenceGenerator(tf.Module):
    """A model that reads text and generates tokens.

    Args:
        model: The model.
        tokenizer: The source tokenizer that the model was trained with, from the
            `tokenization` package.
        decoding: Settings of the search. With learned positions the input limit is
            lowered, so that every output fits the table.
        name: Name of the module.
        others: Further models of an ensemble.
        token_rules: Further rules on which tokens may come next, see
            `decoding.rules.TokenRule`. Their `source` has "source_tokens", int32
            `[batch, source_length]`.

    Raises:
        TypeError: If the first are not a model and its tokenizer.
        ValueError: If models, tokenizer and settings do not match.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: Any,
        decoding: DecodingConfig,
        name: str,
        others: Sequence[Transformer] = (),
        token_rules: Sequence[TokenRule] = (),
    ):
        super().__init__(name=name)
        _check_types(model, tokenizer)
        self.ensemble = Ensemble([model, *others])
        check_vocabulary(model, tokenizer)
        self.model = model
        self.tokenizer = tokenizer
        self.decoding = fit_positions(decoding, self.ensemble.num_positions)
        self.token_rules = tuple(token_rules)
        # Set by a subclass; None: a search chooses from the whole vocabulary.
        self.shortlist: Shortlist | None = None
        # Set by `with_prepared_weights`.
        self.programs: SearchPrograms | None = None
        self.compiler: CompilerBeside | None = None

    def with_prepared_weights(
        self,
        *,
        has_packed_kernels: bool = True,
        has_stacks: bool = False,
        program_sizes: Sequence[Size] = (),
    ) -> Self:
        """Return a copy that prepares its weights once, for many searches.

        Weights of 8 bits are prepared: with them it returns itself.
        Use only when weights are final: later changes silently mix old and new weights.
        Without packed kernels and stacks there is no copy of a weight, and they may
        change. Must not be called within a `tf.function`.

        Args:
            has_packed_kernels: Pack the kernels of the decoder once. Otherwise each
                search packs them, except the largest, the pre-softmax kernel, which
                stays unpacked. Needs additional memory of the size of the decoder and
                the pre-softmax kernel.
            has_stacks: Store each kind of weight as one variable for all layers, except
                those packed. An exported graph then reads a quarter of the variables
                and loads faster. Needs additional memory of the size of all layers.
            program_sizes: Sizes of searches that can be compiled, such as
                `program_sizes` returns; they are, beside further batches, after some of
                that size.
        """
        if self.ensemble.is_quantized:
            return self
        generator = self._copy()
        generator.ensemble.prepare(
            has_packed_kernels, self._has_packed_output, has_stacks
        )
        if program_sizes:
            programs = SearchPrograms(
                generator._whole_search, program_sizes, self.model.config.pad_id
            )
            generator.programs = programs
            generator.compiler = CompilerBeside(
                programs.signatures(), programs.sizes, self.ensemble.num_step_weights
            )
        return generator

    def quantized(self, *, for_any_cpu: bool = False) -> Self:
        """Return a copy whose weights are 8-bit integers.

        On a CPU that is fast with them a search multiplies the integers, on any other
        the floats that they stand for. There are no programs for XLA.
        Use only when weights are final. Must not be called within a `tf.function`.

        Args:
            for_any_cpu: For an export: whether the CPU that loads it decides that. Such
                a copy cannot search itself. Otherwise this machine decides.

        Raises:
            ValueError: If the model does not compute in float32.
        """
        for model in self.ensemble.models:
            if model.compute_dtype != "float32":
                raise ValueError(
                    "Weights of 8 bits are for a model that computes in float32. "
                    f"Received: {model.compute_dtype}. Load it with "
                    'precision="float32", or open it with precision="int8".'
                )
        generator = self._copy()
        generator.ensemble.quantize(self._has_packed_output, for_any_cpu)
        return generator

    def program_sizes(self, device: str) -> list[Size]:
        """Return the sizes of searches that pay to compile, see `search_programs`.

        None with a shortlist, whose sizes follow from the words of a batch, and for a
        parser.

        Args:
            device: "cpu" or "gpu".
        """
        if self.shortlist is not None:
            return []
        weights, longest = (
            self.ensemble.num_step_weights,
            self.decoding.max_input_length,
        )
        return program_sizes.sizes_for(device, weights, longest)

    def sizes_of_large_batches(self) -> list[Size]:
        """Return the sizes that pay to compile here if there are hundreds of texts.

        None on a CPU: its programs are for a few sentences.
        """
        return self.program_sizes("gpu") if hardware.has_gpu() else []

    @property
    def precision(self) -> str:
        """The dtype of weights and products, such as "float32"; or "int8"."""
        return INT8 if self.ensemble.is_quantized else self.model.compute_dtype

    @property
    def _has_packed_output(self) -> bool:
        """Whether a packed pre-softmax kernel pays; a shortlist has its own."""
        return self.decoding.beam_size <= FEW_ROWS and not self.shortlist

    @property
    def searched_variables(self) -> list[tf.Variable]:
        """All variables: of the models, their prepared weights and a shortlist."""
        listed = self.shortlist.variables if self.shortlist else ()
        programs = self.programs.variables if self.programs else ()
        return [*self.ensemble.all_variables, *listed, *programs]

    def _copy(self) -> Self:
        """Return a generator with the same model, tokenizer and settings."""
        raise NotImplementedError

    def best_outputs(
        self,
        source_tokens: tf.Tensor,
        limits: tf.Tensor,
        forced_prefix: tf.Tensor | None = None,
        rule_inputs: Mapping[str, tf.Tensor] | None = None,
        ids: OutputIds | None = None,
        num_best: int | tf.Tensor = 1,
    ) -> BeamSearchResult:
        """Search for the best outputs with the settings of `decoding`.

        Args:
            source_tokens: int32 `[batch, source_length]`.
            limits: int32 `[batch]`, most tokens of an output.
            forced_prefix: Same as in `beam_search`.
            rule_inputs: What rules read beside `rule_inputs()`, each `[batch, ...]`.
            ids: The ids to choose from; None: all.
            num_best: Same as in `beam_search`.
        """
        batch = tf.shape(limits)[0]
        ids = ids or OutputIds(self.model.config)
        if forced_prefix is None:
            forced_prefix = tf.zeros([batch, 0], tf.int32)
        known = self.rule_inputs(source_tokens, forced_prefix)
        known.update(rule_inputs or {})

        def decode(tokens, limits, rows):
            known, prefix = rows

            def search():
                return self._beam_search(
                    self.step_function(ids),
                    ids,
                    tokens,
                    known,
                    max_lengths=limits,
                    max_steps=longest(limits),
                    forced_prefix=prefix,
                    steps_at_once=STEPS_AT_ONCE,
                    num_best=num_best,
                )

            if self.programs is None:
                return self.ensemble.by_cpu(search)
            return self.programs.search(tokens, limits, prefix, num_best, search)

        empty = no_hypotheses(
            batch,
            longest(limits),
            self.decoding.beam_size,
            ids.special_ids["pad_id"],
        )
        rows = (known, ids.of_search(forced_prefix))
        found = self.in_length_groups(source_tokens, limits, rows, decode, empty)
        return found._replace(tokens=ids.of_model(found.tokens))

    def _whole_search(self, tokens, limits, prefix, num_best) -> BeamSearchResult:
        """Search a batch in one loop, whose sizes follow from those of the inputs."""
        width, prefix_width = tf.shape(tokens)[1], tf.shape(prefix)[1]
        most = width + self.decoding.extra_decode_length
        if (longest_output := self.decoding.max_output_length) is not None:
            most = tf.minimum(most, longest_output)
        usual = width + width // 4 + prefix_width
        return self._beam_search(
            self.ensemble.step_function(for_xla=True),
            OutputIds(self.model.config),
            tokens,
            self.rule_inputs(tokens, prefix),
            max_lengths=limits,
            max_steps=self._whole_columns(most + prefix_width),
            rooms=[self._whole_columns(usual // 2), self._whole_columns(usual)],
            forced_prefix=prefix,
            num_best=num_best,
        )

    def _whole_columns(self, steps: tf.Tensor) -> tf.Tensor:
        """Round up, so that the columns of the cache are a multiple of eight.

        A GPU copies any other cache in each step, to fill it up.
        """
        unit = 8 // math.gcd(8, self.decoding.beam_size)
        return (steps + unit - 1) // unit * unit

    def _beam_search(
        self, step_function: StepFunction, ids, tokens, known, **options
    ) -> BeamSearchResult:
        """Encode sources and search, with what is the same in every search."""
        return beam_search(
            step_function,
            {**self.ensemble.start(tokens), **known},
            self.ensemble.empty_cache(tf.shape(tokens)[0]),
            config=self.decoding,
            window=self.ensemble.attention_window,
            token_rules=[ids.rule_of_search(rule) for rule in self.rules()],
            unscored_steps=self.unscored_steps,
            **options,
            **ids.special_ids,
        )

    def random_outputs(
        self,
        source_tokens: tf.Tensor,
        limits: tf.Tensor,
        options: SamplingOptions,
    ) -> SampleResult:
        """Sample an output for each source, by the same rules as a search.

        Args:
            source_tokens: int32 `[batch, source_length]`.
            limits: int32 `[batch]`, most tokens of an output.
            options: How to sample.
        """
        batch = tf.shape(limits)[0]
        ids = self.output_ids(source_tokens)
        rules = [*self.rules(), *repetition.rules_of(self.decoding)]
        if (prefix_id := self.tokenizer.target_prefix_id) is not None:
            rules.append(begin_with(prefix_id))
        rules = [ids.rule_of_search(rule) for rule in rules]
        known = self.rule_inputs(source_tokens, tf.zeros([batch, 0], tf.int32))

        def draw(tokens, limits, rows):
            known, options = rows
            return self.ensemble.by_cpu(
                lambda: sample(
                    self.step_function(ids),
                    {**self.ensemble.start(tokens), **known},
                    self.ensemble.empty_cache(tf.shape(tokens)[0]),
                    max_lengths=limits,
                    options=options,
                    token_rules=rules,
                    **ids.special_ids,
                )
            )

        empty = no_sample(batch, longest(limits), ids.special_ids["pad_id"])
        rows = (known, options)
        found = self.in_length_groups(source_tokens, limits, rows, draw, empty)
        return found._replace(tokens=ids.of_model(found.tokens))

    def output_ids(
        self, source_tokens: tf.Tensor, forced_prefix: tf.Tensor | None = None
    ) -> OutputIds:
        """Return the ids that a search of these sources chooses from.

        Args:
            source_tokens: int32 `[batch, source_length]`.
            forced_prefix: Same as in `beam_search`.
        """
        if self.shortlist is None:
            return OutputIds(self.model.config)
        return self.shortlist.ids_of(self.model.config, source_tokens, forced_prefix)

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """The ids that a search never chooses; a forced prefix may have them."""
        return self.model.config.suppressed_ids

    def rules(self) -> list[TokenRule]:
        """Return the rules on which tokens may come next, on the model's ids."""
        suppressed = self.suppressed_ids
        return [*([never(suppressed)] if suppressed else []), *self.token_rules]

    def rule_inputs(
        self, source_tokens: tf.Tensor, forced_prefix: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Return what `rules` read of each sentence, a tensor `[batch, ...]` each."""
        del forced_prefix
        return {"source_tokens": source_tokens} if self.token_rules else {}

    def in_length_groups(
        self,
        source_tokens: tf.Tensor,
        limits: tf.Tensor,
        rows: Any,
        decode: Callable[..., Answer],
        found: Answer,
    ) -> Answer:
        """Encode and decode short sources separately from much longer ones.

        Args:
            source_tokens: int32 `[batch, source_length]`.
            limits: int32 `[batch]`, most tokens of an output.
            rows: A nest of tensors `[batch, ...]`: further inputs of `decode`.
            decode: Called per group with its sources, without the padding of longer
                groups, its `limits` and its `rows`.
            found: Same as in `length_groups.in_groups`.
        """

        def answer(group, width):
            tokens, limits, rows = group
            return decode(tokens[:, :width], limits, rows)

        return length_groups.in_groups(
            self.widths(source_tokens), (source_tokens, limits, rows), answer, found
        )

    def step_function(self, ids: OutputIds) -> StepFunction:
        """Return the step of the decoder with its weights bound.

        Args:
            ids: The ids that the step takes and gives logits of.
        """
        decode_step = self.ensemble.step_function(ids.listed)

        def step(tokens, *inputs):
            return decode_step(ids.of_model(tokens), *inputs)

        return step

    @property
    def unscored_steps(self) -> int:
        """Number of first tokens of an output that the tokenizer gives: 0 or 1."""
        return int(self.tokenizer.target_prefix_id is not None)

    def output_limits(self, source_tokens: tf.Tensor) -> tf.Tensor:
        """Return the most tokens of each output, int32 `[batch]`; 0 for no words."""
        lengths = self.lengths(source_tokens) + self.decoding.extra_decode_length
        if (most := self.decoding.max_output_length) is not None:
            lengths = tf.minimum(lengths, most)
        return tf.where(self.has_words(source_tokens), lengths, 0)

    def has_words(self, source_tokens: tf.Tensor) -> tf.Tensor:
        """Return which sources have more than a language and EOS, bool `[batch]`."""
        first = {*self.tokenizer.languages.values(), self.tokenizer.source_prefix_id}
        if not (first := sorted(first - {None})):
            return self.lengths(source_tokens) > 1
        has_language = tf.reduce_any(tf.equal(source_tokens[:, :1], first), axis=1)
        return self.lengths(source_tokens) > 1 + tf.cast(has_language, tf.int32)

    def source_tokens(
        self, text: tf.Tensor, prefix_ids: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Tokenize texts for the model, in the graph.

        White space at the ends of a text does not count, nor do symbols before it in a
        text that has nothing else; see `white_space`.

        Args:
            text: string `[batch]`, UTF-8.
            prefix_ids: Same as in `Tokenizer.tokenize_told`; None: the tokenizer's own.

        Returns:
            int32 `[batch, source_length]`, each with EOS, then padding; and bool
            `[batch]`, whether the text was cut to `max_input_length` tokens.
        """
        cleaned = clean(text, self.tokenizer.markers)
        if prefix_ids is None:
            return self._cut_and_end(self.tokenizer.tokenize(cleaned))
        return self._cut_and_end(self.tokenizer.tokenize_told(cleaned, prefix_ids))

    def target_tokens(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Tokenize target texts; arguments and results same as in `source_tokens`."""
        return self._cut_and_end(self.tokenizer.tokenize_target(clean(text)))

    def _cut_and_end(self, tokens: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Cut rows at the input limit and append EOS; see `source_tokens`."""
        config = self.model.config
        tokens = tf.cast(tokens, tf.int32)
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        most = self.decoding.max_input_length - 1
        ends = tf.minimum(lengths, most)
        width = tf.reduce_max(tf.concat([ends, [0]], axis=0)) + 1
        # Concatenating ragged tensors instead would take 130 operations.
        dense = tokens.to_tensor(config.pad_id, shape=tf.stack([-1, width]))
        is_end = tf.range(width) == ends[:, tf.newaxis]
        return tf.where(is_end, config.eos_id, dense), lengths > most

    def widths(self, tokens: tf.Tensor) -> tf.Tensor:
        """Return the width of each row without trailing padding, int32 `[batch]`.

        At least 1, also for a row of padding only.
        """
        positions = tf.range(1, tf.shape(tokens)[1] + 1)
        ends = tf.where(tokens != self.model.config.pad_id, positions, 0)
        return tf.maximum(tf.reduce_max(ends, axis=1), 1)

    def lengths(self, tokens: tf.Tensor) -> tf.Tensor:
        """Count the tokens of each row that are not padding, int32 `[batch]`."""
        is_real = tf.cast(tokens != self.model.config.pad_id, tf.int32)
        return tf.reduce_sum(is_real, axis=1)


def _check_types(model: Any, tokenizer: Any) -> None:
    """Raise TypeError for a path, or for arguments that are swapped or missing."""
    if not isinstance(model, Transformer):
        raise TypeError(
            "`model` must be a Transformer, such as `load_model` returns. Received: "
            f"{shown(model)}."
        )
    if not hasattr(tokenizer, "tokenize"):
        raise TypeError(
            "`tokenizer` must be the tokenizer that the model was trained with, such "
            f"as `tokenization.load` returns. Received: {shown(tokenizer)}."
        )


def longest(limits: tf.Tensor) -> tf.Tensor:
    """Return the maximum of int32 `[batch]`, or 0 for an empty batch."""
    return tf.reduce_max(tf.concat([limits, [0]], axis=0))


def check_vocabulary(model: Transformer, tokenizer: Any) -> None:
    """Raise ValueError unless vocabulary size and special ids are the model's."""
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


def fit_positions(
    decoding: DecodingConfig, num_positions: int | None
) -> DecodingConfig:
    """Lower the input limit so that every output fits a table of learned positions.

    Args:
        decoding: Settings of the search.
        num_positions: Rows of the table; None: there is none.

    Raises:
        ValueError: If the table is too short for `extra_decode_length`.
    """
    if num_positions is None:
        return decoding
    room = num_positions - decoding.extra_decode_length
    if room < 2:
        raise ValueError(
            "`extra_decode_length` must leave room in the table of learned positions. "
            f"Received: extra_decode_length={decoding.extra_decode_length}, "
            f"num_positions={num_positions}."
        )
    limit = min(decoding.max_input_length, room)
    return dataclasses.replace(decoding, max_input_length=limit)
