"""The tokenizer of numbers, and teacher-forced scores."""

import dataclasses

import numpy as np
import pytest

from benchmarks.lib import random_models
from keras_transformer.config import DecodingConfig, ModelConfig

CONFIG = ModelConfig(vocab_size=331, num_layers=2, d_model=6, d_ff=7, num_heads=2)
# Sources of 5 tokens, outputs of 11.
DECODING = DecodingConfig(extra_decode_length=6)


@pytest.fixture(scope="module")
def translator():
    return random_models.random_translator(CONFIG, DECODING, "float32")


def test_a_number_is_one_token_and_is_decoded_again():
    tokenizer = random_models.number_tokenizer(1017)
    assert tokenizer.vocab_size == 1017
    texts = ["0", "1001", "7 70 700 999 10"]
    ids = tokenizer.encode(texts)
    first = random_models.FIRST_NUMBER
    assert [list(row - first) for row in ids] == [[0], [1001], [7, 70, 700, 999, 10]]
    assert tokenizer.decode(ids) == texts
    in_graph = tokenizer.tokenize(texts).to_list()
    assert in_graph == [list(row) for row in ids]


def test_sources_have_the_requested_number_of_tokens(translator):
    texts = random_models.number_texts(331, count=23, length=5, seed=2)
    tokens, truncated = translator.source_tokens(np.array(texts))
    assert tokens.shape == (23, 5) and not np.any(truncated)
    assert np.all(tokens[:, -1] == CONFIG.eos_id)
    assert len(set(texts)) == 23


def test_a_vocabulary_needs_a_number():
    with pytest.raises(ValueError, match="`vocab_size` must be at least 16"):
        random_models.number_tokenizer(15)


def test_a_source_needs_a_word():
    with pytest.raises(ValueError, match="`source_length` must be at least 2"):
        random_models.number_texts(331, 3, 1, seed=0)


def test_outputs_have_the_largest_length_and_teacher_forced_scores(translator):
    texts = random_models.number_texts(331, count=3, length=5, seed=2)
    found = translator.translate(texts)
    outputs = [translation.text for translation in found]
    assert [len(output.split()) for output in outputs] == [11] * 3
    scores, lengths = random_models.teacher_forced_scores(translator, texts, outputs)
    assert lengths == [11] * 3
    np.testing.assert_allclose([one.score for one in found], scores, atol=1e-4)


def test_an_output_below_the_limit_is_scored_with_eos(translator):
    (score,), (length,) = random_models.teacher_forced_scores(translator, ["7"], ["5"])
    assert length == 2  # "5" and EOS, below the limit of 8
    source, _ = translator.source_tokens(["7"])
    ids = np.array([[random_models.FIRST_NUMBER + 5, CONFIG.eos_id]])
    logits = translator.model(source, translator.model.shift_right(ids)).numpy()[0]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = log_probs[[0, 1], ids[0]].sum() / (7 / 6) ** 0.6
    assert score == pytest.approx(expected, abs=1e-5)


def test_only_the_output_embedding_is_changed():
    config = dataclasses.replace(CONFIG, share_embeddings=False)
    model = random_models.random_translator(config, DECODING, "bfloat16").model
    first = random_models.FIRST_NUMBER
    table = np.array(model.output_embedding.embeddings, np.float32)
    assert not np.any(table[:first]) and np.all(np.any(table[first:], axis=1))
    assert np.all(np.any(np.array(model.embedding.embeddings, np.float32), axis=1))
