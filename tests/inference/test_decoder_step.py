"""Decoding token by token, and sentence by sentence, computes what the model does."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import Past
from keras_transformer.inference import (
    decoder_step,
    full_pass,
    kv_cache,
    packed_kernels,
    prepared_weights,
)
from keras_transformer.inference.decoder_step import decode_step
from keras_transformer.layers.decoder import DecoderLayer
from tests.model_variants import FEW_QUICK, SOURCE, TARGET, VARIANTS, make


@pytest.fixture(scope="module", params=list(VARIANTS.values()), ids=list(VARIANTS))
def model(request):
    return make(**request.param)


@pytest.mark.parametrize("is_traced", [False, True])
def test_cached_steps_equal_the_whole_pass(model, is_traced, monkeypatch):
    """Hypotheses wander between three slots; each finds its past through ancestry.

    With kernels that stay whole, and with those that are cut into blocks.
    """
    if is_traced:
        monkeypatch.setattr(packed_kernels, "_FEW_WEIGHTS", 0)
    num_beams, steps = 3, TARGET.shape[1]
    slots = np.random.default_rng(3).integers(num_beams, size=steps)
    inputs = np.array(model.shift_right(TARGET))
    other = inputs.copy()
    other[:, 1:] = 6  # what the other slots hold must not matter
    steps_of_columns = np.tile(np.arange(steps).repeat(num_beams), [3, 1])
    tokens = np.tile(other.T[:, :, None], num_beams)
    tokens[range(steps), :, slots] = inputs.T
    ancestry = np.zeros((steps, 3, num_beams, steps, num_beams), bool)
    for step in range(steps):
        ancestry[step, :, :, step] = np.eye(num_beams, dtype=bool)
        ancestry[step, :, :, range(step), slots[:step]] = True
    ancestry = ancestry.reshape(steps, 3, num_beams, -1)
    of_steps = [tf.constant(each) for each in (tokens, ancestry, slots)]

    def decode():
        source = full_pass.start(model, SOURCE)
        cache = kv_cache.empty(model.config, 3, num_beams * steps, "float32")
        prepared = prepared_weights.prepare(model, with_output=is_traced)
        weights = prepared_weights.step_weights(model, prepared)

        def take_step(step, found, cache):
            tokens, ancestry, slot = (each[step] for each in of_steps)
            past = Past(ancestry, steps_of_columns, step * num_beams)
            logits, cache = decode_step(
                model.config, weights, tokens, step, past, source, cache
            )
            return step + 1, found.write(step, logits[:, slot]), cache

        first = tf.constant(0), tf.TensorArray(tf.float32, steps), cache
        _, found, _ = tf.while_loop(lambda step, *_: step < steps, take_step, first)
        return found.stack()

    found = tf.function(decode, autograph=False)() if is_traced else decode()
    expected = np.asarray(model(SOURCE, inputs))
    np.testing.assert_allclose(np.moveaxis(found, 0, 1), expected, atol=1e-4)


@pytest.mark.parametrize("is_traced", [False, True])
def test_a_pair_without_training_is_the_full_pass(model, is_traced):
    inputs = model.shift_right(TARGET)

    def decode(*pair):
        return full_pass.decode(model, *pair)

    if is_traced:
        decode = tf.function(decode, autograph=False)
    output, cross = decode(SOURCE, inputs)
    logits, weights = model(SOURCE, inputs, return_attention=True)
    found = model.output_embedding.logits(output)
    np.testing.assert_allclose(found, logits, atol=1e-5)
    for own, expected in zip(cross, weights["cross"], strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-6)


@pytest.mark.parametrize("model", FEW_QUICK, indirect=True)
def test_equal_layers_are_traced_once(model, monkeypatch):
    """A graph of many layers is made, stored and loaded as quickly as one of few."""
    calls = []
    traced = {
        DecoderLayer: "call",
        decoder_step: "_layer_step",
        prepared_weights: "layer_weights",
    }
    for owner, name in traced.items():
        own = getattr(owner, name)

        def counted(*inputs, name=name, own=own, **options):
            calls.append(name)
            return own(*inputs, **options)

        monkeypatch.setattr(owner, name, counted)

    @tf.function(autograph=False)
    def run():
        full_pass.decode(model, SOURCE, model.shift_right(TARGET))
        one_step(model, SOURCE, 1)

    run.get_concrete_function()
    assert sorted(calls) == sorted(traced.values())


@pytest.mark.parametrize("model", FEW_QUICK, indirect=True)
def test_one_hypothesis_stays_known_as_one(model):
    """A loop over steps that is told no other shapes must take what a step returns."""

    @tf.function(autograph=False)
    def step(columns):
        return one_step(model, SOURCE[:1], columns)

    concrete = step.get_concrete_function(tf.TensorSpec([], tf.int32))
    assert concrete.structured_outputs.shape[0] == 1


def one_step(model, sources, columns):
    """Return the logits of the first step of a search with one hypothesis."""
    batch = len(sources)
    past = Past(
        tf.ones([batch, 1, columns], bool), tf.zeros([batch, columns], tf.int32), 0
    )
    logits, _ = decode_step(
        model.config,
        prepared_weights.step_weights(model),
        tf.fill([batch, 1], 4),
        0,
        past,
        full_pass.start(model, sources),
        kv_cache.empty(model.config, batch, columns, "float32"),
    )
    return logits
