"""What is no model, tokenizer or setting is named where it is given."""

import json

import numpy as np
import pytest

import keras_transformer as kt
from tests.small_models import make_translator


@pytest.fixture(scope="module")
def parts():
    translator = make_translator()
    return {"model": translator.model, "tokenizer": translator.tokenizer}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": "model.keras"}, "`model` must be a Transformer, .*: 'model.keras'."),
        ({"model": None}, "`model` must be a Transformer, .*: None."),
        ({"tokenizer": None}, "`tokenizer` must be the tokenizer that .*: None."),
        ({"tokenizer": "data"}, "`tokenizer` must be the tokenizer that .*: 'data'."),
    ],
)
def test_a_translator_names_what_is_no_model_or_tokenizer(parts, wrong, message):
    with pytest.raises(TypeError, match=message):
        kt.Translator(**{**parts, **wrong})


def test_a_translator_names_arguments_in_the_wrong_order(parts):
    with pytest.raises(TypeError, match="`model` must .*sentence_piece"):
        kt.Translator(parts["tokenizer"], parts["model"])


def test_a_translator_names_settings_that_it_does_not_have(parts):
    with pytest.raises(ValueError, match="'num_beams'"):
        kt.Translator(**parts, num_beams=4)


@pytest.mark.parametrize("config", [288, "base", ["vocab_size"]])
def test_a_model_names_what_is_no_configuration(config):
    with pytest.raises(TypeError, match="`config` must be a ModelConfig or a mapping"):
        kt.Transformer(config)


def test_a_tokenizer_is_called_as_those_of_keras_hub_are(parts):
    tokenizer = parts["tokenizer"]
    assert tokenizer("one").numpy().tolist() == tokenizer.encode("one").tolist()


NUMPY_SIZES = {
    "model": lambda two: kt.ModelConfig(num_heads=two, dropout_rate=two / 4).num_heads,
    "training": lambda two: kt.TrainingConfig(warmup_steps=two).warmup_steps,
    "decoding": lambda two: kt.DecodingConfig(beam_size=two).beam_size,
    "embedding": lambda two: kt.layers.TokenEmbedding(two, 6).vocab_size,
    "attention": lambda two: kt.layers.MultiHeadAttention(6, two, 3, 3).num_heads,
    "feed-forward": lambda two: kt.layers.FeedForward(6, two).d_ff,
    "positions": lambda two: kt.layers.PositionalEncoding(two).d_model,
}


@pytest.mark.parametrize("name", NUMPY_SIZES)
def test_sizes_may_be_numbers_of_numpy(name):
    """As `ids.max() + 1` is."""
    size = NUMPY_SIZES[name](np.int64(2))
    assert type(size) is int
    assert size == 2


def test_a_configuration_keeps_numbers_that_json_can_write():
    config = kt.ModelConfig(vocab_size=np.int32(7), dropout_rate=np.float32(0.25))
    assert json.loads(json.dumps(vars(config)))["dropout_rate"] == 0.25


@pytest.mark.parametrize("value", ["0.1", None, [0.1]])
def test_what_is_no_number_is_named(value):
    with pytest.raises(TypeError, match="`dropout_rate` must be a number. Received: "):
        kt.ModelConfig(dropout_rate=value)
    with pytest.raises(TypeError, match="`length_penalty_alpha` must be a number"):
        kt.DecodingConfig(length_penalty_alpha=value)
