"""Metrics of a model: means over tokens, those given to `compile`, skipped steps."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_transformer.model.batch import Batch

Tensor = Any


class Mean(keras.metrics.Mean):
    """A mean that is NaN, not 0, if nothing was counted."""

    # Whether higher is better; Keras 3.15's callbacks read it.
    _direction = "down"

    def result(self) -> Tensor:
        return ops.where(self.count > 0, super().result(), np.nan)


class Share(Mean):
    """A share that is better the higher it is."""

    _direction = "up"


class Unsaved(Mean):
    """A mean that is not saved with a model: files of earlier releases lack it."""

    def save_own_variables(self, store: Any) -> None:
        """Save nothing."""

    def load_own_variables(self, store: Any) -> None:
        """Load nothing."""


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(Mean):
    """exp of the mean negative log-likelihood in nats."""

    def result(self) -> Tensor:
        return ops.exp(super().result())


class TokenMetrics(keras.Model):
    """A model that reports means over the tokens of batches.

    Subclasses provide `config.pad_id` and `config.output_vocab_size`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._means = [
            Mean(name="loss"),
            Mean(name="nll"),
            Perplexity(name="perplexity"),
            Share(name="token_accuracy"),
        ]
        self._skipped = Unsaved(name="skipped")

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Those over tokens, those of `compile` and of layers, and skipped steps."""
        if not self.compiled:
            return []
        # Keras 3.15's callbacks find directions only in what `compile` was given.
        known = [*self._means, self._skipped, self._loss_tracker, self._compile_metrics]
        others = [
            metric
            for metric in super().metrics
            if all(metric is not each for each in known)
        ]
        return [self._means[0], self._compile_metrics, *others, self._skipped]

    def get_metrics_result(self) -> dict[str, Any]:
        """Return the values of the metrics; `skipped` only after a step of `fit`."""
        results = super().get_metrics_result()
        if tf.executing_eagerly() and np.isnan(results.get("skipped", 0.0)):
            del results["skipped"]
        return results

    def _compile_with_metrics(self, metrics: Any = None, **kwargs):
        """Call Keras's `compile` with our metrics, then those of the user."""
        unweighted = keras.tree.flatten(metrics or [])
        self._num_unweighted = len(unweighted)
        super().compile(metrics=[*self._means[1:], *unweighted], **kwargs)
        # Keras 3.15 would do this inside the first step, which fails with replicas.
        with self.distribute_strategy.scope():
            self._compile_metrics.build(*self._sample_output())
            for metric in self._own_metrics():
                self._try_on_zeros(metric)

    def get_compile_config(self) -> dict[str, Any]:
        """Return the arguments of `compile`, without the metrics of every model."""
        config = super().get_compile_config()
        if config:
            config["metrics"] = config["metrics"][len(self._means) - 1 :]
        return config

    def _own_metrics(self):
        """Return the metrics that were given to `compile`, the weighted ones last."""
        return self._compile_metrics.metrics[len(self._means) - 1 :]

    def _try_on_zeros(self, metric):
        labels, logits = self._sample_output()
        try:
            self.distribute_strategy.run(
                metric.update_state, args=(labels, logits, tf.ones(labels.shape))
            )
        except (TypeError, ValueError, tf.errors.OpError) as error:
            raise ValueError(
                "`metrics` must take labels [batch, length], logits [batch, length, "
                "vocab_size] and `sample_weight` [batch, length]. Received: "
                f"{metric!r}, which raised: {error}"
            ) from error
        metric.reset_state()

    def _sample_output(self):
        """Return labels `[2, 3]` and their logits, all zero."""
        vocab_size = self.config.output_vocab_size
        return tf.zeros((2, 3), tf.int32), tf.zeros((2, 3, vocab_size))

    def _update_own_metrics(self, batch: Batch, logits: Tensor, loss: Tensor) -> None:
        """Update the metrics that were given to `compile`, if the loss is finite."""
        is_finite = ops.isfinite(loss)
        for number, metric in enumerate(self._own_metrics()):
            is_weighted = number >= self._num_unweighted
            weights = batch.token_weights(self.config.pad_id, is_weighted)
            metric.update_state(
                batch.target,
                ops.where(is_finite, logits, 0.0),
                sample_weight=ops.where(is_finite, weights, 0.0),
            )

    def _update_means(self, sums: list[Tensor], tokens: Tensor) -> dict[str, Tensor]:
        """Update the means over tokens, and return them by their names."""
        loss, nll, correct = [total / at_least_some(tokens) for total in sums]
        for metric, value in zip(self._means, (loss, nll, nll, correct), strict=True):
            metric.update_state(value, sample_weight=tokens)
        return {metric.name: metric.result() for metric in self._means}


def at_least_some(tokens: Tensor) -> Tensor:
    """Return a number of tokens as a divisor: 1 instead of 0."""
    return ops.where(tokens > 0.0, tokens, 1.0)
