"""A rule of one's own on which tokens may come next, wherever a translator chooses."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import SamplingOptions
from keras_transformer.inference.shortlist import Shortlist
from keras_transformer.opening import open_model
from keras_transformer.serving import saved_model
from tests.small_models import LINES, make_translator


def none_of(ids):
    """Return the rule that rules out some ids."""
    return lambda hypotheses, step, source: tf.reduce_all(
        hypotheses.ids[:, tf.newaxis] != ids, axis=1
    )


def outputs(translator):
    """Return all ids in the best outputs of some texts."""
    tokens, _ = translator.source_tokens(tf.constant(LINES))
    return set(translator.search(tokens).tokens[:, 0].numpy().flat)


def samples(translator):
    """Return all ids in random outputs of some texts."""
    tokens, _ = translator.source_tokens(tf.constant(LINES))
    batch = [len(LINES)]
    options = SamplingOptions(
        uniforms=tf.random.stateless_uniform([*batch, 99], [3, 5]),
        temperature=tf.ones(batch),
        top_k=tf.zeros(batch, tf.int32),
        top_p=tf.ones(batch),
    )
    limits = translator.output_limits(tokens)
    return set(translator.random_outputs(tokens, limits, options).tokens.numpy().flat)


@pytest.mark.long
def test_none_of_these_words():
    """One function, and one line."""
    free = make_translator(beam_size=2)
    words = free.tokenizer.decode([[number] for number in outputs(free) if number > 99])
    banned = np.concatenate(free.tokenizer.encode(words))
    assert {*banned} & outputs(free)
    bound = make_translator(beam_size=2, token_rules=[none_of(banned)])
    assert not {*banned} & outputs(bound)


@pytest.mark.long
def test_samples_and_exports_obey(tmp_path):
    free = make_translator(beam_size=1)
    banned = [number for number in outputs(free) & samples(free) if number > 3]
    assert banned
    bound = make_translator(beam_size=1, token_rules=[none_of(banned)])
    assert not {*banned} & samples(bound)
    version = saved_model.export(bound, tmp_path, signatures=["serving_default"])
    wanted = [each.text for each in bound.translate(LINES)]
    assert [each.text for each in open_model(version).translate(LINES)] == wanted
    assert wanted != [each.text for each in free.translate(LINES)]


@pytest.mark.long
def test_under_a_shortlist_a_rule_speaks_of_the_models_ids():
    size = make_translator().tokenizer.vocab_size
    even = np.arange(0, size, 2)
    special = np.union1d(even, np.arange(4))
    shortlist = Shortlist(special, np.full([size, 1], special[-1]))

    def fourth(hypotheses, step, source):
        assert source["source_tokens"].shape.rank == 2
        return (hypotheses.ids % 4 == 0) | (hypotheses.ids < 4)

    translator = make_translator(beam_size=2, shortlist=shortlist, token_rules=[fourth])
    found = outputs(translator)
    assert {number % 4 for number in found if number > 3} == {0}
