"""The train step: the same result however a batch is split (design of §5.1, §5.2)."""

import contextlib
import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.layers.dropout import step_seed
from keras_transformer.model import train_step
from keras_transformer.model.batch import Batch
from keras_transformer.model.transformer import Transformer
from keras_transformer.training.losses import LabelSmoothedCrossEntropy

CONFIG = ModelConfig(
    vocab_size=13, num_layers=1, d_model=6, d_ff=7, num_heads=2, dropout_rate=0.0
)
PAD, EOS = CONFIG.pad_id, CONFIG.eos_id


def batch(rows=6, length=5, seed=0):
    """Rows of unequal length: the first replica's have far more tokens."""
    draw = np.random.default_rng(seed)
    tokens = draw.integers(4, 13, (2, rows, length)).astype("int32")
    for side in tokens:
        for row in range(rows):
            end = length - 1 if row < rows // 2 else row % 2
            side[row, end] = EOS
            side[row, end + 1 :] = PAD
    return tokens[0], tokens[1]


def make(config=CONFIG, **options):
    """A compiled model; equal weights each time."""
    keras.utils.set_random_seed(7)
    model = Transformer(config, dtype=options.pop("dtype", None))
    optimizer = options.pop("optimizer", None) or keras.optimizers.SGD(1.0)
    loss = LabelSmoothedCrossEntropy(0.1, options.pop("r_drop", 0.0))
    model.compile(optimizer, loss, **options)
    return model


def trained_weights(model, data, steps=1):
    """Train on the same batch, as one batch of `fit`."""
    dataset = tf.data.Dataset.from_tensors(data).repeat(steps)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    history = model.fit(dataset.with_options(options), shuffle=False, verbose=0)
    return [weight.numpy() for weight in model.trainable_weights], history.history


def assert_same(actual, expected, rtol=1e-5):
    """Equal relative to the largest entry of each weight."""
    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_allclose(left, right, atol=rtol * np.abs(right).max())


@pytest.fixture(scope="module")
def joined():
    """Weights and metrics after one step of rate 1 on the whole batch."""
    return trained_weights(make(jit_compile=False), batch())


@pytest.mark.long(first=1)
@pytest.mark.parametrize("jit_compile", [True, False])
def test_two_replicas_with_unequal_token_counts_equal_the_joined_batch(
    joined, jit_compile, two_replicas
):
    """Most tokens on one replica, few on the other: each token weighs the same.

    The step of rate 1 is the gradient itself, start minus end.
    """
    start = [weight.numpy() for weight in make().trainable_weights]
    with two_replicas.scope():
        model = make(jit_compile=jit_compile)
    weights, history = trained_weights(model, batch())
    assert_same(weights, joined[0])
    for before, ours, theirs in zip(start, weights, joined[0], strict=True):
        # A difference of float32 weights near 1 is rounded to about 1e-7.
        np.testing.assert_allclose(before - ours, before - theirs, rtol=1e-5, atol=1e-6)
        assert np.abs(before - theirs).max() > 1e-4
    for name, values in joined[1].items():
        np.testing.assert_allclose(history[name], values, rtol=1e-5)


@pytest.mark.long
def test_accumulation_equals_the_whole_batch(joined):
    """Three microbatches of two rows, of which the last holds few tokens."""
    weights, history = trained_weights(make(accumulate_steps=3), batch())
    assert_same(weights, joined[0])
    np.testing.assert_allclose(history["loss"], joined[1]["loss"], rtol=1e-5)


@pytest.mark.long
def test_accumulation_on_two_replicas_equals_the_whole_batch(two_replicas):
    data = batch(rows=8)
    expected, _ = trained_weights(make(), data)
    with two_replicas.scope():
        model = make(accumulate_steps=2, jit_compile=True)
    assert_same(trained_weights(model, data)[0], expected)


def wide_model(**options):
    """A model whose activations take more memory than its gradients.

    Tensors of less than 256 KiB are not counted: a piece of 64 rows has larger ones.
    """
    config = dataclasses.replace(CONFIG, vocab_size=1009, d_model=96, d_ff=97)
    return make(config, **options)


def step_bytes(model):
    """What the tensors of a step on 256 rows take at the peak, after a first step.

    The least of three: the order of independent operations changes it by up to a fifth.
    """
    tokens = np.full((256, 31), 5, "int32")
    model.train_on_batch(tokens, tokens)
    memory, taken = tf.config.experimental, []
    for _ in range(3):
        memory.reset_memory_stats("CPU:0")
        before = memory.get_memory_info("CPU:0")["current"]
        model.train_on_batch(tokens, tokens)
        taken.append(memory.get_memory_info("CPU:0")["peak"] - before)
    return min(taken)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_piece_of_a_batch_needs_memory_after_the_one_before_it(jit_compile):
    """Half of a batch at a time takes half the activations, not the same in two."""
    whole, halves = (
        step_bytes(wide_model(accumulate_steps=count, jit_compile=jit_compile))
        for count in (1, 2)
    )
    assert 0.35 < halves / whole < 0.75


@pytest.mark.long
def test_rows_that_do_not_fill_all_microbatches_count_too():
    """Batches of four rows and of two train in three microbatches as in one."""
    data = tf.data.Dataset.from_tensor_slices(batch()).batch(4)
    one, three = make(), make(accumulate_steps=3)
    whole, cut = (
        model.fit(data, shuffle=False, verbose=0).history for model in (one, three)
    )
    assert_same(three.get_weights(), one.get_weights())
    for name, values in whole.items():
        np.testing.assert_allclose(cut[name], values, rtol=1e-5)


def test_rows_of_padding_and_longer_padding_change_nothing(joined):
    source, target = (np.pad(side, ((0, 2), (0, 3))) for side in batch())
    weights, history = trained_weights(make(), (source, target))
    assert_same(weights, joined[0])
    np.testing.assert_allclose(history["perplexity"], joined[1]["perplexity"], 1e-5)


def test_reported_metrics_are_means_over_tokens():
    """Against log-softmax of the model's own logits, in NumPy."""
    model, (source, target) = make(), batch()
    logits = np.asarray(model(source, model.shift_right(target)), "float64")
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    gold = np.take_along_axis(log_probs, target[..., None], -1)[..., 0]
    real = target != PAD
    nll = -gold[real].mean()
    right = (log_probs.argmax(-1) == target)[real].mean()
    result = model.evaluate(source, target, batch_size=6, verbose=0, return_dict=True)
    np.testing.assert_allclose(result["nll"], nll, rtol=1e-5)
    np.testing.assert_allclose(result["perplexity"], np.exp(nll), rtol=1e-5)
    np.testing.assert_allclose(result["token_accuracy"], right, rtol=1e-5)
    # In two unequal batches too: tokens are averaged, not batches.
    split = model.evaluate(source, target, batch_size=5, verbose=0, return_dict=True)
    np.testing.assert_allclose(split["nll"], nll, rtol=1e-5)


DROPPING = ModelConfig(
    vocab_size=13, num_layers=1, d_model=6, d_ff=7, num_heads=2, dropout_rate=0.5
)


@pytest.mark.long
def test_dropout_repeats_with_seed_and_step_alone():
    """Two runs draw the same masks; another seed, or another step, draws others."""
    data = batch()
    first, _ = trained_weights(make(DROPPING, seed=3), data, steps=2)
    again, _ = trained_weights(make(DROPPING, seed=3), data, steps=2)
    other, _ = trained_weights(make(DROPPING, seed=4), data, steps=2)
    for left, right in zip(first, again, strict=True):
        np.testing.assert_array_equal(left, right)
    assert any(
        np.abs(left - right).max() > 1e-4
        for left, right in zip(first, other, strict=True)
    )
    model = make(DROPPING, seed=3)
    gradients = [
        model._gradients(Batch(*map(tf.constant, data)), tf.constant(counter), 1.0)[0][
            0
        ]
        for counter in (0, 0, 1)
    ]
    np.testing.assert_array_equal(gradients[0], gradients[1])
    assert np.abs(gradients[0] - gradients[2]).max() > 1e-4


def test_r_drop_draws_two_predictions_of_a_pair_together():
    """The objective by the formulas of Liang et al. (2021), divided by 2."""
    config = dataclasses.replace(CONFIG, dropout_rate=0.3)
    model = make(config, r_drop=5.0)
    source, target = batch()
    gradients, sums, _ = model.batch_gradients(source, target)
    real = tf.cast(target != PAD, "float32")
    twice = np.concatenate([source, source]), np.concatenate([target, target])
    with tf.GradientTape() as tape, step_seed(0, 0):
        logits = model(twice[0], model.shift_right(twice[1]), training=True)
        log_p, log_q = tf.split(tf.nn.log_softmax(logits), 2)
        p, q = tf.exp(log_p), tf.exp(log_q)
        divergences = tf.reduce_sum(p * (log_p - log_q) + q * (log_q - log_p), -1) / 2
        losses = model.loss.token_losses(twice[1], logits)[0]
        mean = tf.reduce_sum(losses * tf.concat([real, real], 0)) / 2
        divergence = tf.reduce_sum(divergences * real)
        objective = (mean + 5.0 / 2 * divergence) / tf.reduce_sum(real)
    expected = tape.gradient(objective, model.trainable_variables)
    assert divergence > 0.1
    np.testing.assert_allclose(sums[0], mean, rtol=1e-5)
    assert_same(gradients, [tf.convert_to_tensor(each) for each in expected], 1e-4)


def test_r_drop_without_dropout_is_the_plain_step(joined):
    model = make(r_drop=5.0, jit_compile=False)
    weights, history = trained_weights(model, batch())
    assert_same(weights, joined[0])
    for name, values in history.items():
        np.testing.assert_allclose(values, joined[1][name], rtol=1e-5, err_msg=name)


@pytest.mark.long
def test_replicas_draw_different_dropout_masks(two_replicas):
    """Equal halves would give the gradient of one half if the masks were equal."""
    half = tuple(side[:3] for side in batch())
    both = tuple(np.concatenate([side, side]) for side in half)
    single, _ = trained_weights(make(DROPPING, seed=3), half)
    with two_replicas.scope():
        model = make(DROPPING, seed=3)
    doubled, _ = trained_weights(model, both)
    assert any(
        np.abs(left - right).max() > 1e-4
        for left, right in zip(single, doubled, strict=True)
    )


@pytest.mark.long(first=2)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_the_loss_falls_in_every_precision(dtype):
    optimizer = keras.optimizers.Adam(0.01)
    if dtype == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=256.0)
    model = make(dtype=dtype, optimizer=optimizer)
    source, target = batch()
    history = model.fit(
        source, target, batch_size=6, epochs=15, shuffle=False, verbose=0
    ).history["loss"]
    assert np.isfinite(history).all()
    assert history[-1] < 0.8 * history[0]


def test_a_plain_keras_loss_trains_as_well():
    """`compile` without a loss is cross-entropy: loss and nll are the same."""
    model = Transformer(CONFIG)
    model.compile("sgd")
    result = model.evaluate(*batch(), verbose=0, return_dict=True)
    np.testing.assert_allclose(result["loss"], result["nll"], rtol=1e-6)


def test_integers_of_any_type_are_tokens(joined):
    """NumPy makes int64."""
    weights, history = trained_weights(
        make(), tuple(side.astype("int64") for side in batch())
    )
    assert_same(weights, joined[0])
    np.testing.assert_allclose(history["loss"], joined[1]["loss"], rtol=1e-6)


def test_predict_returns_the_logits_of_a_call():
    """In batches of four rows and of two."""
    model, (source, target) = make(), batch()
    decoder_inputs = np.asarray(model.shift_right(target))
    logits = model.predict((source, decoder_inputs), batch_size=4, verbose=0)
    assert logits.shape == (6, 5, 13)
    np.testing.assert_allclose(logits, model(source, decoder_inputs), atol=1e-5)


@pytest.mark.long
def test_a_function_of_labels_and_logits_is_a_loss():
    source, target = batch()
    losses = (
        tf.nn.sparse_softmax_cross_entropy_with_logits,
        keras.losses.sparse_categorical_crossentropy,  # would take probabilities
        "sparse_categorical_crossentropy",
    )
    results = []
    for loss in losses:
        model = make()
        model.compile("sgd", loss)
        results.append(model.evaluate(source, target, return_dict=True, verbose=0))
    assert results[0]["loss"] == pytest.approx(results[0]["nll"], rel=1e-5)
    assert results[1] == results[2] == pytest.approx(results[0], rel=1e-5)


@pytest.mark.parametrize(
    "loss",
    [
        "mse",
        None,
        keras.losses.MeanSquaredError(),
        keras.losses.SparseCategoricalCrossentropy(),
        lambda labels, logits: tf.reduce_sum(logits),
    ],
    ids=["name", "none", "dense", "probabilities", "scalar"],
)
def test_a_loss_that_is_not_one_of_each_token_is_refused(loss):
    with pytest.raises(ValueError, match="`loss` must take labels .* Received: loss="):
        Transformer(CONFIG).compile("sgd", loss)


def test_loss_weights_are_refused():
    with pytest.raises(
        ValueError, match="`loss_weights` must be left out: .* Received: "
    ):
        Transformer(CONFIG).compile("sgd", loss_weights=[2.0])


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    ("limit", "is_scaled"), [({"clipnorm": 0.05}, False), ({"clipvalue": 0.01}, True)]
)
def test_gradients_are_clipped_after_replicas_add_theirs(
    limit, is_scaled, two_replicas
):
    """Weights after one step of rate 1 on one replica and on two."""

    def optimizer():
        inner = keras.optimizers.SGD(1.0, **limit)
        return keras.optimizers.LossScaleOptimizer(inner) if is_scaled else inner

    start = make().get_weights()
    one, _ = trained_weights(make(optimizer=optimizer()), batch())
    with two_replicas.scope():
        model = make(optimizer=optimizer(), jit_compile=False)
    two, _ = trained_weights(model, batch())
    for before, ours, theirs in zip(start, two, one, strict=True):
        np.testing.assert_allclose(before - ours, before - theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.release
def test_compile_settings_come_back_with_the_saved_model(tmp_path):
    model = make(accumulate_steps=3, seed=5, jit_compile=True, r_drop=2.0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert (loaded.accumulate_steps, loaded.seed, loaded.jit_gradients) == (3, 5, True)
    assert loaded.loss.label_smoothing == 0.1
    assert loaded.r_drop == 2.0
    before, _ = trained_weights(model, batch())
    after, _ = trained_weights(loaded, batch())
    assert_same(after, before, rtol=0.0)


def test_wrong_batches_are_refused():
    with pytest.raises(ValueError, match="Received: x=array, y=None"):
        make().test_on_batch(batch()[0])
    with pytest.raises(ValueError, match="`accumulate_steps` must be at least 1"):
        make(accumulate_steps=0)


class BrokenLoss(LabelSmoothedCrossEntropy):
    """Not finite wherever the token 11 is to be predicted."""

    def token_losses(self, labels, logits):
        losses, *others = super().token_losses(labels, logits)
        return losses * tf.where(tf.equal(labels, 11), np.inf, 1.0), *others


def batches_of(*tokens):
    """One batch for each token, which it is made of."""
    rows = [np.full((4, 5), token, "int32") for token in tokens]
    dataset = tf.data.Dataset.from_tensor_slices(np.stack(rows))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return dataset.map(lambda side: (side, side)).with_options(options)


@pytest.mark.long(first=2)
@pytest.mark.parametrize(
    ("replicas", "jit_compile", "has_gpu"),
    [
        *((1, False, False), (1, True, True), (2, True, False)),
        *((1, True, False), (2, True, True)),
    ],
)
def test_a_step_that_is_not_finite_changes_nothing(
    replicas, jit_compile, has_gpu, two_replicas, monkeypatch
):
    """Weights, optimizer and metrics are as if the batch had not been there.

    Steps for a GPU do not branch.
    """
    monkeypatch.setattr(train_step.hardware, "has_gpu", lambda: has_gpu)
    with two_replicas.scope() if replicas == 2 else contextlib.nullcontext():
        model = Transformer(CONFIG)
        optimizer = keras.optimizers.Adam(0.01)
        model.compile(optimizer, BrokenLoss(0.1), jit_compile=jit_compile)
        optimizer.build(model.trainable_variables)
    variables = [*optimizer.variables, *model.weights]
    start = [value.numpy() for value in variables]
    results = []
    for tokens in ([5, 11, 7], [5, 7]):
        for variable, value in zip(variables, start, strict=True):
            variable.assign(value)
        skips = []
        seen = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, skips=skips: skips.append(
                logs["skipped"]
            )
        )
        history = model.fit(
            batches_of(*tokens), shuffle=False, verbose=0, callbacks=[seen]
        ).history
        assert skips == [float(token == 11) for token in tokens]
        assert optimizer.iterations.numpy() == 2
        results.append((history["loss"], [value.numpy() for value in variables]))
    (first_loss, first), (second_loss, second) = results
    assert first_loss == second_loss
    for left, right in zip(first, second, strict=True):
        np.testing.assert_array_equal(left, right)


def test_gradients_that_are_not_finite_are_skipped_too():
    """The loss is finite, its gradient at a probability of 0 is not."""
    model = make(optimizer=keras.optimizers.SGD(1.0))
    before = [weight.numpy() for weight in model.weights]
    model.loss.token_losses = lambda labels, logits: (
        tf.sqrt(tf.zeros_like(logits[..., 0]) * logits[..., 0]),
        tf.zeros_like(logits[..., 0]),
        tf.zeros_like(logits[..., 0], tf.bool),
    )
    _, history = trained_weights(model, batch())
    assert history["skipped"] == [1.0]
    for left, weight in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(left, weight.numpy())


@pytest.mark.long
def test_an_epoch_reports_the_share_of_skipped_steps_and_each_step_its_own():
    model = make()
    model.compile("sgd", BrokenLoss(0.1))
    seen = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(logs["skipped"])
    )
    data = batches_of(5, 11, 7, 8)
    for _ in range(2):
        history = model.fit(data, shuffle=False, verbose=0, callbacks=[watch]).history
        assert history["skipped"] == [0.25]
        assert np.isfinite(history["loss"][0])
    assert seen == [0.0, 1.0, 0.0, 0.0] * 2
    assert "skipped" not in model.evaluate(data, return_dict=True, verbose=0)


@pytest.mark.long
def test_an_epoch_without_a_finite_step_has_no_loss_and_is_not_the_best(tmp_path):
    model = make()
    best = keras.callbacks.ModelCheckpoint(
        tmp_path / "best.keras", monitor="loss", save_best_only=True
    )
    callbacks = [keras.callbacks.TerminateOnNaN(), best]
    options = {"validation_data": batch(), "verbose": 0, "callbacks": callbacks}
    model.fit(*batch(), **options)
    saved = (tmp_path / "best.keras").read_bytes()
    model.embedding.embeddings.assign(np.nan * model.embedding.embeddings)
    history = model.fit(*batch(), epochs=3, **options).history
    assert history["skipped"] == [1.0]
    assert np.isnan([history["loss"], history["perplexity"], history["val_loss"]]).all()
    assert (tmp_path / "best.keras").read_bytes() == saved


def test_padding_alone_has_no_loss():
    source, target = batch()
    found = make().evaluate(source, 0 * target, return_dict=True, verbose=0)
    assert np.isnan([*found.values()]).all()


@pytest.mark.long(first=1)
@pytest.mark.parametrize("is_scaled", [False, True])
def test_steps_whose_gradients_keras_accumulates_have_masks_of_their_own(is_scaled):
    optimizer = keras.optimizers.SGD(0.0, gradient_accumulation_steps=2)
    if is_scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    config = dataclasses.replace(CONFIG, dropout_rate=0.5)
    model = make(config, optimizer=optimizer)
    losses = []
    for _ in range(4):
        model.reset_metrics()
        losses.append(float(model.train_on_batch(*batch(), return_dict=True)["loss"]))
    assert len({*losses}) == 4


@pytest.mark.long
def test_infinite_gradients_of_opposite_sign_do_not_cancel():
    """What tells finite from infinite is a sum: the root's slopes at 0 are +-inf."""
    model = make(optimizer=keras.optimizers.SGD(1.0))

    def losses(labels, logits):
        at_zero = tf.stop_gradient(logits) - logits
        loss = tf.sqrt(at_zero[..., 5]) - tf.sqrt(at_zero[..., 6])
        return loss, tf.zeros_like(loss), tf.zeros_like(loss, tf.bool)

    model.loss.token_losses = losses
    _, history = trained_weights(model, batch())
    assert history["skipped"] == [1.0]


def test_a_loss_of_keras_is_measured_like_ours():
    source, target = batch()
    results = []
    for loss in ("sparse_categorical_crossentropy", LabelSmoothedCrossEntropy(0.0)):
        model = make()
        model.compile("sgd", loss)
        results.append(model.evaluate(source, target, return_dict=True, verbose=0))
    for name in ("loss", "nll", "token_accuracy"):
        np.testing.assert_allclose(results[0][name], results[1][name], rtol=1e-5)


@pytest.mark.long
def test_an_overflow_on_one_replica_is_one_on_all(two_replicas):
    """Keras's loss scaling asks one replica; here the other has what overflows."""
    with two_replicas.scope():
        model = Transformer(CONFIG)
        scaling = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
        model.compile(scaling, BrokenLoss(0.1), jit_compile=False)
    before = [weight.numpy() for weight in model.weights]
    side = np.array([[5] * 4, [5] * 4, [11] * 4, [11] * 4], "int32")
    dataset = tf.data.Dataset.from_tensors((side, side))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    history = model.fit(dataset.with_options(options), shuffle=False, verbose=0)
    assert history.history["skipped"] == [1.0]
    assert float(scaling.dynamic_scale.numpy()) == 2.0**14
    for left, weight in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(left, weight.numpy())
