"""Checks of token ids: at once outside of a graph, by assertions inside of one.

XLA and GPUs read another row of a table for an id that is outside of it, and train on.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ModelConfig

Tensor = Any

# What TensorFlow says of a failed assertion about one value.
_FAILED = re.compile(r"assertion failed: \[(`.* Received: .*)\] \[(\S+)\]")


def check_argument(
    name: str, tokens: Tensor, config: ModelConfig, is_packed: bool
) -> None:
    """Raise unless tokens are what the model takes; values only outside of a graph.

    Args:
        name: "source_tokens", or a name of tokens of the target.
        tokens: A tensor, also a symbolic one.
        config: Vocabularies and positions.
        is_packed: See `checked_tokens`.

    Raises:
        TypeError: If they are not integers.
        ValueError: If shape or values are wrong.
    """
    if tf.executing_eagerly() and not keras.backend.is_keras_tensor(tokens):
        checked_tokens(name, tokens, config, is_packed)
    else:
        _check_form(name, tokens)


def checked_tokens(
    name: str, tokens: Tensor, config: ModelConfig, is_packed: bool
) -> Tensor:
    """Return tokens after a check of form and values.

    Args:
        name: "source_tokens", or a name of tokens of the target.
        tokens: Integers of any type, `[batch, length]`.
        config: Vocabularies and positions.
        is_packed: Whether rows hold several pairs each, so that they may be longer than
            the table of learned positions.

    Returns:
        int32 `[batch, length]`. In a graph, what reads them waits for the assertions.

    Raises:
        TypeError: If they are not integers.
        ValueError: If the shape is another, an id is not in the vocabulary, or rows are
            longer than the table. In a graph values raise when it runs; see
            `naming_failures`.
    """
    tokens = tf.convert_to_tensor(tokens)
    _check_form(name, tokens)
    checks = []
    if tokens.shape.rank is None:  # a graph that was called with several ranks
        rank = tf.rank(tokens)
        shape = f"`{name}` must have the shape [batch, length]. Received: rank="
        checks.append(_require(tf.equal(rank, 2), shape, rank))
    is_source = name == "source_tokens"
    size = config.vocab_size if is_source else config.output_vocab_size
    ids = f"`{name}` must be ids in [0, {size}). Received: id="
    lowest, highest = tf.reduce_min(tokens), tf.reduce_max(tokens)
    checks.append(_require(lowest >= 0, ids, lowest))
    checks.append(_require(highest < size, ids, highest))
    if config.position_encoding == "learned" and not is_packed:
        length = tf.shape(tokens)[1]
        rows = (
            f"`{name}` must not be longer than the {config.num_positions} learned "
            "positions: shorten it, or build the model with more `num_positions`. "
            "Received: length="
        )
        checks.append(_require(length <= config.num_positions, rows, length))
    with tf.control_dependencies(checks):
        tokens = tf.cast(tf.identity(tokens), tf.int32)
    tokens.set_shape([None, None])
    return tokens


def check_padding_follows(name: str, tokens: Tensor, pad_id: int) -> None:
    """Raise if padding comes before the tokens of all rows that have any.

    `keras.utils.pad_sequences` pads so unless it is told otherwise. BOS would then come
    before padding, and translations, whose rows begin with a token, would be another
    task than training.

    Args:
        name: The name of the tokens.
        tokens: Integers `[batch, length]`, not in a graph.
        pad_id: The id of padding.

    Raises:
        ValueError: If padding comes first.
    """
    is_token = tf.not_equal(tokens, pad_id)
    left, right = is_token[:, :-1], is_token[:, 1:]
    comes_first, follows = tf.reduce_any(~left & right), tf.reduce_any(left & ~right)
    if comes_first and not follows:
        raise ValueError(
            f"`{name}` must have padding after the tokens of a row. Received: padding "
            "before them. Pass padding='post' to `keras.utils.pad_sequences`."
        )


def checked_weights(weights: Tensor) -> Tensor:
    """Return weights after a check that none is negative or NaN.

    Args:
        weights: Floats of any shape.

    Raises:
        ValueError: If one is. In a graph, see `naming_failures`.
    """
    lowest = tf.reduce_min(weights)
    message = "`sample_weight` must be numbers of at least 0. Received: weight="
    with tf.control_dependencies([_require(lowest >= 0.0, message, lowest)]):
        return tf.identity(weights)


@contextlib.contextmanager
def naming_failures() -> Iterator[None]:
    """Raise the ValueError of a check where an assertion in a graph failed."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        failed = _FAILED.search(error.message)
        if not failed:
            raise
        raise ValueError(f"{failed[1]}{failed[2]}.") from None


def _check_form(name, tokens):
    dtype = keras.backend.standardize_dtype(tokens.dtype)
    if not keras.backend.is_int_dtype(dtype):
        remedy = " Encode texts with a tokenizer." if dtype == "string" else ""
        raise TypeError(
            f"`{name}` must be integers, the ids of tokens. Received: dtype={dtype}."
            + remedy
        )
    if tf.TensorShape(tokens.shape).rank not in (None, 2):
        raise ValueError(
            f"`{name}` must have the shape [batch, length]. Received: "
            f"shape={tuple(tokens.shape)}."
        )


def _require(is_right, message, value):
    """Raise, or return an assertion that fails, with the message and the value."""
    if not tf.executing_eagerly():
        return tf.debugging.Assert(is_right, [message, value])
    if not is_right:
        raise ValueError(f"{message}{value}.")
    return None
