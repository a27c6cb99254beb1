"""The models of a search: one, or several whose probabilities are averaged.

Each model has its own encoder output and cache; only the probabilities of the next
token meet. The paper has no ensembles: it averages checkpoints of one run, §6.1.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from keras_transformer import hardware
from keras_transformer.config import ModelConfig
from keras_transformer.inference import full_pass, kv_cache, prepared_weights
from keras_transformer.inference.decoder_step import decode_step
from keras_transformer.inference.kv_cache import LayerCache
from keras_transformer.inference.loaded_tensors import WithoutInt8
from keras_transformer.inference.prepared_weights import (
    PreparedWeights,
    StackedLayers,
    step_weights,
)
from keras_transformer.inference.quantized_weights import (
    FloatWeights,
    QuantizedWeights,
)
from keras_transformer.model.transformer import Transformer

Answer = TypeVar("Answer")


class Ensemble(tf.Module):
    """Models with the same vocabulary that generate one output together.

    Args:
        models: One or more built models. They may differ in size.

    Raises:
        ValueError: If they do not have the same ids.
    """

    def __init__(self, models: Sequence[Transformer]):
        super().__init__(name="ensemble")
        check_same_ids([model.config for model in models])
        self._members = [_Member(model) for model in models]
        self._multiplies_integers = self._is_decided_later = False

    @property
    def models(self) -> list[Transformer]:
        """The models, in their order."""
        return [member.model for member in self._members]

    @property
    def all_variables(self) -> list[tf.Variable]:
        """The variables of the models and of their prepared weights."""
        return [variable for each in self._members for variable in each.all_variables]

    @property
    def attention_window(self) -> int | None:
        """Last steps that any of the models reads; None: all."""
        windows = [model.config.attention_window for model in self.models]
        return None if None in windows else max(windows)

    @property
    def num_positions(self) -> int | None:
        """Most tokens of an output that all models have positions for; None: any."""
        learned = [
            model.config.num_positions
            for model in self.models
            if model.config.position_encoding == "learned"
        ]
        return min(learned, default=None)

    @property
    def num_step_weights(self) -> int:
        """Number of weights that a step of a search reads."""
        return sum(
            model.decoder.count_params()
            + model.config.output_vocab_size * model.config.d_model
            for model in self.models
        )

    def check_is_single(self, files: str) -> None:
        """Raise ValueError if there are several models; `files` cannot hold them."""
        if len(self.models) > 1:
            raise ValueError(
                f"{files} hold one model, and this is an ensemble of "
                f"{len(self.models)}. Convert one of them."
            )

    def quantize(self, with_output: bool, for_any_cpu: bool) -> None:
        """Store the weights as 8-bit integers; they must not change later.

        Args:
            with_output: Same as in `prepare`, where no integers are multiplied.
            for_any_cpu: Whether the CPU that runs a search decides whether to multiply
                integers, in the graph. Otherwise this machine decides, now.
        """
        self._multiplies_integers = hardware.has_fast_int8()
        self._is_decided_later = for_any_cpu
        for member in self._members:
            member.quantized = QuantizedWeights(member.model)
            if for_any_cpu or not self._multiplies_integers:
                member.floats = FloatWeights(
                    member.model, member.quantized, with_output
                )
                if not for_any_cpu:
                    member.floats.loaded.fill()

    @property
    def is_quantized(self) -> bool:
        """Whether the weights are 8-bit integers."""
        return self._members[0].quantized is not None

    @property
    def loaded(self) -> list[WithoutInt8]:
        """What an export computes when it is loaded."""
        return [each.floats.loaded for each in self._members if each.floats]

    def by_cpu(self, search: Callable[[], Answer]) -> Answer:
        """Run a search with the weights that are fastest on the CPU that runs it.

        Args:
            search: Calls `start` and `step_function`, in a graph.
        """
        if not self._is_decided_later:
            return search()

        def branch(multiplies_integers):
            def run():
                self._multiplies_integers = multiplies_integers
                try:
                    return search()
                finally:
                    self._multiplies_integers = False

            # One operation for the branch that is not taken, and one copy of the
            # matrices that products of integers keep.
            return tf.function(
                run, autograph=False, experimental_attributes={"_noinline": True}
            )

        return tf.cond(self.loaded[0].read(), branch(False), branch(True))

    def prepare(
        self, has_packed_kernels: bool, with_output: bool, has_stacks: bool
    ) -> None:
        """Prepare the weights once, for many searches; they must not change later.

        Args:
            has_packed_kernels: Same as in `SequenceGenerator.with_prepared_weights`.
            with_output: Whether that includes the pre-softmax kernel.
            has_stacks: Same as in `SequenceGenerator.with_prepared_weights`.
        """
        for member in self._members:
            if has_packed_kernels:
                member.packed = PreparedWeights(member.model, with_output)
            if has_stacks:
                member.stacks = StackedLayers(member.model)

    def start(self, source_tokens: tf.Tensor) -> dict[str, Any]:
        """Encode the sources with each model: `source` of the step function.

        Args:
            source_tokens: int32 `[batch, source_length]`.
        """
        integers = self._multiplies_integers
        return {
            "models": [each.start(source_tokens, integers) for each in self._members]
        }

    def empty_cache(self, batch_size: int | tf.Tensor) -> list[list[LayerCache]]:
        """Return a cache without columns for each model."""
        return [
            kv_cache.empty(model.config, batch_size, 0, model.compute_dtype)
            for model in self.models
        ]

    def step_function(
        self, listed: tf.Tensor | None = None, *, for_xla: bool = False
    ) -> Callable:
        """Return `decoder_step.decode_step` of all models, with their weights bound.

        Its source is from `start`, its cache from `empty_cache`, its logits are from
        `mean_logits`.

        Args:
            listed: int32 `[size]`, ids that the step gives logits of; None: all.
            for_xla: Whether the search is one XLA program.
        """
        integers = self._multiplies_integers
        steps = [
            member.step_function(listed, for_xla, integers) for member in self._members
        ]

        def step(tokens, number, past, source, caches):
            answers = [
                one_step(tokens, number, past, own_source, cache)
                for one_step, own_source, cache in zip(
                    steps, source["models"], caches, strict=True
                )
            ]
            logits, caches = zip(*answers, strict=True)
            return mean_logits(logits), list(caches)

        return step

    def decode(
        self, source_tokens: tf.Tensor, target_tokens: tf.Tensor
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Compute decoder outputs and attention weights of given pairs, without search.

        Args:
            source_tokens: int32 `[batch, source_length]`.
            target_tokens: int32 `[batch, target_length]`, not shifted.

        Returns:
            The decoder output of each model, and the attention weights of the first,
            as in `full_pass.decode`.
        """
        pairs = [each.decode(source_tokens, target_tokens) for each in self._members]
        return [output for output, _ in pairs], pairs[0][1]

    def token_log_probs(
        self, decoder_outputs: Sequence[tf.Tensor], target_tokens: tf.Tensor
    ) -> tf.Tensor:
        """Return the log probability of each token of given targets, in the graph.

        Args:
            decoder_outputs: For each model float `[batch, target_length, d_model]`,
                from `decode`.
            target_tokens: int32 `[batch, target_length]`, not shifted.

        Returns:
            float32 `[batch, target_length]`, natural logarithms; 0 at the padding.
        """

        logits_of = [member.logits_function() for member in self._members]

        def log_probs(step):
            """Handle one position: logits of all positions would not fit in memory."""
            *states, tokens = step
            logits = mean_logits(
                [
                    logits(own[:, tf.newaxis])[:, 0]
                    for logits, own in zip(logits_of, states, strict=True)
                ]
            )
            own = tf.gather(logits, tokens, batch_dims=1)
            return own - tf.reduce_logsumexp(logits, axis=-1)

        by_position = [tf.transpose(output, [1, 0, 2]) for output in decoder_outputs]
        each = tf.map_fn(
            log_probs,
            (*by_position, tf.transpose(target_tokens)),
            fn_output_signature=tf.TensorSpec([None], tf.float32),
        )
        is_real = target_tokens != self.models[0].config.pad_id
        return tf.where(is_real, tf.transpose(each), 0.0)


class _Member(tf.Module):
    """A model and its prepared or quantized weights, if any."""

    def __init__(self, model: Transformer):
        super().__init__(name="member")
        self.model = model
        self.packed: PreparedWeights | None = None
        self.stacks: StackedLayers | None = None
        self.quantized: QuantizedWeights | None = None
        self.floats: FloatWeights | None = None

    @property
    def all_variables(self) -> list[tf.Variable]:
        prepared = (self.packed, self.stacks, self.quantized)
        return [
            *(weight.value for weight in self.model.weights),
            *(variable for part in prepared if part for variable in part.variables),
        ]

    def _reading(self) -> contextlib.AbstractContextManager:
        """Return a context in which the layers read the stored variables, if any."""
        stored = self.quantized or self.stacks
        return stored.reading() if stored else contextlib.nullcontext()

    def start(self, source_tokens, integers):
        if integers:
            return self.quantized.start(source_tokens)
        with self.floats.reading() if self.floats else self._reading():
            return full_pass.start(self.model, source_tokens)

    def step_function(self, listed, for_xla, integers):
        weights = self._step_weights(listed, for_xla, integers)

        def step(*inputs):
            return decode_step(self.model.config, weights, *inputs)

        return step

    def _step_weights(self, listed, for_xla, integers):
        if integers:
            return self.quantized.step_weights(listed)
        if self.floats:
            with self.floats.reading():
                return step_weights(self.model, self.floats.prepared(), listed)
        with self._reading():
            if for_xla:
                prepared = prepared_weights.for_xla(self.model, self.packed)
            else:
                prepared = self.packed.read() if self.packed else None
            return step_weights(self.model, prepared, listed)

    def decode(self, source_tokens, target_tokens):
        inputs = self.model.shift_right(target_tokens)
        with self._reading():
            return full_pass.decode(self.model, source_tokens, inputs)

    def logits_function(self):
        """Return the pre-softmax map, whose matrix is read here and now."""
        reading, embedding = self._reading(), self.model.output_embedding
        with reading:
            embedding.embeddings.value  # noqa: B018  the context caches it

        def logits(states):
            with reading:
                return embedding.logits(states)

        return logits


def mean_logits(logits: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return logits of the mean of several models' probabilities.

    Args:
        logits: For each model float32 `[..., size]`.

    Returns:
        float32 `[..., size]`: of a single model its logits, of several the natural
        logarithms of the mean probabilities.
    """
    if len(logits) == 1:
        return logits[0]
    log_probs = tf.stack([tf.nn.log_softmax(own) for own in logits])
    return tf.reduce_logsumexp(log_probs, axis=0) - math.log(len(logits))


def check_same_ids(configs: Sequence[ModelConfig]) -> None:
    """Raise ValueError unless all models read and write the same ids."""
    for name in (
        *("vocab_size", "output_vocab_size", "suppressed_ids"),
        *("pad_id", "bos_id", "eos_id"),
    ):
        values = [getattr(config, name) for config in configs]
        if any(value != values[0] for value in values):
            raise ValueError(
                "The models of an ensemble must have the same vocabulary, but their "
                f"`{name}` are {', '.join(map(str, values))}."
            )
