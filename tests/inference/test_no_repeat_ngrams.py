"""`no_repeat_ngram_size` with a model, through the cached search and an export."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.opening import open_model
from keras_transformer.serving import saved_model
from tests.small_models import LINES, make_translator

SIZE = 2
TEXTS = [*LINES, "", "2, 3, 5, 7 " * 9]


def has_repeat(tokens):
    ngrams = [tuple(tokens[i : i + SIZE]) for i in range(len(tokens) - SIZE + 1)]
    return len(set(ngrams)) < len(ngrams)


def outputs(translator):
    """Return the best hypothesis of each text, without padding."""
    tokens, _ = translator.source_tokens(tf.constant(TEXTS))
    found = translator.search(tokens)
    rows = zip(found.tokens[:, 0].numpy(), found.lengths[:, 0].numpy(), strict=True)
    return [row[:length].tolist() for row, length in rows]


def greedy_loop(translator, text):
    """Choose each token by the whole model, without a cache."""
    model, config = translator.model, translator.model.config
    source, _ = translator.source_tokens(tf.constant([text]))
    limit, tokens = int(translator.output_limits(source)[0]), []
    while len(tokens) < limit and tokens[-1:] != [config.eos_id]:
        inputs = tf.constant([[config.bos_id, *tokens]], tf.int32)
        logits = model(source, inputs)[0, -1].numpy()
        for token in range(len(logits)):
            if has_repeat([*tokens, token]):
                logits[token] = -np.inf
        tokens.append(int(np.argmax(logits)))
    return tokens


@pytest.mark.long(first=1)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_no_ngram_occurs_twice(beam_size):
    free = outputs(make_translator(beam_size=beam_size))
    bound = outputs(make_translator(beam_size=beam_size, no_repeat_ngram_size=SIZE))
    assert sum(map(has_repeat, free)) > 2
    assert not any(map(has_repeat, bound))


@pytest.mark.long
def test_greedy_search_equals_a_loop_over_the_whole_model():
    translator = make_translator(beam_size=1, no_repeat_ngram_size=SIZE)
    found = outputs(translator)
    for text, tokens in zip(TEXTS, found, strict=True):
        assert tokens == (greedy_loop(translator, text) if text else [])


@pytest.mark.long(first=1)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_an_export_has_the_size_it_was_made_with(tmp_path, beam_size):
    translator = make_translator(beam_size=beam_size, no_repeat_ngram_size=SIZE)
    version = saved_model.export(
        translator, tmp_path / "export", signatures=["serving_default"]
    )
    wanted = [each.text for each in translator.translate(TEXTS)]
    assert [each.text for each in open_model(version).translate(TEXTS)] == wanted
    plain = make_translator(beam_size=beam_size).translate(TEXTS)
    assert [each.text for each in plain] != wanted
