"""The train step: one global token count, gradients, one update (§5).

Keras's `compile(jit_compile=True)` compiles the whole step with XLA, which fails with
more than one replica, because XLA cannot access variables of other replicas. Here a
step is one XLA program on one replica. With more there are two on each, one before
gradients are summed over the replicas and one after.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_transformer import hardware
from keras_transformer.config import check_at_least
from keras_transformer.layers.custom_gradient import forgets_gradients
from keras_transformer.layers.dropout import step_seed
from keras_transformer.model import token_checks
from keras_transformer.model.batch import unpack
from keras_transformer.model.metrics import TokenMetrics, at_least_some
from keras_transformer.model.token_losses import (
    as_token_loss,
    symmetric_divergence,
    token_losses,
)
from keras_transformer.model.update import (
    apply_if_finite,
    form_group,
    is_skipped,
    sum_over_replicas,
)

Tensor = Any


class TokenTrainer(TokenMetrics):
    """A model with losses and metrics per token, independent of the cut into batches.

    The loss of a batch is the sum over its tokens, divided by the number of tokens of
    all replicas and microbatches. The mean of the replicas' means would give tokens of
    short batches more weight. Padding is ignored.

    `fit` and `evaluate` report per token: `loss`; `nll`, the negative log-likelihood
    without smoothing, in nats; `perplexity`, exp(nll), per subword; `token_accuracy`.
    With sample weights each token counts as much as its weight, in sums and in their
    denominators. What layers add with `add_loss`, and regularizers, are part of the
    objective and of `loss`, once for a batch, whatever its cut.

    Of no token they are NaN. A step with non-finite loss or gradients does not change
    weights, optimizer or these; `fit` then reports `skipped` as 1.0, and at the end of
    an epoch the share of its steps that were skipped.

    Subclasses provide `config.pad_id`, `inputs`, `shift_right` and `segments`.
    """

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
            jit_compile: Whether XLA compiles a step, without the metrics given here;
                "auto": if there is a GPU.
            accumulate_steps: Number of microbatches that each batch is split into,
                computed one after another to save memory. The sum of their gradients is
                applied in a single update, so the result is the same.
            seed: Seed of the dropout masks, with step, replica and microbatch.
            guide: A `NextWordGuide` or an `AlignmentGuide`. Its losses are added to the
                objective, but not to the reported `loss`, and it is not saved with the
                model. For the second, batches given to `fit` have a third part, the
                alignment, in the place of weights.
            is_packed: Whether the rows given to `fit` hold several pairs each: equal
                numbers of sources and targets in the same order, separated by EOS.
                `evaluate` takes one pair per row.
            **kwargs: Other arguments of `keras.Model.compile`, except loss weights.
                `metrics` are of labels `[batch, length]` and logits `[batch, length,
                vocab_size]`; their `sample_weight` is 0 at padding, else 1. What has no
                finite loss is left out. `weighted_metrics` get the weights given to
                `fit`, 0 at padding.

        Raises:
            ValueError: If `accumulate_steps` is below 1, `loss` does not return a loss
                of each token, a metric does not take what it is given, or `guide` is
                given with packed rows.
        """
        check_at_least("accumulate_steps", accumulate_steps, 1)
        if is_packed and guide is not None:
            raise ValueError(
                "`guide` aligns the words of one pair per row, so `is_packed` "
                "must be False. Received: is_packed=True and a guide."
            )
        if kwargs.get("loss_weights"):
            raise ValueError(
                "`loss_weights` must be left out: a model has one output. Received: "
                f"loss_weights={kwargs['loss_weights']!r}. To weigh pairs, pass "
                "`sample_weight` to `fit`."
            )
        for name in ("compute_loss", "compute_metrics"):
            if getattr(type(self), name) is not getattr(keras.Model, name):
                raise ValueError(
                    f"`{name}` must not be overridden: `fit` counts tokens and does "
                    "not call it. Use `add_loss` in `call`, or the arguments `loss` "
                    f"and `metrics` of `compile`. Received: {type(self).__name__}."
                )
        form_group(self.distribute_strategy)
        self.build_added_layers()
        loss = as_token_loss(loss, *self._sample_output())
        self._compile_with_metrics(
            optimizer=optimizer, loss=loss, jit_compile=False, **kwargs
        )
        if self.optimizer is not None:
            # Keras 3.15 would do this inside the first step, which fails with replicas.
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        self.accumulate_steps = accumulate_steps
        self.seed = seed
        self.is_packed = is_packed
        self.r_drop = getattr(loss, "r_drop", 0.0)
        self._guide = guide
        self.takes_alignment = getattr(guide, "takes_alignment", False)
        self.jit_gradients = uses_xla(jit_compile)
        self._make_programs()

    @functools.wraps(keras.Model.fit)
    def fit(self, x=None, y=None, *args, **kwargs):
        _refuse_class_weight(kwargs.get("class_weight"))
        self._check_arrays((x, y, kwargs.get("sample_weight")))
        self._check_arrays(kwargs.get("validation_data"))
        return super().fit(x, y, *args, **kwargs)

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(
        self, x, y=None, sample_weight=None, class_weight=None, return_dict=False
    ):
        _refuse_class_weight(class_weight)
        return super().train_on_batch(x, y, sample_weight, return_dict=return_dict)

    @forgets_gradients
    def train_step(self, data: Any) -> dict[str, Tensor]:
        """Train on one batch of one replica.

        Args:
            data: `(source_tokens, target_tokens)`; for other forms, and the third part,
                see `batch.unpack`.

        Returns:
            The metrics so far, float32 scalars, and `skipped` of this step.
        """
        if self.optimizer is None:
            raise ValueError(
                "`fit` needs an optimizer: `compile(optimizer, loss)`. Received: "
                "optimizer=None, with which the model can only evaluate and predict."
            )
        batch = self._unpack(data)
        report, loss, logits = self._step(batch)
        if logits is not None:
            self._update_own_metrics(batch, logits, loss)
        return _logs({**self.get_metrics_result(), **report})

    @forgets_gradients
    def test_step(self, data: Any) -> dict[str, Tensor]:
        """Measure one batch of one replica; see `train_step`."""
        batch = self._unpack(data)
        logits = self(batch.source, self._decoder_inputs(batch), training=False)
        tokens = sum_over_replicas(self._count_tokens(batch))
        sums = self._with_added_losses(self._token_sums(batch, logits), tokens)
        self._update_own_metrics(batch, logits, sums[0])
        self._update_means(sum_over_replicas(sums), tokens)
        report = self.get_metrics_result()
        return _logs({name: report[name] for name in report if name != "skipped"})

    def predict_step(self, data: Any) -> Tensor:
        """Return the logits of one batch of one replica, same as `call`.

        `predict` takes what `fit` takes, or one `x` of two arrays without labels:

            logits = model.predict((source_tokens, decoder_inputs))

        Args:
            data: `((source_tokens, decoder_inputs),)`, integers `[batch, length]` each,
                or see `train_step`.

        Returns:
            float32 `[batch, target_length, vocab_size]`.
        """
        batch = self._unpack(data, needs_target=False)
        return self(batch.source, self._decoder_inputs(batch), training=False)

    def make_train_function(self, force: bool = False) -> None:
        """Make the function of `fit` that runs a step.

        Keras makes another when the weights are others, as after `quantize`.
        """
        if self.train_function is None or force:
            self._make_programs()
            super().make_train_function(force)
            self.train_function = token_checks.naming_failures()(self.train_function)

    def make_test_function(self, force: bool = False) -> None:
        """Make the function of `evaluate` that runs a step."""
        if self.test_function is None or force:
            super().make_test_function(force)
            self.test_function = token_checks.naming_failures()(self.test_function)

    def make_predict_function(self, force: bool = False) -> None:
        """Make the function of `predict` that runs a step."""
        if self.predict_function is None or force:
            super().make_predict_function(force)
            self.predict_function = token_checks.naming_failures()(
                self.predict_function
            )

    def get_compile_config(self) -> dict[str, Any]:
        """Return the arguments of `compile`, for `model.keras`."""
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

    def build_added_layers(self) -> None:
        """Build the layers that the constructor of a subclass has added."""
        if not all(layer.built for layer in self._flatten_layers()):
            keras.Operation.compute_output_spec(self, *self.inputs)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Do nothing, because the constructor builds the model.

        Keras 3.15 would build the model by a call on a batch without its targets.
        """

    def batch_gradients(self, *data: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of one batch, outside of `fit`.

        Args:
            *data: Same as in `train_step`.

        Returns:
            The gradients of the trainable variables; the sums over tokens of loss,
            negative log-likelihood and correct predictions; and a number that is finite
            if and only if all gradients are.
        """
        batch = self._unpack(data)
        tokens = self._count_tokens(batch)
        gradients, sums, size, _ = self._microbatch_gradients(batch, 0, tokens)
        return gradients, sums, size

    def _make_programs(self):
        """Let XLA compile as much of a step at once as it can.

        Sums over replicas stay outside, and own metrics, which are any Python.
        """

        def program(function):
            return tf.function(
                function, jit_compile=self.jit_gradients, autograph=False
            )

        self._gradients = program(self._microbatch_gradients)
        self._summed_gradients = self._batch_gradients
        self._finish = self._finish_step
        self._step = self._whole_step
        if not self.jit_gradients:
            return
        self._finish = program(self._finish_step)
        if self.accumulate_steps > 1 and self._own_metrics():
            return
        self._summed_gradients = program(self._batch_gradients)
        if self.distribute_strategy.num_replicas_in_sync == 1:
            self._step = program(self._whole_step)

    def _whole_step(self, batch):
        """Train on one batch.

        Returns:
            What `fit` reports of it; for own metrics the loss and the logits of this
            replica, or None if there are none to update.
        """
        tokens = sum_over_replicas(self._count_tokens(batch))
        gradients, sums, size, logits = self._summed_gradients(batch, tokens)
        loss = sums[0]
        gradients = sum_over_replicas(gradients)
        sums, size = sum_over_replicas((sums, size))
        return self._finish(gradients, sums, size, tokens), loss, logits

    def _finish_step(self, gradients, sums, size, tokens):
        """Update weights and means, and return what `fit` reports."""
        is_finite = ops.isfinite(sums[0] + size)
        skipped = is_skipped(self.optimizer, sums[0], is_finite)
        apply_if_finite(
            self.optimizer,
            gradients,
            self.trainable_variables,
            is_finite,
            may_branch=not (self.jit_gradients and hardware.has_gpu()),
        )
        sums = [ops.where(skipped, 0.0, value) for value in sums]
        skipped = ops.cast(skipped, "float32")
        self._skipped.update_state(skipped)
        means = self._update_means(sums, tokens * (1.0 - skipped))
        return {**means, "skipped": skipped}

    def _batch_gradients(self, batch, tokens):
        """Sum the results of `_microbatch_gradients` over the batch.

        Returns:
            Same as `_microbatch_gradients`. Of several microbatches there are no
            logits: own metrics are updated after each.
        """
        first, count = self._first_counter(), self.accumulate_steps
        if count == 1:
            return self._gradients(batch, first, tokens)
        parts = batch.map(lambda part: _split(part, count, self.config.pad_id))

        def add_microbatch(n, *totals):
            microbatch = parts.map(lambda part: part[n])
            *more, logits = self._gradients(microbatch, first + n, tokens)
            if logits is not None:
                self._update_own_metrics(microbatch, logits, more[1][0])
            return n + 1, *tf.nest.map_structure(tf.add, totals, tuple(more))

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
        return *totals, None

    def _microbatch_gradients(self, batch, counter, tokens):
        """Forward pass, loss and gradients of one microbatch.

        Returns:
            Same as `batch_gradients`, and logits if there are metrics to compute.
        """
        scale = 1.0 / at_least_some(tokens)
        with step_seed(self.seed, counter), tf.GradientTape() as tape:
            sums, added, logits = self._training_sums(batch)
            sums = self._with_added_losses(sums, tokens, self.accumulate_steps)
            objective = self.optimizer.scale_loss((sums[0] + added) * scale)
        gradients = _dense_gradients(tape, objective, self.trainable_variables)
        # Infinite or NaN if any of them is. Infinities of different signs sum to NaN,
        # so absolute values are not needed.
        size = tf.add_n(
            [tf.zeros([]), *(ops.sum(ops.cast(each, "float32")) for each in gradients)]
        )
        return gradients, sums, size, logits if self._own_metrics() else None

    def _training_sums(self, batch):
        """Return what `_token_sums` does, what else is minimized, and logits."""
        if not self.r_drop:
            logits, guidance = self._training_logits(batch)
            return self._token_sums(batch, logits), guidance, logits
        twice = batch.map(lambda part: ops.concatenate([part, part]))
        logits, guidance = self._training_logits(twice)
        sums = self._token_sums(twice, logits)
        first, second = tf.split(logits, 2)
        divergence = self._sum_over_tokens(batch, symmetric_divergence(first, second))
        added = guidance / 2.0 + self.r_drop / 2.0 * divergence
        return [total / 2.0 for total in sums], added, first

    def _training_logits(self, batch):
        """Return logits and the sum of the guided-alignment losses."""
        if self.is_packed:
            segments = self.segments(batch.source), self.segments(batch.target)
            inputs = batch.source, self._decoder_inputs(batch, segments[1])
            return self(*inputs, training=True, segments=segments), 0.0
        inputs = batch.source, self._decoder_inputs(batch)
        if self._guide is None:
            return self(*inputs, training=True), 0.0
        logits, attention = self(*inputs, training=True, return_attention=True)
        guided = [batch.source, batch.target]
        if self.takes_alignment:
            guided.append(_required_alignment(batch))
        losses = self._guide.token_losses(guided, attention["cross"])
        return logits, self._sum_over_tokens(batch, losses)

    def _decoder_inputs(self, batch, segments=None):
        if batch.decoder_inputs is not None:
            return batch.decoder_inputs
        return self.shift_right(batch.target, segments)

    def _with_added_losses(self, sums, tokens, parts=1):
        """Add what layers and regularizers add to the loss, as a sum over tokens.

        They are means of a microbatch or do not depend on it, so that one of `parts`
        on one of the replicas has a share of them.
        """
        losses = self.losses
        if not losses:
            return sums
        parts *= tf.distribute.get_strategy().num_replicas_in_sync
        added = tf.add_n([ops.sum(ops.cast(each, "float32")) for each in losses])
        return [sums[0] + added * (at_least_some(tokens) / parts), *sums[1:]]

    def _token_sums(self, batch, logits):
        """Sum loss, nll and correct predictions over the tokens without padding."""
        losses, nll, is_correct = token_losses(self.loss, batch.target, logits)
        correct = ops.cast(is_correct, "float32")
        return [
            self._sum_over_tokens(batch, values) for values in (losses, nll, correct)
        ]

    def _unpack(self, data, needs_target=True):
        return unpack(
            data,
            self.config,
            needs_target=needs_target,
            takes_alignment=self.compiled and self.takes_alignment,
            is_packed=self.compiled and self.is_packed,
        )

    def _check_arrays(self, data):
        """Check all rows before the first step, if they are arrays."""
        parts = [part for part in keras.tree.flatten(data) if part is not None]
        arrays = (np.ndarray, tf.Tensor, tf.RaggedTensor)
        if parts and all(isinstance(part, arrays) for part in parts):
            with tf.device("CPU"):
                batch = self._unpack(data)
                names = {"source_tokens": batch.source}
                if batch.decoder_inputs is None:
                    names["target_tokens"] = batch.target
                for name, tokens in names.items():
                    token_checks.check_padding_follows(name, tokens, self.config.pad_id)

    def _sum_over_tokens(self, batch, values):
        return batch.weighted_sum(values, self.config.pad_id)

    def _count_tokens(self, batch):
        return ops.sum(batch.token_weights(self.config.pad_id))

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


def uses_xla(jit_compile: bool | str) -> bool:
    """Return whether `compile` with this `jit_compile` lets XLA compile a step."""
    return hardware.has_gpu() if jit_compile == "auto" else bool(jit_compile)


def _refuse_class_weight(class_weight):
    if class_weight is not None:
        raise ValueError(
            "`class_weight` must be left out: a target has many classes. To weigh "
            "pairs or tokens, pass `sample_weight`. Received: class_weight="
            f"{class_weight!r}."
        )


def _dense_gradients(tape, objective, weights):
    """Return dense gradients, which every strategy can sum; embeddings have slices."""
    return [
        # None: the objective does not use the weight.
        tf.zeros(weight.shape, weight.dtype)
        if gradient is None
        else tf.convert_to_tensor(gradient)
        for gradient, weight in zip(
            tape.gradient(objective, weights), weights, strict=True
        )
    ]


def _required_alignment(batch):
    if batch.alignment is None or batch.alignment.shape.rank != 3:
        raise ValueError(
            "An `AlignmentGuide` needs the alignment, bool [batch, target_length, "
            "source_length], as the third part of each batch, in the place of weights. "
            f"Received: {batch.alignment}."
        )
    return batch.alignment


def _split(part, count, pad_id):
    """Split into `[microbatches, rows, ...]`; fills the last with padding."""
    rows, *lengths = ops.shape(part)
    size = -(-rows // count)
    missing = [[0, count * size - rows]] + [[0, 0]] * len(lengths)
    fill = pad_id if part.dtype == tf.int32 else tf.zeros([], part.dtype)
    part = tf.pad(part, missing, constant_values=fill)
    return tf.reshape(part, [count, size, *lengths])


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
