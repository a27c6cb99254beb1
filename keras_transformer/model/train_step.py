"""The train step: one global token count, gradients under XLA, one update (§5).

Keras's own `compile(jit_compile=True)` puts XLA around the whole step, which fails with
more than one replica: variables of the other replicas are out of its reach. Here only
forward pass, loss and gradients of one replica are compiled; the sum over the replicas
and the update stay outside.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.config import check_at_least
from keras_transformer.layers.dropout import step_seed

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

Tensor = Any


class TokenTrainer(keras.Model):
    """A model trained and measured by tokens, whatever way they fall into batches.

    The loss of a batch is the sum over its tokens, divided by the tokens of all
    replicas and of all pieces of the batch; the mean of the replicas' means would weigh
    tokens of short batches more. Padding counts for nothing.

    `fit` and `evaluate` report, over tokens: `loss`; `nll`, the negative log-likelihood
    without smoothing, in nats; `perplexity`, exp(nll), per subword; `token_accuracy`.

    A step whose loss or gradients are not finite changes nothing, of weights,
    optimizer and metrics; `fit` reports it as `skipped`, 1.0 beside such a batch.

    Subclasses offer `config.pad_id`, `shift_right` and `segments`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._means = [
            keras.metrics.Mean(name="loss"),
            keras.metrics.Mean(name="nll"),
            Perplexity(name="perplexity"),
            keras.metrics.Mean(name="token_accuracy"),
        ]

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
                `clipvalue` apply to the gradients of the whole batch, which all
                replicas share.
            loss: `training.losses.LabelSmoothedCrossEntropy`; or a Keras loss or a
                function that takes integer labels `[batch, length]` and logits
                `[batch, length, vocab_size]` and returns the loss of each token,
                `[batch, length]`. It is traced without AutoGraph.
            jit_compile: Whether gradients are computed under XLA; "auto": where there
                is a GPU.
            accumulate_steps: Pieces that each batch is cut into, computed one after
                the other to save memory. Their gradients are added before the one
                update, so the result is the same.
            seed: Keys the dropout masks, together with step, replica and piece.
            guide: A `GuidedAlignment`, whose losses are added to the objective, though
                not to the `loss` that is reported; a saved model does without.
            is_packed: Whether the rows that `fit` takes hold several pairs each, as
                many sources as targets and in the same order, told apart by their EOS.
                `evaluate` takes a pair a row.
            **kwargs: Other arguments of `keras.Model.compile`, but for metrics and
                weights of losses.

        Raises:
            ValueError: If `accumulate_steps` is below 1, `loss` does not return a loss
                of each token, there are other metrics, or there is a `guide` to packed
                rows.
        """
        check_at_least("accumulate_steps", accumulate_steps, 1)
        if is_packed and guide is not None:
            raise ValueError(
                "`guide` counts the words of a row from its beginning, so `is_packed` "
                "must be False. Received: is_packed=True and a guide."
            )
        for name in ("metrics", "weighted_metrics", "loss_weights"):
            if kwargs.get(name):
                raise ValueError(
                    f"`{name}` must be left out: `fit` and `evaluate` always report "
                    "loss, nll, perplexity and token_accuracy. For others, use a Keras "
                    f"callback. Received: {name}={kwargs[name]!r}."
                )
        loss = self._as_token_loss(loss)
        super().compile(optimizer=optimizer, loss=loss, jit_compile=False, **kwargs)
        # Keras 3.15 would do it inside the first step, where replicas cannot.
        with self.distribute_strategy.scope():
            self.optimizer.build(self.trainable_variables)
        self.accumulate_steps = accumulate_steps
        self.seed = seed
        self.is_packed = is_packed
        self._guide = guide
        if jit_compile == "auto":
            jit_compile = bool(tf.config.list_logical_devices("GPU"))
        self.jit_gradients = bool(jit_compile)
        self._gradients = tf.function(
            self._piece_gradients, jit_compile=self.jit_gradients, autograph=False
        )

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The four means over tokens that `fit` and `evaluate` report."""
        return self._means if self.compiled else []

    def train_step(self, data: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Train on one batch of one replica.

        Args:
            data: `(source_tokens, target_tokens)`, int32 `[batch, length]` each.

        Returns:
            The metrics so far, float32 scalars, and `skipped`.
        """
        source, target = _pair(data)
        tokens = _sum_over_replicas(self._count_tokens(target))
        gradients, sums, size = self._batch_gradients(source, target, tokens)
        gradients = self._clip(gradients)
        sums, size = _sum_over_replicas((sums, size))
        is_finite = ops.isfinite(sums[0] + size)
        is_skipped = self._is_skipped(sums[0], is_finite)
        self._update(gradients, is_finite)
        sums = [ops.where(is_skipped, 0.0, value) for value in sums]
        skipped = ops.cast(is_skipped, "float32")
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
        """Return the logits of one batch of one replica, as `call` does.

        `predict` takes one `x` of two arrays. All batches must have one target length:

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
        """Return what `compile` was given, for `model.keras`."""
        config = super().get_compile_config()
        if config:
            config["jit_compile"] = self.jit_gradients
            config["accumulate_steps"] = self.accumulate_steps
            config["seed"] = self.seed
            config["is_packed"] = self.is_packed
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile a model loaded from `model.keras`."""
        self.compile(**keras.saving.deserialize_keras_object(config))

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Do nothing: the model is built when it is made.

        Keras 3.15 would call it on a batch to build it, as if targets were no input.
        """

    def batch_gradients(self, source: Tensor, target: Tensor) -> tuple[Any, Any, Any]:
        """Return what a step would be made of, for one batch and outside of `fit`.

        Args:
            source: int32 `[batch, length]`.
            target: int32 `[batch, length]`.

        Returns:
            The gradients of the trainable variables; the sums over tokens of loss,
            negative log-likelihood and right guesses; and a number that is finite as
            long as all gradients are.
        """
        scale = 1.0 / ops.maximum(self._count_tokens(target), 1.0)
        return self._piece_gradients(source, target, 0, scale)

    def _batch_gradients(self, source, target, tokens):
        """Add up the gradients, sums and sizes of the batch's pieces."""
        scale = 1.0 / ops.maximum(tokens, 1.0)
        first = self._first_draw()
        pieces = self.accumulate_steps
        if pieces == 1:
            return self._gradients(source, target, first, scale)
        sources, targets = (
            _cut(side, pieces, self.config.pad_id) for side in (source, target)
        )

        def add_piece(piece, *totals):
            more = self._gradients(sources[piece], targets[piece], first + piece, scale)
            return piece + 1, *tf.nest.map_structure(tf.add, totals, more)

        gradients = [
            tf.zeros(weight.shape, weight.dtype) for weight in self.trainable_variables
        ]
        zero = tf.zeros([])
        # TensorFlow would start all pieces of an unrolled loop at once and hold the
        # activations of all.
        _, *totals = tf.while_loop(
            lambda piece, *_: piece < pieces,
            add_piece,
            (tf.constant(0), gradients, [zero] * 3, zero),
            parallel_iterations=1,
        )
        return totals

    def _piece_gradients(self, source, target, counter, scale):
        """Forward pass, loss and gradients of one piece; all that XLA compiles.

        Returns:
            Gradients, sums over tokens, and a number that is finite as long as all
            gradients are.
        """
        with step_seed(self.seed, counter), tf.GradientTape() as tape:
            logits, guidance = self._training_logits(source, target)
            sums = self._token_sums(target, logits)
            objective = self.optimizer.scale_loss((sums[0] + guidance) * scale)
        gradients = tape.gradient(objective, self.trainable_variables)
        # Embedding gradients come as slices; dense ones can be summed by any strategy.
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        # Infinite or NaN as soon as one of them is. Two infinities of different sign
        # give NaN, so no pass is spent on absolute values.
        size = sum(ops.sum(gradient) for gradient in gradients)
        return gradients, sums, size

    def _training_logits(self, source, target):
        """Return logits, and what attention that looks elsewhere costs, summed."""
        if self.is_packed:
            segments = self.segments(source), self.segments(target)
            inputs = source, self.shift_right(target, segments[1])
            return self(*inputs, training=True, segments=segments), 0.0
        inputs = source, self.shift_right(target)
        if self._guide is None:
            return self(*inputs, training=True), 0.0
        logits, attention = self(*inputs, training=True, return_attention=True)
        losses = self._guide.token_losses(source, target, attention["cross"])
        is_padding = ops.equal(target, self.config.pad_id)
        return logits, ops.sum(ops.where(is_padding, 0.0, losses))

    def _clip(self, gradients):
        """Clip the sum over the replicas, and return an equal share of it to each.

        Keras 3.15 clips each replica's gradients before it adds them up. It does so to
        these as well, which are too small by then to change.
        """
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        limits = (inner.clipnorm, inner.global_clipnorm, inner.clipvalue)
        if replicas == 1 or all(limit is None for limit in limits):
            return gradients
        scale = self.optimizer.scale_loss(1.0)
        gradients = [gradient / scale for gradient in _sum_over_replicas(gradients)]
        clipped = inner._clip_gradients(gradients)
        return [gradient * (scale / replicas) for gradient in clipped]

    def _is_skipped(self, loss, is_finite):
        """Whether a step counts as skipped.

        A `LossScaleOptimizer` looks for a scale at which gradients are finite, and
        skips by itself; below 1 there is none to find.
        """
        if not isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            return ops.logical_not(is_finite)
        is_hopeless = ops.convert_to_tensor(self.optimizer.dynamic_scale) < 1.0
        return ops.logical_or(
            ops.logical_not(ops.isfinite(loss)),
            ops.logical_and(is_hopeless, ops.logical_not(is_finite)),
        )

    def _update(self, gradients, is_finite):
        """Apply the gradients of all replicas, if they are finite."""

        def apply(gradients):
            pairs = zip(gradients, self.trainable_variables, strict=True)
            self.optimizer.apply_gradients(pairs)

        def across_replicas(strategy, gradients, is_finite):
            # Of the sum over the replicas each has the same.
            first, *_ = strategy.experimental_local_results(is_finite)
            tf.cond(
                first,
                lambda: strategy.extended.call_for_each_replica(apply, (gradients,)),
                lambda: None,
            )

        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            # Keras 3.15 asks the gradients of one replica, before they are added up.
            return apply(
                [tf.where(is_finite, gradient, np.inf) for gradient in gradients]
            )
        # The optimizer merges the replicas, which it cannot do within a branch; Keras's
        # LossScaleOptimizer (3.15) goes the same way.
        if tf.__internal__.distribute.strategy_supports_no_merge_call():
            tf.cond(is_finite, lambda: apply(gradients), lambda: None)
        else:
            tf.distribute.get_replica_context().merge_call(
                across_replicas, (gradients, is_finite)
            )
        return None

    def _as_token_loss(self, loss):
        """Return a loss for labels and logits, after a trial on two rows of zeros."""
        is_name = isinstance(loss, str) and loss == "sparse_categorical_crossentropy"
        if is_name or loss is keras.losses.sparse_categorical_crossentropy:
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        labels = tf.zeros((2, 3), tf.int32)
        logits = tf.zeros((2, 3, self.config.output_vocab_size))
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

    def _token_sums(self, labels, logits):
        """Sum loss, negative log-likelihood and right guesses over the real tokens."""
        losses, nll, is_right = _token_losses(self.loss, labels, logits)
        right = ops.cast(is_right, "float32")
        real = ops.cast(ops.not_equal(labels, self.config.pad_id), "float32")
        return [ops.sum(values * real) for values in (losses, nll, right)]

    def _count_tokens(self, target):
        return ops.sum(ops.cast(ops.not_equal(target, self.config.pad_id), "float32"))

    def _first_draw(self):
        """Number the pieces of all steps and replicas: no two share a dropout mask."""
        context = tf.distribute.get_replica_context()
        replicas = context.num_replicas_in_sync
        step = ops.cast(self.optimizer.iterations, "int32")
        replica = ops.cast(context.replica_id_in_sync_group, "int32")
        return (step * replicas + replica) * self.accumulate_steps

    def _report(self, sums, tokens):
        loss, nll, right = [total / ops.maximum(tokens, 1.0) for total in sums]
        for metric, value in zip(self._means, (loss, nll, nll, right), strict=True):
            metric.update_state(value, sample_weight=tokens)
        return {metric.name: metric.result() for metric in self._means}


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(keras.metrics.Mean):
    """exp of the mean negative log-likelihood in nats."""

    def result(self) -> Tensor:
        return ops.exp(super().result())


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
    """Return loss, negative log-likelihood and whether the guess is right, a token."""
    if hasattr(loss, "token_losses"):
        return loss.token_losses(labels, logits)
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    gold = tf.gather(logits, labels, batch_dims=2)
    token_loss = loss.call if isinstance(loss, keras.losses.Loss) else loss
    return token_loss(labels, logits), nll, gold >= tf.reduce_max(logits, axis=-1)


def _cut(tokens, pieces, pad_id):
    """Return `[pieces, rows of a piece, length]`, filled up with rows of padding."""
    rows, length = ops.shape(tokens)
    size = -(-rows // pieces)
    missing = [[0, pieces * size - rows], [0, 0]]
    tokens = tf.pad(tokens, missing, constant_values=pad_id)
    return tf.reshape(tokens, [pieces, size, length])


def _sum_over_replicas(values):
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)


def _logs(values):
    """Return logs in the rank that Keras averages over the replicas."""
    strategy = tf.distribute.get_strategy()
    if (
        isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        and strategy.extended._in_multi_worker_mode()  # as Keras asks it
    ):
        # Keras 3.15 takes the mean over the first axis, of scalars too.
        return {name: ops.reshape(value, (1,)) for name, value in values.items()}
    return values
