"""Weights of 8 bits: what each reader gets, with every option of the config."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import hardware
from keras_transformer.decoding import Past
from keras_transformer.inference import full_pass, kv_cache
from keras_transformer.inference.ensemble import Ensemble
from keras_transformer.inference.quantized_weights import QuantizedWeights
from keras_transformer.inference.shortlist import Shortlist
from tests.inference.test_int8_product import needs_int8
from tests.model_variants import FEW_QUICK, SOURCE, TARGET, VARIANTS, make
from tests.small_models import LINES, make_parser, make_translator


@pytest.fixture(scope="module", params=FEW_QUICK)
def model(request):
    return make(**request.param)


def float_copy(model):
    """Return a model with the floats that the integers of another stand for."""
    with QuantizedWeights(model).reading():
        values = [np.array(weight) for weight in model.weights]
    copy = type(model)(model.config)
    copy.set_weights(values)
    return copy


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS)
def test_layers_read_floats_close_to_the_weights(fields):
    model = make(**fields)
    for own, other in zip(model.weights, float_copy(model).weights, strict=True):
        most = np.abs(np.array(own)).max()
        np.testing.assert_allclose(own, other, atol=0.51 * most / 127)
        is_matrix = own.name in ("kernel", "embeddings")
        assert np.array_equal(own, other) != is_matrix


@needs_int8
def test_an_encoder_of_integers_is_close_to_that_of_their_floats(model):
    start = tf.function(QuantizedWeights(model).start, autograph=False)
    found = start(tf.constant(SOURCE))
    wanted = full_pass.start(float_copy(model), tf.constant(SOURCE))
    np.testing.assert_array_equal(found["mask"], wanted["mask"])
    is_real = np.asarray(wanted["mask"])[:, :, np.newaxis]  # beside heads and key_dim
    for own_layer, exact_layer in zip(found["memory"], wanted["memory"], strict=True):
        for own, exact, axes in zip(
            own_layer, exact_layer, [(0, 1, 2, 3), (0, 1, 3, 2)], strict=True
        ):
            error = np.abs(own - exact) * is_real.transpose(axes)
            assert error.max() <= 0.05 * np.abs(exact).max()


def logits_of(ensemble):
    """Return the logits of a first token."""
    past = Past(tf.ones([3, 1, 1], tf.bool), tf.zeros([3, 1], tf.int32), tf.constant(0))

    def logits():
        cache = [
            kv_cache.empty(each.config, 3, 1, "float32") for each in ensemble.models
        ]
        source = ensemble.start(tf.constant(SOURCE))
        step = ensemble.step_function()
        tokens = tf.constant(TARGET[:, :1])
        return step(tokens, tf.constant(0), past, source, cache)[0]

    return tf.function(logits, autograph=False)().numpy()


def test_a_cpu_without_fast_integers_searches_with_floats(model, monkeypatch):
    monkeypatch.setattr(hardware, "has_fast_int8", lambda: False)
    quantized, floats = Ensemble([model]), Ensemble([float_copy(model)])
    quantized.quantize(with_output=True, for_any_cpu=False)
    floats.prepare(has_packed_kernels=True, with_output=True, has_stacks=True)
    np.testing.assert_allclose(logits_of(quantized), logits_of(floats), atol=1e-4)


@needs_int8
def test_a_step_of_integers_is_close_to_that_of_their_floats(model):
    quantized = Ensemble([model])
    quantized.quantize(with_output=True, for_any_cpu=False)
    exact = logits_of(Ensemble([float_copy(model)]))
    found = logits_of(quantized)
    assert found.shape == exact.shape
    assert np.abs(found - exact).max() <= 0.08 * np.abs(exact).max()


def both_kinds(make_searcher, monkeypatch):
    """Return a searcher of integers, and one of their floats."""
    searcher = make_searcher()
    integers = searcher.quantized()
    monkeypatch.setattr(hardware, "has_fast_int8", lambda: False)
    return integers, searcher.quantized()


@needs_int8
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="plain"),
        pytest.param(
            {"placeholders": ("<ph0>",)}, id="placeholders", marks=pytest.mark.long
        ),
        pytest.param({"shortlist": True}, id="shortlist", marks=pytest.mark.long),
        pytest.param({"others": True}, id="ensemble", marks=pytest.mark.long),
    ],
)
def test_a_search_of_integers_finds_what_that_of_floats_does(options, monkeypatch):
    """Or an output whose score is about as good: the weights are random."""
    options = dict(options)
    if options.get("others"):
        options["others"] = [make_translator(seed=4).model]
    if options.get("shortlist"):
        size = make_translator().tokenizer.vocab_size
        options["shortlist"] = Shortlist(np.arange(size), np.full((size, 1), 3))
    integers, floats = both_kinds(lambda: make_translator(**options), monkeypatch)
    assert integers.precision == floats.precision == "int8"
    texts = [*LINES, "", "one <ph0> two"]
    found, wanted = (each.translate(texts) for each in (integers, floats))
    for own, other in zip(found, wanted, strict=True):
        assert abs(own.score - other.score) <= 0.2 * max(1, abs(other.score))
    assert [each.text for each in found].count("") == 1
    alone = [integers.translate([text])[0].score for text in texts]
    np.testing.assert_allclose([each.score for each in found], alone, rtol=0.02)


@needs_int8
@pytest.mark.long
def test_a_parser_of_integers_writes_trees(monkeypatch):
    integers, floats = both_kinds(make_parser, monkeypatch)
    for own, other in zip(integers.parse(LINES), floats.parse(LINES), strict=True):
        assert own.valid and own.tree.words == other.tree.words
        assert abs(own.score - other.score) <= 0.2 * max(1, abs(other.score))


@pytest.mark.parametrize("precision", ["bfloat16", "mixed_bfloat16"])
def test_a_model_of_another_precision_is_refused(precision):
    with pytest.raises(ValueError, match='bfloat16.*precision="float32"'):
        make_translator(precision=precision).quantized()


def test_weights_of_8_bits_stay_so_when_they_are_prepared():
    quantized = make_translator().quantized()
    assert quantized.with_prepared_weights() is quantized
    assert quantized.precision == "int8"
