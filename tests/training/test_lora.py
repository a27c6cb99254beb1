"""Fine-tuning with low-rank adapters."""

import keras
import numpy as np
import pytest

from keras_transformer.inference.translator import Translator
from keras_transformer.model import lora
from keras_transformer.runs import averaging
from keras_transformer.runs.checkpoints import restore
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training import run_setup
from keras_transformer.training.run_options import RunOptions
from tests import model_variants
from tests.model_variants import SOURCE, TARGET
from tests.training.small_runs import config_of, train, weights

RANK = 2


def adapted(**fields):
    """A small model with random adapters."""
    model = model_variants.make(**fields)
    lora.add_adapters(model, RANK)
    draw = np.random.default_rng(3)
    for weight in model.trainable_weights:
        weight.assign(draw.normal(size=weight.shape))
    return model


def test_new_adapters_change_nothing_and_are_all_that_is_trained():
    model = model_variants.make()
    before, count = model(SOURCE, TARGET), model.count_params()
    lora.add_adapters(model, RANK)
    np.testing.assert_array_equal(before, model(SOURCE, TARGET))
    trained = [weight.shape for weight in model.trainable_weights]
    # 2 encoder layers of 4 + 2 maps and 2 decoder layers of 4 + 4 + 2; A and B each.
    assert len(trained) == 2 * (2 * 6 + 2 * 10)
    assert all(RANK in shape for shape in trained)
    assert len(lora.weights_without_adapters(model)) == len(model.weights) - len(
        trained
    )
    assert sum(map(np.prod, trained)) == model.count_params() - count


@pytest.mark.parametrize("fields", [{}, {"norm_placement": "pre"}])
def test_a_merged_model_computes_the_same(fields):
    model = adapted(**fields)
    merged = lora.merged(model)
    assert not lora.has_adapters(merged)
    assert merged.count_params() == model_variants.make(**fields).count_params()
    np.testing.assert_allclose(
        merged(SOURCE, TARGET), model(SOURCE, TARGET), atol=1e-4, rtol=1e-4
    )
    assert lora.merged(merged) is merged


@pytest.fixture(scope="module")
def start(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    train(corpus, folder)
    return folder


def lora_config(corpus, **training):
    return config_of(corpus, lora_rank=RANK, learning_rate_scale=3.0, **training)


@pytest.fixture(scope="module")
def run(corpus, start, tmp_path_factory):
    folder, lines = tmp_path_factory.mktemp("run"), []
    summary = train(
        corpus, folder, lora_config(corpus), lines, init_checkpoint=str(start)
    )
    return folder, summary, lines


@pytest.mark.long
def test_a_run_changes_the_linear_maps_by_matrices_of_the_rank(run, start):
    model, before = ModelDir(run[0]).load_model("latest"), weights(start, None)
    assert not lora.has_adapters(model)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        change = weight.numpy() - old
        if weight.path.endswith("/kernel"):
            assert np.linalg.matrix_rank(change, tol=1e-6) == RANK, weight.path
        else:
            assert not change.any(), weight.path


@pytest.mark.long
def test_a_run_says_how_much_it_trains(run, start):
    whole = ModelDir(start).load_model().count_params()
    assert run[1]["num_parameters"] == whole
    assert any(" of them trained" in line for line in run[2])


@pytest.mark.long
def test_model_keras_has_no_trace_of_adapters(run):
    model_dir = ModelDir(run[0])
    saved = keras.saving.load_model(model_dir.model_path, compile=False)
    assert not lora.has_adapters(saved)
    for ours, theirs in zip(
        saved.get_weights(), model_dir.load_model().get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.long
def test_a_stopped_run_resumes_with_the_same_result(corpus, start, run, tmp_path):
    for steps in (3, 6):
        config = lora_config(corpus, train_steps=steps)
        train(corpus, tmp_path, config, init_checkpoint=str(start))
    for ours, theirs in zip(weights(tmp_path), weights(run[0]), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.long
def test_an_average_is_the_mean_of_the_merged_models(run, corpus):
    model_dir = ModelDir(run[0])
    model = run_setup.build(lora_config(corpus), RunOptions())
    merged = []
    for checkpoint in model_dir.checkpoints().list():
        restore(checkpoint, model=model)
        merged.append(lora.merged(model).get_weights())
    assert len(merged) == 2
    averaging.average_run(model_dir.path)
    for own, *others in zip(
        model_dir.load_model("averaged").get_weights(), *merged, strict=True
    ):
        np.testing.assert_allclose(own, np.mean(others, axis=0), atol=1e-6)


@pytest.mark.long
def test_a_search_uses_the_adapters(run, corpus, start):
    model = run_setup.build(lora_config(corpus), RunOptions())
    model_dir = ModelDir(run[0])
    restore(model_dir.choose("latest"), model=model)
    tokenizer = model_dir.load_tokenizer()
    text = ["one two", "two"]
    found = Translator(model, tokenizer).translate(text)
    assert found == Translator(lora.merged(model), tokenizer).translate(text)


def test_adapters_need_a_model_to_start_from(corpus, tmp_path):
    with pytest.raises(ValueError, match="lora_rank=2") as error:
        train(corpus, tmp_path / "run", lora_config(corpus))
    assert "give --init_checkpoint" in str(error.value)
    assert not (tmp_path / "run" / "config.json").exists()
