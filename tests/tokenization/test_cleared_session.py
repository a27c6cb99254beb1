"""Tokenizers outlive what Keras's users do between two experiments."""

import keras
import pytest
import tensorflow as tf

from keras_transformer.tokenization import SentencePieceTokenizer
from tests.small_models import LINES, TOKENIZERS, make_translator, vocabulary

CLEARING = (lambda: keras.utils.set_random_seed(1), keras.backend.clear_session)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("make", TOKENIZERS.values(), ids=TOKENIZERS)
def test_tokens_are_the_same_after_a_session_is_cleared(make):
    """In Python, in a graph that was traced before, and in a dataset."""
    tokenizer, texts = make(), tf.constant(LINES)
    traced = tf.function(lambda texts: tokenizer.tokenize(texts).to_tensor())
    back = tf.function(tokenizer.detokenize)
    dataset = tf.data.Dataset.from_tensors(texts).map(tokenizer.tokenize)

    def found():
        tokens = tokenizer.tokenize(texts)
        [mapped_tokens] = dataset
        return (
            tokens.to_list(),
            mapped_tokens.to_list(),
            traced(texts).numpy().tolist(),
            back(tokens).numpy().tolist(),
            [ids.tolist() for ids in tokenizer.encode(LINES)],
            tokenizer.decode(tokens.to_list()),
        )

    before = found()
    for clear in CLEARING:
        clear()
        assert found() == before
    assert make().tokenize(texts).to_list() == before[0]


def test_two_models_of_one_process_are_not_confused():
    one = SentencePieceTokenizer(vocabulary())
    other = SentencePieceTokenizer(vocabulary(vocab_size=60))
    expected = [[ids.tolist() for ids in each.encode(LINES)] for each in (one, other)]
    found = [each.tokenize(tf.constant(LINES)).to_list() for each in (one, other)]
    assert found == expected
    assert found[0] != found[1]


@pytest.mark.long
def test_a_translator_translates_after_a_session_is_cleared():
    translator = make_translator()
    before = translator.translate(LINES[:2])
    for clear in CLEARING:
        clear()
        assert translator.translate(LINES[:2]) == before
