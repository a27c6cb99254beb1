"""The programs of a train step under XLA: one on one replica, two on each of several.

Whatever a step has to do, they train as a step without XLA does.
"""

import contextlib
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model import lora
from keras_transformer.model.transformer import Transformer
from keras_transformer.training import fine_tuning
from keras_transformer.training.guided_alignment import AlignmentGuide
from keras_transformer.training.losses import LabelSmoothedCrossEntropy
from tests.keras_habits.test_own_losses_and_metrics import Adding
from tests.model.test_train_step import batch

SIZES = {"vocab_size": 13, "num_layers": 1, "d_model": 16, "d_ff": 16, "num_heads": 2}
ROWS = 8
PAIRS = batch(ROWS)
# The first replica's rows have fewer tokens.
PACKED = np.array(
    [[5, 3, 4, 3, 7, 3, 0, 0]] * 4 + [[8, 9, 3, 6, 7, 3, 4, 3]] * 4, "int32"
)
WEIGHTS = np.array([1, 0, 2, 1, 0.5, 3, 1, 1], "float32")
ALIGNED = np.random.default_rng(5).random((ROWS, 5, 5)) < 0.3


def adam(**options):
    return lambda: keras.optimizers.Adam(0.01, **options)


def scaled():
    """The scale grows. Where it overflows depends on the part of a replica."""
    return keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.01, clipnorm=0.1, gradient_accumulation_steps=2),
        initial_scale=16.0,
        dynamic_growth_steps=3,
    )


class Partly(Transformer):
    """Only gradients are compiled. Without XLA the masks of dropout would be others."""

    def _make_programs(self):
        super()._make_programs()
        self._summed_gradients = self._batch_gradients
        self._finish, self._step = self._finish_step, self._whole_step


# What `train` takes: options that do not meet in a step share one.
CASES = {
    "clipping, averages, decay, weights and microbatches": {
        "optimizer": adam(
            global_clipnorm=0.1,
            use_ema=True,
            ema_overwrite_frequency=3,
            weight_decay=0.1,
        ),
        "data": (*PAIRS, WEIGHTS),
        "accumulate_steps": 2,
    },
    "loss scaling, accumulation by Keras and added losses": {
        "optimizer": scaled,
        "dtype": "mixed_float16",
        "kind": Adding,
    },
    "guided alignment, frozen parts, own metrics and microbatches": {
        "data": (*PAIRS, ALIGNED),
        "guide": AlignmentGuide(2.0, (0, 1)),
        "prepare": lambda model: fine_tuning.freeze(model, ["encoder"]),
        "metrics": ["accuracy"],
        "accumulate_steps": 2,
    },
    "packed rows, adapters and own metrics": {
        "data": (PACKED, PACKED),
        "is_packed": True,
        "prepare": lambda model: lora.add_adapters(model, 3),
        "metrics": ["accuracy"],
    },
}


def make(kind=Transformer, dtype=None, prepare=None, **options):
    """A compiled model; equal weights each time."""
    keras.utils.set_random_seed(7)
    config = ModelConfig(**SIZES, dropout_rate=options.pop("dropout_rate", 0.0))
    model = kind(config, dtype=dtype)
    if prepare:
        prepare(model)
    loss = LabelSmoothedCrossEntropy(0.1, options.pop("r_drop", 0.0))
    model.compile(options.pop("optimizer", adam())(), loss, **options)
    return model


def train(strategy=None, data=PAIRS, **options):
    """Return what `fit` reports of each of 20 steps, and the model's state then."""
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = make(**options)
    sharding = tf.data.Options()
    sharding.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    dataset = tf.data.Dataset.from_tensors(data).repeat().with_options(sharding)
    history = model.fit(
        dataset, epochs=20, steps_per_epoch=1, shuffle=False, verbose=0
    ).history
    state = [*model.weights, *model.optimizer.variables]
    return history, [np.asarray(each, "float64") for each in state]


def assert_same_training(found, expected, rtol=1e-4):
    """Equal losses of each step, and at the end weights and optimizer."""
    assert found[0].keys() == expected[0].keys()
    for name in ("loss", "nll", "skipped"):
        np.testing.assert_allclose(found[0][name], expected[0][name], rtol)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=20 * rtol, atol=20 * rtol)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("name", CASES)
def test_programs_train_as_a_step_without_xla(name, two_replicas):
    options = CASES[name]
    expected = train(jit_compile=False, **options)
    assert expected[0]["loss"][-1] < expected[0]["loss"][0]
    rtol = 0.02 if "dtype" in options else 1e-4
    for strategy in (None, two_replicas):
        found = train(strategy, jit_compile=True, **options)
        assert_same_training(found, expected, rtol)


@pytest.mark.long
@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.release)])
def test_programs_draw_the_masks_that_gradients_alone_draw(replicas, two_replicas):
    strategy = two_replicas if replicas == 2 else None
    options = {"dropout_rate": 0.3, "r_drop": 2.0, "jit_compile": True}
    expected = train(strategy, kind=Partly, **options)
    assert_same_training(train(strategy, **options), expected)


def calls_and_writes(model, strategy=None):
    """Count the programs of a step, and its writes of variables outside of them."""

    def step(*tokens):
        with tf.device("CPU:0"):
            tokens = [tf.identity(side) for side in tokens]
        if strategy:
            return strategy.run(model.train_step, (tokens,))
        return model.train_step(tokens)

    spec = tf.TensorSpec([None, None], tf.int32)
    traced = tf.function(step, autograph=False).get_concrete_function(spec, spec)
    operations = traced.graph.get_operations()
    programs = [
        operation
        for operation in operations
        if operation.type.endswith("PartitionedCall")
        and operation.get_attr("_XlaMustCompile")
    ]
    writes = [each for each in operations if "Assign" in each.type]
    return len(programs), len(writes)


def test_a_step_of_one_replica_is_one_program():
    """With the loop over microbatches."""
    model = make(jit_compile=True, accumulate_steps=2)
    assert calls_and_writes(model) == (1, 0)


@pytest.mark.long
def test_a_step_of_each_of_two_replicas_is_two_programs(two_replicas):
    with two_replicas.scope():
        model = make(jit_compile=True, accumulate_steps=2)
    assert calls_and_writes(model, two_replicas) == (4, 0)


@pytest.mark.long
def test_own_metrics_stay_outside_of_the_program():
    """Of one metric, total and count."""
    model = make(jit_compile=True, metrics=["accuracy"])
    assert calls_and_writes(model) == (1, 2)


ONE_GPU_AS_TWO = """
import numpy as np
import tensorflow as tf

gpu = tf.config.list_physical_devices("GPU")[0]
half = tf.config.LogicalDeviceConfiguration(memory_limit=2048)
tf.config.set_logical_device_configuration(gpu, [half, half])
tf.config.experimental.enable_tensor_float_32_execution(False)

from tests.model.test_step_programs import assert_same_training, train

two = tf.distribute.MirroredStrategy(["/GPU:0", "/GPU:1"])
assert_same_training(train(two, jit_compile=True), train(jit_compile=True), 1e-3)
"""


@pytest.mark.long
def test_two_replicas_on_one_gpu_train_as_one_on_the_joined_batch(repository):
    if not tf.config.list_physical_devices("GPU"):
        pytest.skip("no GPU")
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=0"
    ended = subprocess.run(
        [sys.executable, "-c", ONE_GPU_AS_TWO],
        cwd=repository,
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
