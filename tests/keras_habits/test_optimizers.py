"""Habits of optimizers, schedules, and the ways to run a step."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from tests.keras_habits.models import arrays, compiled, make_model

OPTIMIZERS = {
    "adamw": lambda: keras.optimizers.AdamW(
        keras.optimizers.schedules.CosineDecay(0.01, 9), weight_decay=0.01
    ),
    "adafactor": lambda: keras.optimizers.Adafactor(0.05),
    "muon": lambda: keras.optimizers.Muon(0.01),
    "ema": lambda: keras.optimizers.Adam(
        0.01, use_ema=True, ema_overwrite_frequency=3, clipvalue=0.5
    ),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.01, global_clipnorm=1.0), initial_scale=256.0
    ),
    "accumulating": lambda: keras.optimizers.SGD(0.3, gradient_accumulation_steps=2),
    "paper": lambda: kt.paper_optimizer(6, kt.TrainingConfig(warmup_steps=9)),
}


@pytest.mark.long(first=2)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_lowers_the_loss(name):
    model = compiled(OPTIMIZERS[name]())
    data = tf.data.Dataset.from_tensors(arrays()).repeat(4)
    history = model.fit(data, epochs=2, shuffle=False, verbose=0).history
    assert history["loss"][1] < history["loss"][0]


@pytest.mark.long
def test_a_step_is_the_same_in_every_way_to_run_it():
    """Under XLA, eagerly, several in one call, and by hand with a GradientTape."""
    results = {}
    for name, options in {
        "graph": {},
        "XLA": {"jit_compile": True},
        "eager": {"run_eagerly": True},
        "several": {"steps_per_execution": 2},
    }.items():
        model = compiled(keras.optimizers.SGD(0.1), **options)
        data = tf.data.Dataset.from_tensors(arrays()).repeat(2)
        model.fit(data, shuffle=False, verbose=0)
        results[name] = model.get_weights()
    model, (source, target) = make_model(), arrays()
    loss, optimizer = (
        kt.LabelSmoothedCrossEntropy(0.1, ignore_class=0),
        keras.optimizers.SGD(0.1),
    )
    for _ in range(2):
        with tf.GradientTape() as tape:
            value = loss(
                target, model(source, model.shift_right(target), training=True)
            )
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
    results["tape"] = model.get_weights()
    for name, weights in results.items():
        for left, right in zip(weights, results["graph"], strict=True):
            np.testing.assert_allclose(left, right, atol=1e-5, err_msg=name)


@pytest.mark.long
def test_a_learning_rate_can_be_set_between_epochs():
    model = compiled(keras.optimizers.SGD(0.1))
    rates = keras.callbacks.LearningRateScheduler(lambda epoch: 0.0)
    before = model.get_weights()
    model.fit(*arrays(), epochs=2, verbose=0, callbacks=[rates])
    for left, right in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(left, right)
