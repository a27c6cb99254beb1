"""Habits of `add_loss`, regularizers and own metrics."""

import contextlib

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from tests.keras_habits.models import arrays, compiled, make_config
from tests.model.test_train_step import assert_same, trained_weights

SOURCE, TARGET = arrays()


@keras.saving.register_keras_serializable(package="keras_habits")
class Adding(kt.Transformer):
    """A model that adds the square of its logits, and a regularizer, to its loss."""

    def build(self, *shapes):
        is_new = not self.built
        super().build(*shapes)
        if is_new:
            self.embedding.embeddings.regularizer = keras.regularizers.L2(2.0)

    def call(self, source_tokens, decoder_inputs, **options):
        logits = super().call(source_tokens, decoder_inputs, **options)
        self.add_loss(0.5 * keras.ops.mean(keras.ops.square(logits)))
        return logits


def adding(**options):
    keras.utils.set_random_seed(7)
    model = Adding(make_config())
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    model.compile(keras.optimizers.SGD(0.1), loss, **options)
    return model


def expected_step(model):
    """The weights after a step by hand, and the loss of it."""
    with tf.GradientTape() as tape:
        logits = model(SOURCE, model.shift_right(TARGET), training=True)
        losses = model.loss.token_losses(TARGET, logits)[0]
        loss = tf.reduce_mean(losses[TARGET != 0]) + tf.add_n(model.losses)
    variables = model.trainable_variables
    gradients = map(tf.convert_to_tensor, tape.gradient(loss, variables))
    pairs = zip(variables, gradients, strict=True)
    return [variable - 0.1 * gradient for variable, gradient in pairs], loss


@pytest.mark.long
def test_added_losses_and_regularizers_count_in_objective_and_loss():
    model = adding()
    weights, loss = expected_step(model)
    assert float(tf.add_n(model.losses)) > 1
    result = model.evaluate(SOURCE, TARGET, verbose=0, return_dict=True)
    assert result["loss"] == pytest.approx(float(loss), rel=1e-5)
    found, history = trained_weights(model, (SOURCE, TARGET))
    assert_same(found, weights)
    assert history["loss"] == pytest.approx([float(loss)], rel=1e-5)


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    ("replicas", "options"),
    [
        (1, {"accumulate_steps": 2, "jit_compile": True}),
        (2, {"jit_compile": False}),
    ],
)
def test_added_losses_count_once_however_a_batch_is_cut(
    replicas, options, two_replicas
):
    """Means over equal parts: their mean is that of the whole."""
    expected, loss = expected_step(adding())
    scope = two_replicas.scope if replicas == 2 else contextlib.nullcontext
    with scope():
        model = adding(**options)
    weights, history = trained_weights(model, (SOURCE, TARGET))
    assert_same(weights, expected, rtol=1e-4)
    assert history["loss"] == pytest.approx([float(loss)], rel=1e-5)


def test_a_model_without_added_losses_has_no_more_operations():
    model = compiled()
    sums = [tf.constant(value) for value in (1.0, 2.0, 3.0)]
    assert model._with_added_losses(sums, tf.constant(5.0)) is sums


@keras.saving.register_keras_serializable(package="keras_habits")
def highest_logit(labels, logits):
    """The mean of it is a metric."""
    return keras.ops.max(logits, axis=-1)


def metrics():
    return {
        "metrics": ["accuracy", highest_logit],
        "weighted_metrics": [
            keras_hub.metrics.Perplexity(from_logits=True, name="ppl")
        ],
    }


def assert_expected(found, model, weights):
    """Against NumPy on the model's logits."""
    logits = np.asarray(model(SOURCE, model.shift_right(TARGET)), "float64")
    real = TARGET != 0
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nll = -np.take_along_axis(log_probs, TARGET[..., None], -1)[..., 0]
    counts = real * weights[:, None]
    expected = {
        "accuracy": (logits.argmax(-1) == TARGET)[real].mean(),
        "highest_logit": logits.max(-1)[real].mean(),
        "ppl": np.exp((nll * counts).sum() / counts.sum()),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-4), name


def test_own_metrics_get_labels_and_logits_and_no_padding():
    weights = np.array([1, 0, 2, 1, 0.5, 3])
    model = compiled(**metrics())
    options = {"verbose": 0, "return_dict": True, "sample_weight": weights}
    found = model.evaluate(SOURCE, TARGET, **options)
    assert_expected(found, model, weights)
    names = {"loss", "nll", "perplexity", "token_accuracy"}
    assert set(found) == names | {"accuracy", "highest_logit", "ppl"}
    options["sample_weight"] = np.ones(6)
    unweighted = model.evaluate(SOURCE, TARGET, **options)
    assert found["accuracy"] == pytest.approx(unweighted["token_accuracy"])


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    ("replicas", "options"),
    [(1, {"accumulate_steps": 2, "jit_compile": True}), (2, {"jit_compile": False})],
)
def test_own_metrics_of_fit_are_those_of_the_whole_batch(
    replicas, options, two_replicas
):
    scope = two_replicas.scope if replicas == 2 else contextlib.nullcontext
    with scope():
        model = compiled(keras.optimizers.SGD(0.0), **metrics(), **options)
    weights = np.array([1, 0, 2, 1, 0.5, 3])
    _, history = trained_weights(model, (SOURCE, TARGET, weights))
    found = {name: values[0] for name, values in history.items()}
    assert_expected(found, model, weights)
    dataset = tf.data.Dataset.from_tensors((SOURCE, TARGET, weights))
    found = model.evaluate(dataset, verbose=0, return_dict=True)
    assert_expected(found, model, weights)


@pytest.mark.long
def test_own_metrics_are_saved_with_the_model_and_have_directions(tmp_path):
    model = compiled(**metrics())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    stop = keras.callbacks.EarlyStopping("val_accuracy")
    history = loaded.fit(
        SOURCE, TARGET, validation_data=(SOURCE, TARGET), verbose=0, callbacks=[stop]
    ).history
    assert {"accuracy", "val_accuracy", "highest_logit", "val_ppl"} <= set(history)
    assert stop.monitor_op is keras.ops.greater
    assert len(loaded.evaluate(SOURCE, TARGET, verbose=0)) == 7


def test_metrics_of_layers_are_reported():
    """As the load of experts would be."""

    class Measuring(kt.Transformer):
        def build(self, *shapes):
            if not self.built:
                self.length = keras.metrics.Mean(name="source_length")
            super().build(*shapes)

        def test_step(self, data):
            self.length.update_state(keras.ops.shape(data[0])[1])
            return super().test_step(data)

    model = Measuring(make_config())
    model.compile("sgd", run_eagerly=True)
    found = model.evaluate(SOURCE, TARGET, verbose=0, return_dict=True)
    assert found["source_length"] == 5


def test_a_metric_that_does_not_take_logits_is_named():
    with pytest.raises(ValueError, match="`metrics` must take .*MeanSquaredError"):
        compiled(metrics=[keras.metrics.MeanSquaredError()])


def test_a_weight_that_the_loss_does_not_use_stays():
    """As a head would that is trained by another step."""

    class WithHead(kt.Transformer):
        def build(self, *shapes):
            if not self.built:
                self.head = keras.layers.Dense(3)
                self.head.build((None, 6))
            super().build(*shapes)

    model = WithHead(make_config())
    model.compile(keras.optimizers.Adam(0.1), kt.LabelSmoothedCrossEntropy(0.1))
    gradients, _, size = model.batch_gradients(SOURCE, TARGET)
    assert np.isfinite(size)
    names = [variable.path for variable in model.trainable_variables]
    unused = [
        gradient
        for name, gradient in zip(names, gradients, strict=True)
        if "dense" in name
    ]
    assert len(unused) == 2
    assert not np.any(unused[0]) and not np.any(unused[1])


@pytest.mark.parametrize("name", ["compute_loss", "compute_metrics"])
def test_hooks_of_keras_that_are_not_called_are_refused(name):
    """Silently, they would have no effect."""
    subclass = type("Mine", (kt.Transformer,), {name: lambda self, *args: 0.0})
    with pytest.raises(ValueError, match=f"`{name}` must not .* Received: Mine."):
        subclass(make_config()).compile("sgd")


def test_metrics_of_compile_are_no_part_of_weights(tmp_path):
    model, other = compiled(), compiled(metrics=["accuracy"])
    for saved, loaded in ((model, other), (other, model)):
        saved.save_weights(tmp_path / "model.weights.h5")
        loaded.load_weights(tmp_path / "model.weights.h5")
