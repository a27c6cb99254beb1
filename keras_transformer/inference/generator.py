"""From text to what a model writes: tokenizer, model and how to search, as a module.

What a translator and a parser share. They differ in what outputs may be, and in what is
made of them.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

import tensorflow as tf

from keras_transformer.config import DecodingConfig, check_at_least
from keras_transformer.decoding import BeamSearchResult, beam_search, no_hypotheses
from keras_transformer.decoding.beam_search import StepFunction
from keras_transformer.inference import full_pass, kv_cache, length_groups
from keras_transformer.inference.decoder_step import FEW_ROWS, decode_step
from keras_transformer.inference.prepared_weights import (
    PreparedWeights,
    StackedLayers,
    step_weights,
)
from keras_transformer.model.transformer import Transformer

Answer = TypeVar("Answer")

# More texts than these pay for an optimizer of graphs: see `started_soon`.
_FEW_TEXTS = 1000
_NO_OPTIMIZER = "disable_meta_optimizer"

# Steps between one look at what the search still needs and the next.
STEPS_AT_ONCE = 8

# Of a batch, all texts as long as the longest: bounds the memory of a search, which
# keeps something of every token.
_MOST_CHARACTERS = 2**16

# Batches that are searched beside each other: where a layer is too small for all cores,
# or one search waits for its Python, the other goes on.
BATCHES_AT_ONCE = 2


class TextSearch(tf.Module):
    """A model that reads text and writes tokens, one after the other.

    Args:
        model: The model.
        tokenizer: Of the sources: of the `tokenization` package, the one the model was
            trained with.
        decoding: How to search; the input limit is lowered where a table of learned
            positions would end within an output.
        name: Of the module.

    Raises:
        ValueError: If model, tokenizer and settings do not fit each other.
    """

    def __init__(
        self, model: Transformer, tokenizer: Any, decoding: DecodingConfig, name: str
    ):
        super().__init__(name=name)
        check_vocabulary(model, tokenizer)
        self.model = model
        self.tokenizer = tokenizer
        self.decoding = fit_positions(decoding, model)
        self._prepared: PreparedWeights | None = None
        self._stacks: StackedLayers | None = None

    def with_prepared_weights(
        self, *, has_packed_kernels: bool = True, has_stacks: bool = False
    ) -> Self:
        """Return the same search with its weights prepared once, for many searches.

        Use only when weights are final: later changes silently mix old and new weights.
        Everything is prepared anew, whatever this search holds. Not for use within a
        `tf.function`.

        Args:
            has_packed_kernels: Pack the kernels that a search's steps read. Otherwise
                each search packs them anew, all but the largest, the pre-softmax map,
                which it reads as it is. They take as much memory again as the decoder
                and that map.
            has_stacks: Keep one variable a kind of weight for all layers, except for
                what `has_packed_kernels` packs. An exported graph reads a quarter of
                the variables then, and loads faster. They take as much memory again as
                all layers.
        """
        search = self._renewed()
        if has_packed_kernels:
            has_few_rows = self.decoding.beam_size <= FEW_ROWS
            search._prepared = PreparedWeights(self.model, with_output=has_few_rows)
        if has_stacks:
            search._stacks = StackedLayers(self.model)
        return search

    @property
    def prepared_variables(self) -> list[tf.Variable]:
        """The variables of `with_prepared_weights`; none without it."""
        both = (self._prepared, self._stacks)
        return [variable for part in both if part for variable in part.variables]

    def _reading(self) -> contextlib.AbstractContextManager:
        """Return a context in which the model's layers read the stacks, if any."""
        return self._stacks.reading() if self._stacks else contextlib.nullcontext()

    def _renewed(self) -> Self:
        """Return a search of the same model, tokenizer and settings.

        Each kind of search has settings of its own.
        """
        raise NotImplementedError

    def best_outputs(
        self,
        source_tokens: tf.Tensor,
        limits: tf.Tensor,
        known: dict[str, tf.Tensor] | None = None,
        forced_prefix: tf.Tensor | None = None,
        **options: Any,
    ) -> BeamSearchResult:
        """Search for the best outputs, as `decoding` says.

        Args:
            source_tokens: int32 `[batch, source_length]`.
            limits: int32 `[batch]`, tokens an output may have.
            known: What else is known of each source, `[batch, ...]`.
            forced_prefix: As of `beam_search`.
            **options: As of `beam_search`.
        """
        step_function = self.step_function()
        if forced_prefix is None:
            forced_prefix = tf.zeros([tf.shape(limits)[0], 0], tf.int32)

        def search(source, cache, own, **bounds):
            known, prefix = own
            return beam_search(
                step_function,
                {**source, **known},
                cache,
                config=self.decoding,
                forced_prefix=prefix,
                steps_at_once=STEPS_AT_ONCE,
                window=self.model.config.attention_window,
                **bounds,
                **options,
                **self.special_ids,
            )

        nothing = no_hypotheses(
            tf.shape(limits)[0],
            longest(limits),
            self.decoding.beam_size,
            self.model.config.pad_id,
        )
        rows = (known or {}, forced_prefix)
        return self.in_length_groups(source_tokens, limits, rows, search, nothing)

    def in_length_groups(
        self,
        source_tokens: tf.Tensor,
        limits: tf.Tensor,
        rows: Any,
        decode: Callable[..., Answer],
        found: Answer,
    ) -> Answer:
        """Encode and decode short sources apart from those that are far longer.

        Args:
            source_tokens: int32 `[batch, source_length]`.
            limits: int32 `[batch]`, tokens an output may have.
            rows: A nest of tensors `[batch, ...]`: what else `decode` needs.
            decode: A function of `decoding`. Gets what its steps need to know of each
                source of a group, an empty cache, the group's `rows`, and the arguments
                `max_lengths` and `max_steps`.
            found: As of `length_groups.in_groups`.
        """

        def answer(group, width):
            tokens, limits, rows = group
            with self._reading():
                source = full_pass.start(self.model, tokens[:, :width])
            cache = kv_cache.empty(
                self.model.config, tf.shape(limits)[0], 0, self.model.compute_dtype
            )
            return decode(
                source, cache, rows, max_lengths=limits, max_steps=longest(limits)
            )

        return length_groups.in_groups(
            self.widths(source_tokens), (source_tokens, limits, rows), answer, found
        )

    def step_function(self) -> StepFunction:
        """Return the model's step, its weights prepared."""
        prepared = self._prepared.read() if self._prepared else None
        with self._reading():
            weights = step_weights(self.model, prepared)
        return functools.partial(decode_step, self.model.config, weights)

    def decode(
        self, source_tokens: tf.Tensor, target_tokens: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Run pairs through the model, without search.

        Args:
            source_tokens: int32 `[batch, source_length]`.
            target_tokens: int32 `[batch, target_length]`, as they are.

        Returns:
            What `full_pass.decode` returns.
        """
        inputs = self.model.shift_right(target_tokens)
        with self._reading():
            return full_pass.decode(self.model, source_tokens, inputs)

    @property
    def special_ids(self) -> dict[str, int]:
        """The ids of BOS, EOS and padding, as `decoding` takes them."""
        config = self.model.config
        return {name: getattr(config, name) for name in ("bos_id", "eos_id", "pad_id")}

    def output_limits(self, source_tokens: tf.Tensor) -> tf.Tensor:
        """Return how many tokens outputs may have, int32 `[batch]`; 0: no words."""
        lengths = self.lengths(source_tokens)
        return tf.where(lengths > 1, lengths + self.decoding.extra_decode_length, 0)

    def source_tokens(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Cut texts into subwords as the model reads them, in the graph.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            int32 `[batch, source_length]`, each ended by EOS, then padding; and bool
            `[batch]`, which were cut to `max_input_length` tokens.
        """
        config = self.model.config
        tokens = tf.cast(self.tokenizer.tokenize(text), tf.int32)
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        most = self.decoding.max_input_length - 1
        ends = tf.minimum(lengths, most)
        width = tf.reduce_max(tf.concat([ends, [0]], axis=0)) + 1
        # Not by joining ragged tensors: that is 130 operations.
        dense = tokens.to_tensor(config.pad_id, shape=tf.stack([-1, width]))
        is_end = tf.range(width) == ends[:, tf.newaxis]
        return tf.where(is_end, config.eos_id, dense), lengths > most

    def widths(self, tokens: tf.Tensor) -> tf.Tensor:
        """Return the width of each row without padding at its end, int32 `[batch]`.

        At least 1, also of a row that is nothing else.
        """
        places = tf.range(1, tf.shape(tokens)[1] + 1)
        ends = tf.where(tokens != self.model.config.pad_id, places, 0)
        return tf.maximum(tf.reduce_max(ends, axis=1), 1)

    def lengths(self, tokens: tf.Tensor) -> tf.Tensor:
        """Count the tokens of each row that are no padding, int32 `[batch]`."""
        is_real = tf.cast(tokens != self.model.config.pad_id, tf.int32)
        return tf.reduce_sum(is_real, axis=1)


def longest(limits: tf.Tensor) -> tf.Tensor:
    """Return the largest of int32 `[batch]`, 0 for none."""
    return tf.reduce_max(tf.concat([limits, [0]], axis=0))


def in_batches(
    texts: Sequence[str],
    batch_size: int,
    answer: Callable[[list[str]], Sequence[Answer]],
) -> list[Answer]:
    """Answer texts in batches of about equal length, and return answers in order.

    Args:
        texts: What to answer.
        batch_size: Texts answered at once; fewer where they are long.
        answer: Gives one answer for each text of a batch. Called by
            `BATCHES_AT_ONCE` threads.

    Raises:
        ValueError: If `batch_size` is below 1.
    """
    answered = in_blocks(texts, batch_size, answer, block_size=len(texts))
    return [each for _, ready in answered for each in ready]


def in_blocks(
    texts: Sequence[str],
    batch_size: int,
    answer: Callable[[list[str]], Sequence[Answer]],
    block_size: int,
) -> Iterator[tuple[int, list[Answer]]]:
    """Answer texts as `in_batches` does, and yield answers in order as they come.

    No batch waits for the end of a block. Close the iterator to stop early.

    Args:
        texts: What to answer.
        batch_size: Texts answered at once; fewer where they are long.
        answer: As in `in_batches`.
        block_size: Successive texts that are sorted by length together.

    Yields:
        After each batch how many texts it had, and the answers that come next.

    Raises:
        ValueError: If `batch_size` is below 1.
    """
    check_at_least("batch_size", batch_size, 1)
    lengths = [len(text) for text in texts]
    batches = [
        [start + number for number in batch]
        for start in range(0, len(texts), max(block_size, 1))
        for batch in _cut_by_length(lengths[start : start + block_size], batch_size)
    ]

    def answer_rows(rows):
        return list(zip(rows, answer([texts[row] for row in rows]), strict=True))

    pool = concurrent.futures.ThreadPoolExecutor(BATCHES_AT_ONCE)
    answers: dict[int, Answer] = {}
    num_yielded = 0
    try:
        # The first traces the graph, which is not for several threads.
        first = [answer_rows(batch) for batch in batches[:1]]
        for batch in itertools.chain(first, pool.map(answer_rows, batches[1:])):
            answers.update(batch)
            ready = []
            while num_yielded in answers:
                ready.append(answers.pop(num_yielded))
                num_yielded += 1
            yield len(batch), ready
    finally:
        pool.shutdown(cancel_futures=True)


def _cut_by_length(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return the numbers of the texts of each batch, short ones first.

    Args:
        lengths: Characters of each text.
        batch_size: Texts of a batch at most.
    """
    batches: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        most = min(batch_size, _MOST_CHARACTERS // max(lengths[number], 1))
        if not batches or len(batches[-1]) >= most:
            batches.append([])
        batches[-1].append(number)
    return batches


@contextlib.contextmanager
def started_soon(num_texts: int) -> Iterator[None]:
    """Run graphs as they were traced, where there is little to search.

    TensorFlow's optimizer takes 1.6 s of the base model's first search on a CPU, and
    finds little in a search's graph: without it the next one takes as long as with it,
    a model of 2 M weights a tenth longer. A parser of 7 M weights and beam 21 starts
    1.3 s sooner without, and is no slower afterwards.

    Args:
        num_texts: Texts to be answered within this context.
    """
    is_little = num_texts <= _FEW_TEXTS
    before = tf.config.optimizer.get_experimental_options()
    try:
        if is_little:
            tf.config.optimizer.set_experimental_options({_NO_OPTIMIZER: True})
        yield
    finally:
        if is_little:
            was_off = before.get(_NO_OPTIMIZER, False)
            tf.config.optimizer.set_experimental_options({_NO_OPTIMIZER: was_off})


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
