"""Recorded attention weights are the model's own, labeled with the right words."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import tokenization
from keras_transformer.config import ModelConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.model.transformer import Transformer
from keras_transformer.visualization.attention import record_attention

LINES = ["one two three", "zwei eins", "Ein Hund läuft.", "A dog runs!"]


@pytest.fixture(scope="module")
def translator():
    keras.utils.set_random_seed(3)
    tokenizer = tokenization.train_bpe(LINES * 5, vocab_size=300)
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, num_layers=2, d_model=6, d_ff=7, num_heads=3
    )
    return Translator(
        Transformer(config), tokenizer, extra_decode_length=5, max_input_length=11
    )


def test_a_given_pair_is_recorded_with_its_pieces(translator):
    record = record_attention(translator, "A dog runs!", "zwei eins")
    assert "".join(record.source_pieces).replace("▁", " ") == " A dog runs!</s>"
    assert "".join(record.target_pieces).replace("▁", " ") == " zwei eins</s>"
    assert record.bos_piece == "<s>"
    source, target = len(record.source_pieces), len(record.target_pieces)
    assert record.weights["encoder"].shape == (2, 3, source, source)
    assert record.weights["decoder"].shape == (2, 3, target, target)
    assert record.weights["cross"].shape == (2, 3, target, source)
    assert (record.num_layers("cross"), record.num_heads) == (2, 3)


def test_weights_are_the_models_own(translator):
    """Each query's weights sum to 1, and no decoder query attends to a later token."""
    record = record_attention(translator, "A dog runs!", "zwei eins")
    for weights in record.weights.values():
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert not np.triu(record.weights["decoder"], k=1).any()
    tokenizer, model = translator.tokenizer, translator.model
    source, target = (
        tf.constant([[*tokenizer.encode([text])[0], model.config.eos_id]], tf.int32)
        for text in ("A dog runs!", "zwei eins")
    )
    _, weights = model(source, model.shift_right(target), return_attention=True)
    np.testing.assert_array_equal(record.weights["cross"][1], weights["cross"][1][0])


def test_queries_and_keys_are_the_pieces_of_their_axes(translator):
    record = record_attention(translator, "A dog runs!", "zwei eins")
    assert record.queries("encoder") == record.keys("encoder") == record.source_pieces
    assert record.queries("cross") == record.target_pieces
    assert record.keys("cross") == record.source_pieces
    read = ("<s>", *record.target_pieces[:-1])
    assert record.queries("decoder") == record.keys("decoder") == read


@pytest.mark.long
def test_without_a_target_the_models_translation_is_recorded(translator):
    record = record_attention(translator, "A dog runs!")
    ids = [*translator.tokenizer.encode(["A dog runs!"])[0], 3]
    best = translator.search(tf.constant([ids], tf.int32)).tokens[0, 0].numpy().tolist()
    best = best[: best.index(3)] if 3 in best else [token for token in best if token]
    pieces = translator.tokenizer.pieces(tf.constant(best, tf.int32)).numpy()
    assert best
    assert record.target_pieces == (*(piece.decode() for piece in pieces), "</s>")
    assert record.weights["cross"].shape[2] == len(best) + 1


@pytest.mark.parametrize("name", ["source_text", "target_text"])
def test_a_text_without_words_is_rejected(translator, name):
    texts = {"source_text": "A dog", "target_text": "zwei", name: "  "}
    with pytest.raises(ValueError, match=f"`{name}` must have words"):
        record_attention(translator, **texts)


def test_a_source_over_the_limit_is_rejected_not_cut(translator):
    with pytest.raises(ValueError, match="at most 11 tokens, EOS included"):
        record_attention(translator, "one two three " * 9)
