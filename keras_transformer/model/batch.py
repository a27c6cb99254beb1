"""Batches of pairs, from the structures that `fit`, `evaluate` and `predict` take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model import token_checks

Tensor = Any

_PAIRS = (
    "(source_tokens, target_tokens), ((source_tokens, decoder_inputs), labels) or "
    "dicts with these names"
)


class Batch(NamedTuple):
    """Rows of pairs; None for what was not given.

    Attributes:
        source: int32 `[batch, source_length]`.
        target: The tokens to predict, int32 `[batch, target_length]`.
        decoder_inputs: The target shifted right, int32 `[batch, target_length]`.
        weights: Factor on each token of the target, float32 `[batch, 1]` or
            `[batch, target_length]`.
        alignment: For an `AlignmentGuide`, bool `[batch, target_length,
            source_length]`.
    """

    source: Tensor
    target: Tensor | None = None
    decoder_inputs: Tensor | None = None
    weights: Tensor | None = None
    alignment: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """Return a batch of what a function makes of each part that was given."""
        return Batch(*(None if part is None else function(part) for part in self))

    def token_weights(self, pad_id: int, is_weighted: bool = True) -> Tensor:
        """Return what each token counts, float32 `[batch, target_length]`.

        Args:
            pad_id: Tokens that do not count.
            is_weighted: Whether others count as much as their weight, not 1.
        """
        weights = tf.cast(tf.not_equal(self.target, pad_id), tf.float32)
        if is_weighted and self.weights is not None:
            weights *= self.weights
        return weights

    def weighted_sum(self, values: Tensor, pad_id: int) -> Tensor:
        """Sum over tokens, each times what it counts.

        Args:
            values: float32 `[batch, target_length]`; may be infinite where a token does
                not count.
            pad_id: Tokens that do not count.
        """
        is_left_out = tf.equal(self.target, pad_id)
        if self.weights is not None:
            is_left_out |= tf.equal(self.weights, 0.0)
            values *= self.weights
        return tf.reduce_sum(tf.where(is_left_out, 0.0, values))


def unpack(
    data: Any,
    config: ModelConfig,
    *,
    needs_target: bool = True,
    takes_alignment: bool = False,
    is_packed: bool = False,
) -> Batch:
    """Return the batch in what Keras passes to a step, after checks.

    Args:
        data: `x` or a tuple of up to three parts: `(source_tokens, target_tokens)` or
            `((source_tokens, decoder_inputs), labels)`. A dict with these names may be
            the first part, with the labels or without. The third part are weights,
            `[batch]` or `[batch, target_length]`.
        config: Vocabularies, padding and positions.
        needs_target: Whether there must be a target.
        takes_alignment: Whether the third part is the alignment.
        is_packed: Whether rows hold several pairs each, so that they may be longer than
            the table of learned positions.

    Raises:
        TypeError: If tokens are not integers.
        ValueError: If the structure is another, or shapes or values are wrong.
    """
    inputs, labels, third = _three_parts(data)
    named = _by_name(inputs, labels, needs_target)
    for name, tokens in named.items():
        tokens = _dense(tokens, config.pad_id)
        named[name] = token_checks.checked_tokens(name, tokens, config, is_packed)
    target = named.get("target_tokens", named.get("labels"))
    batch = Batch(named["source_tokens"], target, named.get("decoder_inputs"))
    _check_shapes(batch)
    if third is None:
        return batch
    if takes_alignment:
        return batch._replace(alignment=third)
    return batch._replace(weights=_token_weights(_dense(third, 0.0), target))


def _three_parts(data):
    """Split `x`, `(x,)`, `(x, y)` or `(x, y, third)`."""
    parts = tuple(data) if isinstance(data, (tuple, list)) else (data,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(
            f"A batch must have one of the forms {_PAIRS}, and at most weights as "
            f"third part. Received: {len(parts)} parts."
        )
    return (*parts, None, None)[:3]


def _by_name(inputs, labels, needs_target):
    """Return the arrays of tokens by the names of the arguments of `call`."""
    if isinstance(inputs, dict):
        named = dict(inputs)
    elif isinstance(inputs, (tuple, list)) and len(inputs) == 2:
        named = dict(zip(("source_tokens", "decoder_inputs"), inputs, strict=True))
    else:
        named = {"source_tokens": inputs}
    target_name = "labels" if "decoder_inputs" in named else "target_tokens"
    is_given_twice = labels is not None and target_name in named
    if labels is not None:
        named[target_name] = labels
    expected = {"source_tokens", target_name}
    if "decoder_inputs" in named:
        expected.add("decoder_inputs")
        if not needs_target and target_name not in named:
            expected.remove(target_name)
    is_nested = any(isinstance(part, (dict, tuple, list)) for part in named.values())
    if is_given_twice or is_nested or named.keys() != expected:
        also = "" if needs_target else "x=(source_tokens, decoder_inputs), "
        raise ValueError(
            f"A batch must have one of the forms {also}{_PAIRS}. Received: "
            f"x={_spelled(inputs)}, y={_spelled(labels)}."
        )
    return named


def _spelled(part):
    """Return the structure of a part in words."""
    if isinstance(part, dict):
        return "{" + ", ".join(f"{name!r}: array" for name in part) + "}"
    if isinstance(part, (tuple, list)):
        more = f", ... {len(part)} in all" if len(part) > 4 else ""
        return f"({', '.join(map(_spelled, part[:4]))}{more})"
    return "None" if part is None else "array"


def _dense(part, fill):
    return part.to_tensor(fill) if isinstance(part, tf.RaggedTensor) else part


def _check_shapes(batch):
    if batch.target is None or batch.decoder_inputs is None:
        return
    if not batch.target.shape.is_compatible_with(batch.decoder_inputs.shape):
        raise ValueError(
            "`decoder_inputs` must have the shape of the labels, which they precede by "
            f"one position. Received: shapes {tuple(batch.decoder_inputs.shape)} and "
            f"{tuple(batch.target.shape)}."
        )


def _token_weights(weights, target):
    """Return weights that broadcast over the tokens of the target."""
    weights = tf.cast(weights, tf.float32)
    if weights.shape.rank in (None, 1):
        weights = tf.reshape(weights, [tf.shape(weights)[0], -1])
    rows, length = target.shape
    if not (
        weights.shape.is_compatible_with([rows, length])
        or weights.shape.is_compatible_with([rows, 1])
    ):
        raise ValueError(
            "`sample_weight` must have the shape [batch] or [batch, target_length]. "
            f"Received: shape={tuple(weights.shape)} for targets {tuple(target.shape)}."
        )
    return token_checks.checked_weights(weights)
