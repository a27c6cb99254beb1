"""Placeholders of a text come in its translation, in every kind of search."""

import re

import pytest
import tensorflow as tf

from keras_transformer import tokenization
from keras_transformer.config import ModelConfig, PairEncoding
from keras_transformer.inference.translator import Translator
from keras_transformer.serving.signatures import ServingModule
from tests.small_models import LINES, choosing_model

ENCODING = PairEncoding(placeholders=8)
TEXTS = [
    "one <ph1> two",
    "A dog runs!",
    "<pc2><ph3> dog</pc2>, <pc1>one</pc1> (<ph8>).",
    "",
    "<ph2>",
    "zwei <pc1>eins <pc2>x</pc2></pc1> " + "one two three " * 4,
]


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.train_bpe(LINES * 5, vocab_size=320, symbols=ENCODING.symbols)


def make_translator(tokenizer, **options):
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, num_layers=1, d_model=6, d_ff=7, num_heads=2
    )
    model = choosing_model(config, 3, "float32")
    return Translator(model, tokenizer, extra_decode_length=5, **options)


def symbols_of(text):
    return sorted(re.findall("</?p[hc][0-9]+>", text))


def is_nested(text):
    text = re.sub("<ph[0-9]+>", "", text)
    while text != (text := re.sub(r"<pc(\d+)>[^<]*</pc\1>", "", text)):
        pass
    return "pc" not in text


def test_placeholders_are_pieces_wherever_they_are(tokenizer):
    assert sorted(tokenizer.placeholders) == sorted(ENCODING.symbols)
    assert "</pc2>" in tokenizer.placeholders
    for symbol, number in tokenizer.placeholders.items():
        text = f"one({symbol}), x{symbol}{symbol}"
        assert list(tokenizer.encode([text])[0]).count(number) == 3
        assert tokenizer.decode(tokenizer.encode([text])) == [text]
    plain = tokenization.train_bpe(LINES * 5, vocab_size=300)
    assert not plain.placeholders


@pytest.mark.long(first=2)
@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("is_prepared", [False, True])
def test_each_placeholder_comes_once_and_tags_are_nested(
    tokenizer, beam_size, is_prepared
):
    translator = make_translator(tokenizer, beam_size=beam_size, num_best=beam_size)
    if is_prepared:
        translator = translator.with_prepared_weights()
    for text, translation in zip(TEXTS, translator.translate(TEXTS), strict=True):
        for hypothesis in translation.nbest:
            assert symbols_of(hypothesis.text) == symbols_of(text)
            assert is_nested(hypothesis.text)


@pytest.mark.long
def test_signatures_keep_placeholders(tokenizer):
    module = ServingModule(make_translator(tokenizer))
    text = tf.constant(TEXTS)
    found = [
        module.document(text)["translation"],
        module.prefix(text, tf.constant(["one <ph4>"] * 6))["translation"],
    ]
    for row, given in enumerate(TEXTS):
        assert symbols_of(found[0].numpy()[row].decode()) == symbols_of(given)
        if given:
            prefixed = found[1].numpy()[row].decode()
            assert symbols_of(prefixed) == symbols_of(f"{given}<ph4>")
