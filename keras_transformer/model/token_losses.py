"""Losses of single tokens, and what training adds to them."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

Tensor = Any


def as_token_loss(loss: Any, labels: Tensor, logits: Tensor) -> Any:
    """Return a loss that `token_losses` takes.

    Args:
        loss: What `compile` was given.
        labels: Labels to try it on, int32 `[rows, length]`.
        logits: Logits, float32 `[rows, length, vocab_size]`.

    Raises:
        ValueError: If it does not return the loss of each token.
    """
    is_name = isinstance(loss, str) and loss == "sparse_categorical_crossentropy"
    if is_name or loss is keras.losses.sparse_categorical_crossentropy:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    try:
        takes_logits = getattr(loss, "from_logits", True)
        losses, *_ = token_losses(loss, labels, logits)
        is_right = takes_logits and losses.shape == labels.shape
    except (AttributeError, TypeError, ValueError, tf.errors.OpError):
        is_right = False
    if not is_right:
        raise ValueError(
            "`loss` must take labels [batch, length] and logits and return the "
            "loss of each token, as `LabelSmoothedCrossEntropy()` or "
            "`keras.losses.SparseCategoricalCrossentropy(from_logits=True)`. "
            f"Received: loss={loss!r}."
        )
    return loss


def token_losses(
    loss: Any, labels: Tensor, logits: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss, nll and whether the prediction is correct, `[rows, length]` each.

    Args:
        loss: As `as_token_loss` returns it.
        labels: int32 `[rows, length]`.
        logits: float32 `[rows, length, vocab_size]`.
    """
    if hasattr(loss, "token_losses"):
        return loss.token_losses(labels, logits)
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    gold = tf.gather(logits, labels, batch_dims=2)
    token_loss = loss.call if isinstance(loss, keras.losses.Loss) else loss
    return token_loss(labels, logits), nll, gold >= tf.reduce_max(logits, axis=-1)


def symmetric_divergence(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean of both Kullback-Leibler divergences, float32 `[rows, length]`.

    Args:
        first: Logits, float32 `[rows, length, vocab_size]`.
        second: Logits of the same shape.
    """
    # Logits and log probabilities differ by a constant, which (p - q) cancels.
    gap = tf.nn.softmax(first) - tf.nn.softmax(second)
    return 0.5 * tf.reduce_sum(gap * (first - second), axis=-1)
