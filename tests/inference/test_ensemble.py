"""Several models that search together."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.evaluation.perplexity import reference_perplexity
from keras_transformer.inference.ensemble import Ensemble
from keras_transformer.inference.shortlist import Shortlist
from keras_transformer.inference.translator import Translator
from keras_transformer.pretrained import huggingface_writer
from keras_transformer.serving import ctranslate2_converter, saved_model
from keras_transformer.serving.signatures import ServingModule
from keras_transformer.translation import exported_model
from tests.small_models import LINES, choosing_model, make_translator

# Enough short texts beside a long one for two length groups.
TEXTS = ["one two three", "", "A dog runs!", "2, 3, 5, 7 " * 9, *["zwei eins"] * 31]


@pytest.fixture(scope="module")
def single():
    return make_translator()


def together(single, *others, **options):
    """Return a translator of an ensemble with further models.

    Args:
        single: The translator of the first model.
        *others: Fields of `ModelConfig` to replace, for each further model.
        **options: Of `Translator`.
    """
    models = [
        choosing_model(dataclasses.replace(single.model.config, **fields), 5 + number)
        for number, fields in enumerate(others)
    ]
    return Translator(
        single.model, single.tokenizer, single.decoding, others=models, **options
    )


def alone(translator):
    """Return a translator of each model of an ensemble."""
    return [
        Translator(model, translator.tokenizer, translator.decoding)
        for model in translator.ensemble.models
    ]


def target_log_probs(translator, texts, targets):
    """Return the log probability of each target token, float `[batch, length]`."""
    source, _ = translator.source_tokens(tf.constant(texts))
    target, _ = translator.target_tokens(tf.constant(targets))
    outputs, _ = translator.ensemble.decode(source, target)
    return translator.ensemble.token_log_probs(outputs, target).numpy()


OTHERS = [
    [{}],
    [{"d_model": 8, "num_heads": 4, "num_layers": 1}, {"norm_placement": "pre"}],
    [{"attention_window": 3}],
    [{"position_encoding": "learned", "num_positions": 15}],
]


@pytest.mark.parametrize(
    ("windows", "expected"), [((3, None), None), ((None, 3), None), ((3, 5, 4), 5)]
)
def test_as_many_steps_are_kept_as_any_model_reads(single, windows, expected):
    config = single.model.config
    models = [
        choosing_model(dataclasses.replace(config, attention_window=window), 5)
        for window in windows
    ]
    assert Ensemble(models).attention_window == expected


@pytest.mark.parametrize("others", OTHERS)
def test_a_token_has_the_mean_of_the_models_probabilities(single, others):
    translator = together(single, *others)
    pairs = TEXTS[:4], ["zwei", "", "A dog", "2, 3, 5, 7 " * 2]
    each = [np.exp(target_log_probs(one, *pairs)) for one in alone(translator)]
    found = np.exp(target_log_probs(translator, *pairs))
    np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=1e-4)
    assert np.abs(np.log(found) - np.log(each[0])).max() > 0.1


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    ("others", "is_prepared"),
    list(zip(OTHERS, (False, True, False, True), strict=True)),
)
def test_a_translation_has_the_score_of_its_tokens(single, others, is_prepared):
    """With one batch of all texts, and of a few."""
    translator = together(single, *others, length_penalty_alpha=0.0)
    if is_prepared:
        translator = translator.with_prepared_weights(has_stacks=True)
    for texts in (TEXTS, TEXTS[2:3]):
        found = translator.align_batch(tf.constant(texts))
        scores = np.sum(found["log_probabilities"], axis=1)
        np.testing.assert_allclose(found["scores"][:, 0], scores, rtol=1e-3, atol=1e-4)
    assert len({*found["translations"].numpy()[:, 0]}) == len(texts)


@pytest.mark.long
def test_an_ensemble_finds_better_outputs_than_its_models(single):
    """By the mean probabilities, without length penalty."""
    options = {"length_penalty_alpha": 0.0, "beam_size": 8}
    translator = together(single, {}, **options)
    source, _ = translator.source_tokens(tf.constant(TEXTS[2:3]))
    scores = []
    for one in [translator, *alone(translator)]:
        found = one.search(source)
        target = found.tokens[:, 0, : int(found.lengths[0, 0])]
        outputs, _ = translator.ensemble.decode(source, target)
        log_probs = translator.ensemble.token_log_probs(outputs, target)
        scores.append(float(tf.reduce_sum(log_probs)))
    best, *others = scores
    assert best == pytest.approx(float(translator.search(source).scores[0, 0]), 1e-3)
    assert best > min(others)
    assert best >= max(others) - 1e-3


@pytest.mark.release
def test_a_model_twice_is_the_model(single):
    twice = Translator(
        single.model, single.tokenizer, single.decoding, others=[single.model]
    )
    for found, expected in zip(
        twice.translate(TEXTS), single.translate(TEXTS), strict=True
    ):
        assert found.text == expected.text
        assert found.score == pytest.approx(expected.score, abs=1e-4)


@pytest.mark.long
def test_an_ensemble_chooses_from_a_shortlist(single):
    size = single.model.config.vocab_size
    table = np.random.default_rng(5).integers(size, size=(size, 7))
    translator = together(single, {}, shortlist=Shortlist(np.arange(34), table))
    tokens, _ = translator.source_tokens(tf.constant(TEXTS[:3]))
    listed = translator.output_ids(tokens).listed.numpy()
    result = translator.search(tokens)
    assert {*result.tokens.numpy().flat} <= {*listed}


@pytest.mark.long
def test_an_export_of_an_ensemble_translates_the_same(single, tmp_path):
    """`export` compares them."""
    translator = together(single, {"num_layers": 1})
    names = ["serving_default", "nbest", "score"]
    version = saved_model.export(
        translator, tmp_path, signatures=names, check_texts=TEXTS[:5]
    )
    plain = saved_model.export(single, tmp_path, signatures=names[:1])
    sizes = [
        exported_model.read_description(v)["weights_bytes"] for v in (version, plain)
    ]
    assert sizes[0] > 1.4 * sizes[1]
    assert {*tf.saved_model.load(str(version)).signatures} == {*names}
    both, one = (ServingModule(each).signatures() for each in (translator, single))
    assert both.keys() == one.keys()


def test_perplexity_is_of_the_mean_probabilities(single):
    translator = together(single, {})
    log_probs = target_log_probs(translator, LINES, LINES)
    num_tokens = sum(len(row) + 1 for row in translator.tokenizer.encode(LINES))
    expected = np.exp(-log_probs.sum() / num_tokens)
    found = reference_perplexity(translator, LINES, LINES)
    assert found == pytest.approx(expected, rel=1e-4)


def test_a_source_is_cut_to_the_positions_of_all_models(single):
    fields = {"position_encoding": "learned", "num_positions": 15}
    translator = together(single, {}, fields)
    limit = 15 - single.decoding.extra_decode_length
    assert translator.decoding.max_input_length == limit
    tokens, cut = translator.source_tokens(tf.constant(TEXTS[3:4]))
    assert tokens.shape[1] == limit
    assert cut.numpy().all()


@pytest.mark.release
def test_perplexity_leaves_out_what_a_model_has_no_positions_for(single):
    fields = {"position_encoding": "learned", "num_positions": 40}
    translator = together(single, fields)
    texts = [*LINES, "2, 3, 5, 7 " * 9]
    found = reference_perplexity(translator, texts, texts)
    assert found == reference_perplexity(translator, LINES, LINES)


def test_what_holds_one_model_refuses_an_ensemble(single, tmp_path):
    translator = together(single, {})
    with pytest.raises(
        ValueError, match="CTranslate2's files hold one model, and .* 2"
    ):
        ctranslate2_converter.convert(translator, tmp_path / "ctranslate2")
    with pytest.raises(ValueError, match="Hugging Face's files hold one model, and"):
        huggingface_writer.write(translator, None, tmp_path / "huggingface", "")


def test_models_of_other_vocabularies_are_refused(single):
    config = dataclasses.replace(single.model.config, vocab_size=301)
    with pytest.raises(ValueError, match="`vocab_size` are 300, 301"):
        Ensemble([single.model, choosing_model(config, 5)])
