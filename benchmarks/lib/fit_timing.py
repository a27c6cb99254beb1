"""Timing the steps of `fit` on batches of one shape."""

from __future__ import annotations

import itertools
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model.transformer import Transformer
from keras_transformer.presets import Preset
from keras_transformer.runs.run_config import RunConfig

# Same as in training.
_PREFETCHED_BATCHES = 8


class StepTimes(keras.callbacks.Callback):
    """Times the steps of `fit`, each until its loss is known.

    Attributes:
        seconds: Seconds of each step, without the work of `fit` between steps.
        losses: The loss reported after each step, the mean since the start of `fit`.
    """

    def __init__(self):
        super().__init__()
        self.seconds: list[float] = []
        self.losses: list[float] = []

    def on_train_batch_begin(self, batch, logs=None):
        self._began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))  # waits for the step
        self.seconds.append(time.perf_counter() - self._began)


def run_config(preset: Preset, precision: str, seed: int = 0) -> RunConfig:
    """Return the configuration of a run on random tokens."""
    return RunConfig(
        preset=preset.name,
        model=preset.model,
        training=preset.training,
        decoding=preset.decoding,
        source_language="none",
        target_language="none",
        tokenizer_hash="none",
        precision=precision,
        seed=seed,
    )


def same_batch(
    config: ModelConfig, rows: int, source_length: int, target_length: int, seed: int
) -> tf.data.Dataset:
    """Return a dataset that repeats one random batch without padding.

    Args:
        config: Vocabulary sizes and special ids.
        rows: Pairs of the batch.
        source_length: Tokens of each source, EOS included.
        target_length: Tokens of each target, EOS included.
        seed: Seed of the tokens.

    Returns:
        Infinite dataset of (source_tokens, target_tokens), int32 `[rows, length]` each.
        Shapes are unknown in the graph, same as in training.

    Raises:
        ValueError: If the vocabulary has only special ids.
    """
    draw = np.random.default_rng(seed)

    def tokens(vocab_size, length):
        special = [config.pad_id, config.bos_id, config.eos_id]
        words = np.setdiff1d(np.arange(vocab_size, dtype=np.int32), special)
        if not len(words):
            raise ValueError(
                "`vocab_size` must leave ids besides pad_id, bos_id and eos_id. "
                f"Received: vocab_size={vocab_size}."
            )
        drawn = draw.choice(words, (rows, length))
        drawn[:, -1] = config.eos_id
        return drawn

    batch = (
        tokens(config.vocab_size, source_length),
        tokens(config.output_vocab_size, target_length),
    )
    spec = tf.TensorSpec([None, None], tf.int32)
    options = tf.data.Options()
    options.autotune.enabled = False  # same as in training
    dataset = tf.data.Dataset.from_generator(
        lambda: itertools.repeat(batch), output_signature=(spec, spec)
    )
    return dataset.prefetch(_PREFETCHED_BATCHES).with_options(options)


def time_fit(
    model: Transformer, batches: tf.data.Dataset, untimed_steps: int, steps: int
) -> dict[str, Any]:
    """Run `fit` twice and time the second run.

    Args:
        model: A compiled model.
        batches: An infinite dataset.
        untimed_steps: Steps of the first `fit`, which traces and compiles.
        steps: Steps of the second `fit`.

    Returns:
        "seconds" and "losses": of each step of the second `fit`. "fit_s": its total
        time. "first_step_s": of the first step of the first `fit`. "step_bytes": peak
        memory of tensors in the second `fit`, minus those that existed before; None if
        TensorFlow's allocator does not count (a CPU without oneDNN).
    """

    def fit(number):
        times = StepTimes()
        model.fit(
            batches, steps_per_epoch=number, callbacks=[times], shuffle=False, verbose=0
        )
        return times

    first = fit(untimed_steps)
    before = tensor_bytes("current")
    began = time.perf_counter()
    times = fit(steps)
    return {
        "fit_s": time.perf_counter() - began,
        "step_bytes": None if before is None else tensor_bytes("peak") - before,
        "first_step_s": first.seconds[0],
        "seconds": times.seconds,
        "losses": [first.losses[0], *times.losses],
    }


def tensor_bytes(name: str) -> int | None:
    """Return the "current" memory of tensors, or the "peak" since the last call."""
    device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
    try:
        value = tf.config.experimental.get_memory_info(device)[name]
    except ValueError:
        return None
    tf.config.experimental.reset_memory_stats(device)
    return value
