"""What is no model, tokenizer or setting is named where it is given."""

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
