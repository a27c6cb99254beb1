"""Adam by one kernel: the same update as Keras's."""

import keras
import numpy as np
import pytest
import tensorflow as tf

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
