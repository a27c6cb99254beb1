"""The train step: one global token count, gradients under XLA, one update (§5).

Keras's `compile(jit_compile=True)` compiles the whole step with XLA, which fails with
more than one replica, because XLA cannot access variables of other replicas. Here XLA
compiles only forward pass, loss and gradients of one replica. The sum over replicas and
the update stay outside.
"""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_transformer.config import check_at_least
from keras_transformer.layers.dropout import step_seed
from keras_transformer.model import metrics as token_metrics

Tensor = Any


class TokenTrainer(keras.Model):
    """A model with losses and metrics per token, independent of the cut into batches.

    The loss of a batch is the sum over its tokens, divided by the number of tokens of
    all replicas and microbatches. The mean of the replicas' means would give tokens of
    short batches more weight. Padding is ignored.

    `fit` and `evaluate` report per token: `loss`; `nll`, the negative log-likelihood
    without smoothing, in nats; `perplexity`, exp(nll), per subword; `token_accuracy`.

    Of no token they are NaN. A step with non-finite loss or gradients does not change
    weights, optimizer or these; `fit` then reports `skipped` as 1.0, and at the end of
    an epoch the share of its steps that were skipped.

    Subclasses provide `config.pad_id`, `shift_right` and `segments`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._means = [
            token_metrics.Mean(name="loss"),
            token_metrics.Mean(name="nll"),
            token_metrics.Perplexity(name="perplexity"),
            token_metrics.Share(name="token_accuracy"),
        ]
        self._skipped = token_metrics.Unsaved(name="skipped")

    def compile(
        self,
        optimizer: Any = "adam",
        loss: Any = "sparse_categorical_crossentropy",
        *,
        jit_compile: bool | str = "auto",
        accumulate_steps: int = 1,
        seed: int = 0,
        guide: Any = None,
        is_packed: bool = False,
        **kwargs,
    ) -> None:
        """Configure training.

        Args:
            optimizer: A Keras optimizer. Its `clipnorm`, `global_clipnorm` and
                `clipvalue` apply to the gradients of the whole batch over all replicas.
            loss: `training.losses.LabelSmoothedCrossEntropy`; or a Keras loss or a
                function that takes integer labels `[batch, length]` and logits
                `[batch, length, vocab_size]` and returns the loss of each token,
                `[batch, length]`. It is traced without AutoGraph. If it has an
                attribute `r_drop` above 0, each pair is computed twice, with other
                dropout masks, and R-Drop's loss of the two is added to the objective.
            jit_compile: Whether gradients are computed under XLA; "auto": if there is a
                GPU.
            accumulate_steps: Number of microbatches that each batch is split into,
                computed one after another to save memory. The sum of their gradients is
                applied in a single update, so the result is the same.
            seed: Seed of the dropout masks, with step, replica and microbatch.
            guide: A `NextWordGuide` or an `AlignmentGuide`. Its losses are added to the
                objective, but not to the reported `loss`, and it is not saved with the
                model. For the second, batches given to `fit` have a third part, the
                alignment.
            is_packed: Whether the rows given to `fit` hold several pairs each: equal
                numbers of sources and targets in the same order, separated by EOS.
                `evaluate` takes one pair per row.
            **kwargs: Other arguments of `keras.Model.compile`, except metrics and loss
                weights.

        Raises:
            ValueError: If `accumulate_steps` is below 1, `loss` does not return a loss
                of each token, other metrics are given, or `guide` is given with packed
                rows.
        """
        check_at_least("accumulate_steps", accumulate_steps, 1)
        if is_packed and guide is not None:
            raise ValueError(
                "`guide` aligns the words of one pair per row, so `is_packed` "
                "must be False. Received: is_packed=True and a guide."
            )
        for name in ("metrics", "weighted_metrics", "loss_weights"):
            if kwargs.pop(name, None):
                raise ValueError(
                    f"`{name}` must be left out: `fit` and `evaluate` always report "
                    "loss, nll, perplexity and token_accuracy. For others, use a Keras "
                    f"callback. Received: {name}."
                )
        loss = self._as_token_loss(loss)
        super().compile(
            optimizer=optimizer,
            loss=loss,
            metrics=self._means[1:],
            jit_compile=False,
            **kwargs,
        )
        # Keras 3.15 would do this inside the first step, which fails with replicas.
        with self.distribute_strategy.scope():
            if self.optimizer is not None:
                self.optimizer.build(self.trainable_variables)
            self._compile_metrics.build(*self._sample_output())
        self.accumulate_steps = accumulate_steps
        self.seed = seed
        self.is_packed = is_packed
        self.r_drop = getattr(loss, "r_drop", 0.0)
        self._guide = guide
        self.takes_alignment = getattr(guide, "takes_alignment", False)
        if jit_compile == "auto":
            jit_compile = bool(tf.config.list_logical_devices("GPU"))
        self.jit_gradients = bool(jit_compile)
        self._gradients = tf.function(
            self._microbatch_gradients, jit_compile=self.jit_gradients, autograph=False
        )

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The four means over tokens, and the share of skipped steps of `fit`."""
        if not self.compiled:
            return []
        # Keras 3.15's callbacks find directions only in what `compile` was given.
        return [self._means[0], self._compile_metrics, self._skipped]

    def train_step(self, data: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """Train on one batch of one replica.

        Args:
            data: `(source_tokens, target_tokens)`, int32 `[batch, length]` each; for an
                `AlignmentGuide` also which tokens are aligned, bool
                `[batch, target_length, source_length]`.

        Returns:
            The metrics so far, float32 scalars, and `skipped` of this step.
        """
        if self.optimizer is None:
            raise ValueError(
                "`fit` needs an optimizer: `compile(optimizer, loss)`. Received: "
                "optimizer=None, with which the model can only evaluate and predict."
            )
        batch = (*_pair(data[:2]), data[2]) if self.takes_alignment else _pair(data)
        tokens = _sum_over_replicas(self._count_tokens(batch[1]))
        gradients, sums, size = self._batch_gradients(batch, tokens)
        gradients = self._clip(gradients)
        sums, size = _sum_over_replicas((sums, size))
        is_finite = ops.isfinite(sums[0] + size)
        is_skipped = self._is_skipped(sums[0], is_finite)
        self._update(gradients, is_finite)
        sums = [ops.where(is_skipped, 0.0, value) for value in sums]
        skipped = ops.cast(is_skipped, "float32")
        self._skipped.update_state(skipped)
        report = self._report(sums, tokens * (1.0 - skipped))
        return _logs({**report, "skipped": skipped})

    def test_step(self, data: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Measure one batch of one replica; see `train_step`."""
        source, target = _pair(data)
        logits = self(source, self.shift_right(target), training=False)
        sums, tokens = _sum_over_replicas(
            (self._token_sums(target, logits), self._count_tokens(target))
        )
        return _logs(self._report(sums, tokens))

    def predict_step(self, data: tuple[Any]) -> Tensor:
        """Return the logits of one batch of one replica, same as `call`.

        `predict` takes one `x` of two arrays, with one target length for all batches:

            logits = model.predict((source_tokens, decoder_inputs))

        Args:
            data: `((source_tokens, decoder_inputs),)`, integers `[batch, length]` each.

        Returns:
            float32 `[batch, target_length, vocab_size]`.
        """
        inputs, labels, _ = keras.utils.unpack_x_y_sample_weight(data)
        if labels is not None or not isinstance(inputs, (tuple, list)):
            raise ValueError(
                "`predict` returns logits and takes x=(source_tokens, decoder_inputs), "
                "without labels; a dataset yields ((source_tokens, decoder_inputs),). "
                "Use `Translator` to translate. Received: "
                + ("one array." if labels is None else "labels.")
            )
        return self(*inputs, training=False)

    def get_compile_config(self) -> dict[str, Any]:
        """Return the arguments of `compile`, for `model.keras`."""
        config = super().get_compile_config()
        if config:
            config["metrics"] = None  # those of every model
            config["jit_compile"] = self.jit_gradients
            config["accumulate_steps"] = self.accumulate_steps
            config["seed"] = self.seed
            config["is_packed"] = self.is_packed
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile a model loaded from `model.keras`."""
        self.compile(**keras.saving.deserialize_keras_object(config))

    def save(self, filepath: Any, *args, **kwargs) -> None:
        """Save to `.keras`; see `keras.Model.save`.

        Raises:
            ValueError: If the file is `.h5`, from which Keras 3 cannot load this model.
        """
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ValueError(
                "Keras cannot load this model from its legacy HDF5 format. Save it to "
                "a path that ends with `.keras`, or only its weights with "
                f"`save_weights('model.weights.h5')`. Received: filepath={filepath}."
            )
        super().save(filepath, *args, **kwargs)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Do nothing, because the constructor builds the model.

        Keras 3.15 would build the model by a call on a batch without its targets.
        """

    def batch_gradients(self, *batch: Tensor) -> tuple[Any, Any, Any]:
        """Return the gradients of one batch, outside of `fit`.

        Args:
            *batch: Same as `data` in `train_step`.

        Returns:
            The gradients of the trainable variables; the sums over tokens of loss,
            negative log-likelihood and correct predictions; and a number that is finite
            if and only if all gradients are.
        """
        scale = 1.0 / ops.maximum(self._count_tokens(batch[1]), 1.0)
        return self._microbatch_gradients(batch, 0, scale)

    def _batch_gradients(self, batch, tokens):
        """Sum the results of `_microbatch_gradients` over the batch."""
        scale = 1.0 / ops.maximum(tokens, 1.0)
        first = self._first_counter()
        count = self.accumulate_steps
        if count == 1:
            return self._gradients(batch, first, scale)
        parts = [_split(part, count, self.config.pad_id) for part in batch]

        def add_microbatch(n, *totals):
            microbatch = tuple(part[n] for part in parts)
            more = self._gradients(microbatch, first + n, scale)
            return n + 1, *tf.nest.map_structure(tf.add, totals, more)

        gradients = [
            tf.zeros(weight.shape, weight.dtype) for weight in self.trainable_variables
        ]
        zero = tf.zeros([])
        # In an unrolled loop TensorFlow would start all microbatches at once and hold
        # the activations of all.
        _, *totals = tf.while_loop(
            lambda n, *_: n < count,
            add_microbatch,
            (tf.constant(0), gradients, [zero] * 3, zero),
            parallel_iterations=1,
        )
        return totals

    def _microbatch_gradients(self, batch, counter, scale):
        """Forward pass, loss and gradients of one microbatch: the part under XLA.

        Returns:
            Same as `batch_gradients`.
        """
        with step_seed(self.seed, counter), tf.GradientTape() as tape:
            sums, added = self._training_sums(batch)
            objective = self.optimizer.scale_loss((sums[0] + added) * scale)
        gradients = tape.gradient(objective, self.trainable_variables)
        # Embedding gradients are slices; every strategy can sum dense ones.
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        # Infinite or NaN if any of them is. Infinities of different signs sum to NaN,
        # so absolute values are not needed.
        size = tf.add_n(
            [tf.zeros([]), *(ops.sum(ops.cast(each, "float32")) for each in gradients)]
        )
        return gradients, sums, size

    def _training_sums(self, batch):
        """Return the sums of `_token_sums`, and what is added to the objective."""
        if self.r_drop:
            batch = tuple(ops.concatenate([part, part]) for part in batch)
        target = batch[1]
        logits, guidance = self._training_logits(batch)
        sums = self._token_sums(target, logits)
        if not self.r_drop:
            return sums, guidance
        divergence = self._sum_over_tokens(
            tf.split(target, 2)[0], symmetric_divergence(*tf.split(logits, 2))
        )
        added = guidance / 2.0 + self.r_drop / 2.0 * divergence
        return [total / 2.0 for total in sums], added

    def _training_logits(self, batch):
        """Return logits and the sum of the guided-alignment losses."""
        source, target = batch[:2]
        if self.is_packed:
            segments = self.segments(source), self.segments(target)
            inputs = source, self.shift_right(target, segments[1])
            return self(*inputs, training=True, segments=segments), 0.0
        inputs = source, self.shift_right(target)
        if self._guide is None:
            return self(*inputs, training=True), 0.0
        logits, attention = self(*inputs, training=True, return_attention=True)
        losses = self._guide.token_losses(batch, attention["cross"])
        return logits, self._sum_over_tokens(target, losses)

    def _clip(self, gradients):
        """Clip the sum over the replicas, and return an equal share to each.

        Keras 3.15 clips each replica's gradients before it sums them. It also does so
        here, but the shares are already within the limits.
        """
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        limits = (inner.clipnorm, inner.global_clipnorm, inner.clipvalue)
        if replicas == 1 or not gradients or all(limit is None for limit in limits):
            return gradients
        scale = self.optimizer.scale_loss(1.0)
        gradients = [gradient / scale for gradient in _sum_over_replicas(gradients)]
        clipped = inner._clip_gradients(gradients)
        return [gradient * (scale / replicas) for gradient in clipped]

    def _is_skipped(self, loss, is_finite):
        """Return whether a step counts as skipped.

        A `LossScaleOptimizer` also skips steps while it searches for a scale with
        finite gradients. Those do not count, unless the scale is below 1: then the
        search has failed.
        """
        if not isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            return ops.logical_not(is_finite)
        has_failed = ops.convert_to_tensor(self.optimizer.dynamic_scale) < 1.0
        return ops.logical_or(
            ops.logical_not(ops.isfinite(loss)),
            ops.logical_and(has_failed, ops.logical_not(is_finite)),
        )

    def _update(self, gradients, is_finite):
        """Apply the gradients of all replicas, if they are finite."""
        if not gradients:
            warnings.warn(
                "`fit` changes nothing: all weights of the model are frozen "
                "(`trainable=False`).",
                stacklevel=2,
            )
            return None

        def apply(gradients):
            pairs = zip(gradients, self.trainable_variables, strict=True)
            self.optimizer.apply_gradients(pairs)

        def across_replicas(strategy, gradients, is_finite):
            # The value is summed over replicas, so it is equal on all of them.
            first, *_ = strategy.experimental_local_results(is_finite)
            tf.cond(
                first,
                lambda: strategy.extended.call_for_each_replica(apply, (gradients,)),
                lambda: None,
            )

        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            # Keras 3.15 checks only the gradients of one replica before the sum.
            return apply(
                [tf.where(is_finite, gradient, np.inf) for gradient in gradients]
            )
        # The optimizer merges replicas, which is not possible within a branch. Keras's
        # LossScaleOptimizer (3.15) uses the same workaround.
        if tf.__internal__.distribute.strategy_supports_no_merge_call():
            tf.cond(is_finite, lambda: apply(gradients), lambda: None)
        else:
            tf.distribute.get_replica_context().merge_call(
                across_replicas, (gradients, is_finite)
            )
        return None

    def _as_token_loss(self, loss):
        """Return a loss per token, after a test on two rows of zeros."""
        is_name = isinstance(loss, str) and loss == "sparse_categorical_crossentropy"
        if is_name or loss is keras.losses.sparse_categorical_crossentropy:
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        labels, logits = self._sample_output()
        try:
            takes_logits = getattr(loss, "from_logits", True)
            losses, *_ = _token_losses(loss, labels, logits)
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

    def _sample_output(self):
        """Return labels `[2, 3]` and logits of them."""
        return tf.zeros((2, 3), tf.int32), tf.zeros(
            (2, 3, self.config.output_vocab_size)
        )

    def _token_sums(self, labels, logits):
        """Sum loss, nll and correct predictions over the tokens without padding."""
        losses, nll, is_correct = _token_losses(self.loss, labels, logits)
        correct = ops.cast(is_correct, "float32")
        return [
            self._sum_over_tokens(labels, values) for values in (losses, nll, correct)
        ]

    def _sum_over_tokens(self, labels, values):
        is_padding = ops.equal(labels, self.config.pad_id)
        return ops.sum(ops.where(is_padding, 0.0, values))

    def _count_tokens(self, target):
        return ops.sum(ops.cast(ops.not_equal(target, self.config.pad_id), "float32"))

    def _first_counter(self):
        """Return the counter of this replica's first microbatch, for `step_seed`."""
        context = tf.distribute.get_replica_context()
        replicas = context.num_replicas_in_sync
        step = ops.cast(self._num_steps(), "int32")
        replica = ops.cast(context.replica_id_in_sync_group, "int32")
        return (step * replicas + replica) * self.accumulate_steps

    def _num_steps(self):
        """Return the number of steps; `iterations` of Keras is that of updates."""
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if inner.gradient_accumulation_steps:
            return inner._iterations
        return self.optimizer.iterations

    def _report(self, sums, tokens):
        loss, nll, correct = [total / ops.maximum(tokens, 1.0) for total in sums]
        for metric, value in zip(self._means, (loss, nll, nll, correct), strict=True):
            metric.update_state(value, sample_weight=tokens)
        return {metric.name: metric.result() for metric in self._means}


def symmetric_divergence(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean of both Kullback-Leibler divergences, float32 `[rows, length]`.

    Args:
        first: Logits, float32 `[rows, length, vocab_size]`.
        second: Logits of the same shape.
    """
    # Logits and log probabilities differ by a constant, which (p - q) cancels.
    gap = tf.nn.softmax(first) - tf.nn.softmax(second)
    return 0.5 * tf.reduce_sum(gap * (first - second), axis=-1)


def _pair(data):
    source, target, weights = keras.utils.unpack_x_y_sample_weight(data)
    if target is None or weights is not None:
        raise ValueError(
            "Train and evaluate on pairs (source_tokens, target_tokens), without "
            "sample weights. Received: "
            + ("no targets." if target is None else "sample weights.")
        )
    # NumPy's integers are int64.
    return tuple(ops.cast(side, "int32") for side in (source, target))


def _token_losses(loss, labels, logits):
    """Return loss, nll and whether the prediction is correct, per token."""
    if hasattr(loss, "token_losses"):
        return loss.token_losses(labels, logits)
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    gold = tf.gather(logits, labels, batch_dims=2)
    token_loss = loss.call if isinstance(loss, keras.losses.Loss) else loss
    return token_loss(labels, logits), nll, gold >= tf.reduce_max(logits, axis=-1)


def _split(part, count, pad_id):
    """Split into `[microbatches, rows, ...]`; fills the last with padding."""
    rows, *lengths = ops.shape(part)
    size = -(-rows // count)
    missing = [[0, count * size - rows]] + [[0, 0]] * len(lengths)
    fill = False if part.dtype == tf.bool else pad_id
    part = tf.pad(part, missing, constant_values=fill)
    return tf.reshape(part, [count, size, *lengths])


def _sum_over_replicas(values):
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)


def _logs(values):
    """Return logs in the shape that Keras averages over the replicas."""
    strategy = tf.distribute.get_strategy()
    if (
        isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        and strategy.extended._in_multi_worker_mode()  # same condition as in Keras
    ):
        # Keras 3.15 takes the mean over the first axis, even of scalars.
        return {name: ops.reshape(value, (1,)) for name, value in values.items()}
    return values
