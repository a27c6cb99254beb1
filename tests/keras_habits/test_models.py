"""A model is described, copied and put into others as Keras's models are."""

import copy
import json
import pickle

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_habits.models import VOCAB_SIZE, arrays, make_model

SOURCE, TARGET = arrays()


@pytest.fixture(scope="module")
def model():
    """For tests that change nothing."""
    return make_model()


VARIANTS = {
    "plain": {},
    "learned": {"position_encoding": "learned", "num_positions": 11},
    "pre": {"norm_placement": "pre", "normalize_embeddings": True},
    "separate": {"share_embeddings": False, "target_vocab_size": 11},
    "restricted": {"attention_window": 4},
}


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS)
def test_a_summary_shows_shapes(fields):
    """Of new models; a "?" stands for an unknown shape."""
    lines, model = [], make_model(**fields)
    model.summary(print_fn=lines.append)
    text = "\n".join(lines)
    assert "?" not in text
    assert "(None, None, 6)" in text
    assert f"{model.count_params():,}" in text
    model.summary(print_fn=lambda line: None, expand_nested=True, show_trainable=True)


def test_a_model_knows_its_shapes():
    model = make_model(share_embeddings=False, target_vocab_size=11)
    assert model.input_shape == [(None, None), (None, None)]
    assert model.output_shape == (None, None, 11)
    assert model.compute_output_shape((2, 3), (2, 5)) == (2, 5, 11)
    assert [each.name for each in model.inputs] == ["source_tokens", "decoder_inputs"]
    assert [each.dtype for each in model.inputs] == ["int32", "int32"]


def test_a_model_with_attention_weights_is_symbolic_too(model):
    logits, weights = model(*model.inputs, return_attention=True)
    assert logits.shape == (None, None, VOCAB_SIZE)
    assert logits.dtype == "float32"
    assert weights["cross"][0].shape == (None, 2, None, None)


COPIES = {
    "from_config": lambda model: kt.Transformer.from_config(model.get_config()),
    "clone_model": keras.models.clone_model,
    "to_json": lambda model: keras.models.model_from_json(model.to_json()),
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_has_the_same_logits(name):
    model = make_model(dropout_rate=0.1)
    other = COPIES[name](model)
    assert other.count_params() == model.count_params()
    assert other.get_config()["config"] == model.get_config()["config"]
    assert json.loads(other.to_json())["class_name"] == "Transformer"
    if name not in ("pickle", "deepcopy"):
        other.set_weights(model.get_weights())
    np.testing.assert_array_equal(other(SOURCE, TARGET), model(SOURCE, TARGET))


@pytest.mark.long
def test_a_model_is_part_of_a_functional_model(tmp_path):
    """Which is trained, saved, loaded and taken apart."""
    model = make_model()
    logits = model(*model.inputs)
    whole = keras.Model(model.inputs, keras.layers.Softmax()(logits))
    whole.compile("sgd", "sparse_categorical_crossentropy")
    before = model.get_weights()[0].copy()
    whole.fit([SOURCE, TARGET], TARGET, verbose=0)
    assert not np.array_equal(model.get_weights()[0], before)
    whole.save(tmp_path / "whole.keras")
    again = keras.saving.load_model(tmp_path / "whole.keras")
    np.testing.assert_array_equal(
        again.predict([SOURCE, TARGET], verbose=0),
        whole.predict([SOURCE, TARGET], verbose=0),
    )
    assert isinstance(whole.get_layer(model.name), kt.Transformer)


@keras.saving.register_keras_serializable(package="tests")
class Doubled(kt.Transformer):
    """A model of one's own."""

    def call(self, source_tokens, decoder_inputs, **options):
        return 2.0 * super().call(source_tokens, decoder_inputs, **options)


@pytest.mark.long
def test_a_subclass_is_saved_and_loaded(tmp_path):
    plain = make_model()
    model = Doubled(plain.config)
    model.set_weights(plain.get_weights())
    model.compile("sgd", kt.LabelSmoothedCrossEntropy(0.1))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is Doubled
    np.testing.assert_allclose(
        again(SOURCE, TARGET), 2.0 * plain(SOURCE, TARGET), atol=1e-6
    )
    again.fit(SOURCE, TARGET, verbose=0)


@keras.saving.register_keras_serializable(package="tests")
class WithHead(kt.Transformer):
    """Adds layers in its constructor, as subclasses of other Keras models do."""

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.head = keras.layers.Dense(VOCAB_SIZE)
        self.norm = keras.layers.BatchNormalization()
        self.mean = keras.metrics.Mean(name="mean_logit")

    def call(self, source_tokens, decoder_inputs, training=None, **options):
        logits = super().call(source_tokens, decoder_inputs, training, **options)
        self.mean.update_state(logits)
        return self.norm(self.head(logits), training=training)


def with_head():
    keras.utils.set_random_seed(7)
    model = WithHead(make_model().config)
    model.compile("sgd", kt.LabelSmoothedCrossEntropy(0.1))
    return model


def test_layers_that_a_subclass_adds_are_built_by_compile_and_loading(tmp_path):
    model = with_head()
    assert len(model.trainable_variables) == len(make_model().trainable_variables) + 4
    assert len(model.optimizer.variables) == 2
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(SOURCE, TARGET), model(SOURCE, TARGET))


@pytest.mark.long
def test_layers_that_a_subclass_adds_learn():
    model = with_head()
    before = model.head.get_weights()[0], model.norm.get_weights()[2]
    history = model.fit(SOURCE, TARGET, verbose=0).history
    assert "mean_logit" in history
    assert not np.array_equal(model.head.get_weights()[0], before[0])
    assert not np.array_equal(model.norm.get_weights()[2], before[1])  # moving mean


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "tolerance"),
    [
        ("int8", 0.1),
        pytest.param("int4", 1.0, marks=pytest.mark.release),
        pytest.param("float8", 0.3, marks=pytest.mark.release),
    ],
)
def test_a_quantized_model_is_close_to_the_model_and_is_saved(
    mode, tolerance, tmp_path
):
    """Twice, because a loaded model is saved again."""
    model = make_model(norm_placement="pre")
    before = model(SOURCE, TARGET)
    with pytest.warns(UserWarning, match="quantize"):
        model.quantize(mode)
    logits = model(SOURCE, TARGET)
    np.testing.assert_allclose(logits, before, atol=tolerance)
    again = model
    for name in ("one.keras", "two.keras"):
        again.save(tmp_path / name)
        again = keras.saving.load_model(tmp_path / name)
        np.testing.assert_array_equal(again(SOURCE, TARGET), logits)
    assert not np.array_equal(logits, before)


def test_a_copy_of_a_quantized_model_is_quantized():
    model = make_model()
    with pytest.warns(UserWarning, match="quantize"):
        model.quantize("float8")
    copied = kt.Transformer.from_config(model.get_config())
    paths = [weight.path.partition("/")[2] for weight in model.weights]
    assert [weight.path.partition("/")[2] for weight in copied.weights] == paths
    assert copied.count_params() > make_model().count_params()


ONE_ARGUMENT = {
    "tuple": lambda source, target: (source, target),
    "list": lambda source, target: [source, target],
    "dict": lambda source, target: {"source_tokens": source, "decoder_inputs": target},
}


@pytest.mark.parametrize("structure", ONE_ARGUMENT.values(), ids=ONE_ARGUMENT)
def test_inputs_in_one_structure_are_the_two_arguments(model, structure):
    """Same as in `fit` and `predict`, and as other models with two inputs take them."""
    expected = model(SOURCE, TARGET)
    logits = model(structure(SOURCE, TARGET), training=True)
    np.testing.assert_array_equal(logits, expected)
    whole = keras.Model(model.inputs, model(structure(*model.inputs)))
    np.testing.assert_allclose(whole([SOURCE, TARGET]), expected, atol=1e-6)


@pytest.mark.parametrize("inputs", [SOURCE, {"source_tokens": SOURCE}])
def test_inputs_in_one_structure_have_two_parts(model, inputs):
    with pytest.raises(TypeError, match="'decoder_inputs'"):
        model(inputs)
