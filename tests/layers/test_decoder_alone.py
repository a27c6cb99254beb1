"""A decoder with an encoder, without one, and what decides."""

import keras
import numpy as np
import pytest

from keras_transformer.config import ModelConfig
from keras_transformer.layers.decoder import Decoder, DecoderLayer
from keras_transformer.layers.encoder import Encoder, EncoderLayer

DRAW = np.random.default_rng(3)
INPUTS = DRAW.normal(size=(3, 7, 6)).astype("float32")
ENCODED = DRAW.normal(size=(3, 5, 6)).astype("float32")
SIZES = {"vocab_size": 13, "num_layers": 2, "d_model": 6, "d_ff": 7, "num_heads": 2}
CONFIG = ModelConfig(**SIZES)
CLASSES = [Decoder, DecoderLayer]
DECODERS = {
    "decoder": lambda: Decoder(CONFIG),
    "pre-norm decoder": lambda: Decoder(ModelConfig(**SIZES, norm_placement="pre")),
    "restricted decoder": lambda: Decoder(ModelConfig(**SIZES, attention_window=3)),
    "decoder layer": lambda: DecoderLayer(CONFIG),
    "causal encoder": lambda: Encoder(CONFIG, causal=True),
    "causal encoder layer": lambda: EncoderLayer(CONFIG, causal=True),
    "restricted causal encoder": lambda: Encoder(
        ModelConfig(**SIZES, attention_window=3), causal=True
    ),
}


@pytest.mark.parametrize("layer_class", CLASSES)
def test_without_an_encoder_there_is_no_attention_to_it(layer_class):
    alone, whole = layer_class(CONFIG), layer_class(CONFIG)
    outputs = alone(INPUTS, None)
    assert len(outputs) == 2
    assert len(whole(INPUTS, ENCODED)) == 3
    names = {weight.path.split("/", 1)[1] for weight in whole.weights}
    kept = {weight.path.split("/", 1)[1] for weight in alone.weights}
    assert kept == {name for name in names if "cross_attention" not in name}


@pytest.mark.parametrize("name", DECODERS)
def test_later_positions_are_hidden(name):
    """Their weights are zero, and what stands there changes nothing."""
    layer = DECODERS[name]()
    changed = INPUTS.copy()
    changed[:, 4:] = changed[:, 4:, ::-1]  # normalization would undo an addition
    before, weights = layer(INPUTS)
    after, _ = layer(changed)
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert not np.allclose(before[:, 4:], after[:, 4:])
    if "restricted" not in name:
        for own in weights if isinstance(weights, list) else [weights]:
            assert (np.triu(np.asarray(own), 1) == 0.0).all()


@pytest.mark.parametrize("layer_class", CLASSES)
def test_a_decoder_of_the_other_kind_is_refused(layer_class):
    alone, whole = layer_class(CONFIG), layer_class(CONFIG)
    alone(INPUTS)
    whole(INPUTS, ENCODED)
    with pytest.raises(ValueError, match="`encoder_output` must not be given"):
        alone(INPUTS, ENCODED)
    with pytest.raises(ValueError, match="`encoder_output` must be given. .*None"):
        whole(INPUTS)


@pytest.mark.parametrize("layer_class", CLASSES)
def test_built_without_shapes_it_is_that_of_the_paper(layer_class):
    by_call, by_build = layer_class(CONFIG), layer_class(CONFIG)
    by_call(INPUTS, ENCODED)
    by_build.build()
    shapes = [weight.shape for weight in by_call.weights]
    assert [weight.shape for weight in by_build.weights] == shapes
    alone = layer_class(CONFIG)
    alone.build(INPUTS.shape)
    assert len(alone.weights) < len(shapes)


def test_a_layer_of_an_earlier_file_hides_nothing_by_itself():
    """`causal` is not in its config; a `Decoder` was always causal."""
    for layer_class, was_causal in ((DecoderLayer, False), (Decoder, True)):
        config = layer_class(CONFIG).get_config()
        assert config.pop("causal")
        assert layer_class.from_config(config).causal == was_causal


@pytest.mark.parametrize(
    ("layer_class", "causal"), [(Decoder, False), (DecoderLayer, True), (Encoder, True)]
)
def test_causality_is_part_of_the_config(layer_class, causal, tmp_path):
    inputs = keras.Input((None, 6))
    model = keras.Model(inputs, layer_class(CONFIG, causal=causal)(inputs)[0])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(INPUTS), model(INPUTS))
    changed = INPUTS.copy()
    changed[:, -1] = changed[:, -1, ::-1]
    is_hidden = np.allclose(loaded(changed)[:, 0], loaded(INPUTS)[:, 0])
    assert is_hidden == causal
