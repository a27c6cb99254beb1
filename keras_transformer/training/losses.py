"""Cross-entropy with label smoothing, §5.4."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import check_rate, check_weight
from keras_transformer.layers.custom_gradient import custom_gradient

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy against smoothed labels, §5.4.

    The label's word has probability 1 - epsilon, and every other word
    epsilon / (vocab_size - 1). The entropy of that distribution is subtracted, so that
    a perfect model has loss 0.

    Differs from the paper: it does not say which words share epsilon. The other
    V - 1 words do here, as in tensor2tensor, the authors' code. In the work that the
    paper cites (Szegedy et al., 2015) all V words share it.

    Args:
        label_smoothing: epsilon_ls, in [0, 1).
        r_drop: alpha of R-Drop (Liang et al., 2021), which is not in the paper. Above
            0, training computes each pair twice, with other dropout masks, and adds
            alpha / 2 times the symmetric divergence of the two predictions to its
            objective. The reported loss is the mean of both, without it.
        reduction: As in Keras, for a call of the loss by itself: the mean over all
            tokens, or over those that the mask of the logits keeps. `fit` of a
            `Transformer` always divides by the number of tokens without padding.
        name: As in Keras.
        ignore_class: A label that a call of the loss by itself leaves out, such as the
            id of padding. `fit` of a `Transformer` leaves out padding by itself.

    Raises:
        ValueError: If `label_smoothing` is outside [0, 1), or `r_drop` below 0 or not
            finite.

    Examples:
        >>> loss = kt.LabelSmoothedCrossEntropy(label_smoothing=0.0)
        >>> labels, logits = np.array([[1]]), np.log([[[0.25, 0.5, 0.25]]])
        >>> round(float(loss(labels, logits)), 4)  # -log 0.5
        0.6931
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        r_drop: float = 0.0,
        reduction: str = "sum_over_batch_size",
        name: str = "label_smoothed_cross_entropy",
        ignore_class: int | None = None,
        **kwargs,
    ):
        super().__init__(name=name, reduction=reduction, **kwargs)
        check_rate("label_smoothing", label_smoothing)
        check_weight("r_drop", r_drop)
        self.label_smoothing = label_smoothing
        self.r_drop = r_drop
        self.ignore_class = ignore_class

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Return the loss of each token, float32 `[batch, length]`, padding included.

        Args:
            y_true: Labels, integers of any type, `[batch, length]`.
            y_pred: Logits, float32 `[batch, length, vocab_size]`.
        """
        losses = self.token_losses(y_true, y_pred)[0]
        if self.ignore_class is None:
            return losses
        is_counted = tf.not_equal(tf.cast(y_true, tf.int32), self.ignore_class)
        losses = tf.where(is_counted, losses, 0.0)
        losses._keras_mask = is_counted  # Keras leaves the others out of the mean
        return losses

    def token_losses(
        self, labels: Tensor, logits: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return loss, likelihood and accuracy of each token in one pass.

        Args:
            labels: Integers of any type, `[batch, length]`.
            logits: float32 `[batch, length, vocab_size]`.

        Returns:
            The smoothed loss and the plain negative log-likelihood, float32
            `[batch, length]`, padding included; and whether no word has a higher logit
            than the label, bool of that shape. Gradients flow through the loss only.
        """
        shape = tf.shape(labels)
        rows = tf.reshape(logits, (-1, logits.shape[-1]))
        measured = _smoothed(
            rows,
            tf.reshape(tf.cast(labels, tf.int32), (-1,)),
            float(self.label_smoothing),
        )
        return tuple(tf.reshape(values, shape) for values in measured)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "label_smoothing": self.label_smoothing,
            "r_drop": self.r_drop,
            "ignore_class": self.ignore_class,
        }


def smoothing_entropy(label_smoothing: float, vocab_size: int) -> float:
    """Return the entropy of a smoothed label in nats: the loss of a perfect model."""
    rest = label_smoothing / (vocab_size - 1)
    entropy = -(1.0 - label_smoothing) * math.log(1.0 - label_smoothing)
    if label_smoothing > 0:
        entropy -= label_smoothing * math.log(rest)
    return entropy


def _smoothed(
    logits: Tensor, labels: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the loss with few passes over the logits `[tokens, vocab_size]`.

    With q = 1 - epsilon on the label y, r = epsilon / (V - 1) elsewhere and Z the log
    of the sum of exp(x): loss = (q - r)(Z - x_y) + r (V Z - sum x), whose gradient is
    softmax(x) - r - (q - r) onehot(y). No one-hot matrix is built.

    The likeliest word has probability exp(max x - Z), so Z follows from the softmax,
    which on a CPU is ten times faster than TensorFlow's cross-entropy kernel.
    """
    vocab_size = logits.shape[-1]
    rest = epsilon / (vocab_size - 1)
    entropy = smoothing_entropy(epsilon, vocab_size)

    @custom_gradient
    def losses(logits, labels):
        probabilities = tf.nn.softmax(logits)
        top = tf.reduce_max(logits, axis=-1)
        log_sum = top - tf.math.log(tf.reduce_max(probabilities, axis=-1))
        gold = tf.gather(logits, labels, batch_dims=1)
        nll = log_sum - gold
        loss = nll
        if epsilon:
            spread = vocab_size * log_sum - tf.reduce_sum(logits, axis=-1)
            loss = (1.0 - epsilon - rest) * nll + rest * spread - entropy

        def gradient(loss_gradient, *_):
            weight = loss_gradient[:, None]
            everywhere = (probabilities - rest if epsilon else probabilities) * weight
            of_logits = tf.tensor_scatter_nd_sub(
                everywhere,
                tf.stack([tf.range(tf.size(labels)), labels], axis=1),
                loss_gradient * (1.0 - epsilon - rest),
            )
            return of_logits, None

        return (loss, nll, gold >= top), gradient

    return losses(logits, labels)
