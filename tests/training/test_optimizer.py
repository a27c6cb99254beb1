"""Adam by one kernel: the same update as Keras's."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.runs import checkpoints
from keras_transformer.training.optimizer import Adam

SETTINGS = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9}


def after_steps(optimizer, precision="float32", num_steps=5):
    """Return the variables of an optimizer and what it has trained."""
    draw = np.random.default_rng(3)
    weights = [
        keras.Variable(draw.normal(size=shape), dtype=precision, name=name)
        for name, shape in (("matrix", (7, 5)), ("bias", (5,)))
    ]
    optimizer.build(weights)

    @tf.function
    def step(gradients):
        optimizer.apply_gradients(zip(gradients, weights, strict=True))

    for number in range(num_steps):
        size = 10.0 ** (number - 2)
        step([tf.constant(draw.normal(0, size, w.shape), w.dtype) for w in weights])
    return [
        np.array(keras.ops.cast(value, "float32"))
        for value in (*weights, *optimizer.variables)
    ]


@pytest.mark.parametrize("amsgrad", [False, True])
def test_update_is_that_of_keras(amsgrad):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    ours = after_steps(Adam(schedule, amsgrad=amsgrad, **SETTINGS))
    theirs = after_steps(keras.optimizers.Adam(schedule, amsgrad=amsgrad, **SETTINGS))
    assert len(ours) == len(theirs)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "options",
    [
        {"clipnorm": 0.5},
        {"global_clipnorm": 0.5},
        {"clipvalue": 0.02},
        {"use_ema": True, "ema_momentum": 0.7, "ema_overwrite_frequency": 3},
        {"weight_decay": 0.05},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_keras_adds_around_the_update_is_kept(options):
    plain, *both = (
        after_steps(optimizer)
        for optimizer in (
            Adam(0.1, **SETTINGS),
            Adam(0.1, **SETTINGS, **options),
            keras.optimizers.Adam(0.1, **SETTINGS, **options),
        )
    )
    for ours, theirs in zip(*both, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    changes = [np.abs(a - b).max() for a, b in zip(plain, both[0], strict=False)]
    assert max(changes[:2]) > 1e-3  # of the weights: the option does something


def test_loss_scaling_skips_what_is_not_finite():
    """Like Keras's: the gradients of step 2 overflow, and change no weight or slot."""

    def states(inner):
        optimizer = keras.optimizers.LossScaleOptimizer(
            inner, initial_scale=64.0, dynamic_growth_steps=2
        )
        weight = keras.Variable(np.linspace(-1.0, 1.0, 6), dtype="float32")
        optimizer.build([weight])

        @tf.function
        def step(gradient):
            optimizer.apply_gradients([(gradient, weight)])

        for value in (1.0, np.inf, -2.0, 3.0):
            step(tf.fill([6], np.float32(64.0 * value)))
            yield [np.array(v) for v in (weight, *inner.variables)]

    ours = list(states(Adam(0.1, **SETTINGS)))
    theirs = list(states(keras.optimizers.Adam(0.1, **SETTINGS)))
    for pair in zip(ours, theirs, strict=True):
        for left, right in zip(*pair, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)
    for before, after in zip(*ours[:2], strict=True):
        np.testing.assert_array_equal(before, after)
    assert np.abs(ours[2][0] - ours[1][0]).max() > 1e-3


def test_it_goes_on_where_the_adam_of_keras_stopped(tmp_path):
    """Slots have the same names: a checkpoint of either serves both."""

    def start(kind):
        draw = np.random.default_rng(5)
        weights = [keras.Variable(draw.normal(size=(3, 5)), dtype="float32")]
        optimizer = kind(0.1, **SETTINGS)
        optimizer.build(weights)
        return weights[0], optimizer

    gradients = np.random.default_rng(7).normal(size=(4, 3, 5)).astype("float32")
    weight, keras_adam = start(keras.optimizers.Adam)
    for gradient in gradients[:2]:
        keras_adam.apply([gradient])
    middle = weight.numpy()
    folder = checkpoints.CheckpointFolder(tmp_path)
    saved = folder.save(2, {}, optimizer=keras_adam)
    own_weight, own = start(Adam)
    checkpoints.restore(saved, optimizer=own)
    own_weight.assign(middle)
    for gradient in gradients[2:]:
        keras_adam.apply([gradient])
        own.apply([gradient])
    assert int(own.iterations) == 4
    np.testing.assert_allclose(own_weight.numpy(), weight.numpy(), rtol=1e-5)
    assert np.abs(weight.numpy() - middle).max() > 1e-2


def test_each_replica_updates_its_own_copy(two_replicas):
    """With gradients of 1 and 3 the sum is 4; bare Adam moves by the rate at first."""
    with two_replicas.scope():
        weight = keras.Variable(np.ones(3), dtype="float32")
        optimizer = Adam(0.25, **SETTINGS)
        optimizer.build([weight])

    def step():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        gradient = tf.fill([3], 1.0 + 2.0 * tf.cast(replica, tf.float32))
        optimizer.apply_gradients([(gradient, weight)])

    tf.function(lambda: two_replicas.run(step))()
    for copy in two_replicas.experimental_local_results(weight.value):
        np.testing.assert_allclose(copy, np.full(3, 0.75), rtol=1e-5)
    for slot in two_replicas.experimental_local_results(optimizer._momentums[0].value):
        np.testing.assert_allclose(slot, np.full(3, 0.4), rtol=1e-5)


def test_update_of_bfloat16_variables():
    ours = after_steps(Adam(0.1, **SETTINGS), "bfloat16")
    theirs = after_steps(keras.optimizers.Adam(0.1, **SETTINGS), "bfloat16")
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=0.05, atol=0.02)


def test_config_round_trips():
    again = Adam.from_config(Adam(0.5, **SETTINGS).get_config())
    assert (again.beta_2, again.epsilon) == (0.98, 1e-9)
    assert float(again.learning_rate) == 0.5
