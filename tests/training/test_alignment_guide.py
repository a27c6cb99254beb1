"""Attention that is shown in translation which words are aligned."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import data, presets, tokenization
from keras_transformer.data import WordAlignments
from keras_transformer.training import divergence, run_setup
from keras_transformer.training.guided_alignment import AlignmentGuide
from keras_transformer.translation.pipeline import translate_in_batches
from tests import small_corpus
from tests.model.test_train_step import assert_same, batch, make, trained_weights
from tests.searchers import load_searcher
from tests.small_corpus import WORDS
from tests.training.small_runs import config_of, train, weights
from tests.training.test_mixture_run import Interrupting, KilledError


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Targets are the words of their sources in reverse; one pair is not aligned."""
    folder = tmp_path_factory.mktemp("reversed")
    draw = np.random.default_rng(3)
    paths = {}
    for split, count in (("train", 80), ("valid", 7)):
        texts = [
            draw.choice(WORDS, draw.integers(1, 5), replace=False).tolist()
            for _ in range(count)
        ]
        paths[split] = folder / f"{split}.source", folder / f"{split}.target"
        for path, step in zip(paths[split], (1, -1), strict=True):
            path.write_text("".join(" ".join(words[::step]) + "\n" for words in texts))
        if split == "train":
            lines = [
                " ".join(f"{n}-{len(words) - 1 - n}" for n in range(len(words)))
                for words in texts
            ]
            (folder / "aligned").write_text("\n".join(["", *lines[1:], ""]))
    source = data.TextFiles(paths, "en", "de", WordAlignments(folder / "aligned"))
    data.prepare(
        source, folder / "data", lambda texts: tokenization.train_bpe(texts, 285)
    )
    return str(folder / "data")


def aligned_batch(rows=6):
    """The batch of the train step's tests, with some tokens aligned."""
    source, target = batch(rows)
    aligned = np.random.default_rng(5).random((rows, 5, 5)) < 0.3
    aligned &= (source != 0)[:, None, :] & (target != 0)[:, :, None]
    return source, target, aligned


def test_the_loss_is_the_cross_entropy_to_equal_weights_on_the_aligned_tokens():
    """Of the second layer's first head; the other weights do not count."""
    first = np.array([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]], "float32")
    other = np.full_like(first, 1 / 3)
    layers = [np.stack(heads, axis=1) for heads in ((other, other), (first, other))]
    aligned = np.array([[[True, True, False], [False, False, False]]])
    guide = AlignmentGuide(0.5, (1, 0))
    losses = guide.token_losses((None, None, aligned), layers).numpy()
    expected = 0.5 * -(np.log(0.5) + np.log(0.25)) / 2
    np.testing.assert_allclose(losses, [[expected, 0.0]], rtol=1e-5)
    aligned[0, 1, 2] = True
    losses = guide.token_losses((None, None, aligned), layers).numpy()
    np.testing.assert_allclose(losses[0, 1], 0.5 * -np.log(0.7), rtol=1e-5)


def guided(**options):
    return make(guide=AlignmentGuide(2.0, (0, 1)), **options)


@pytest.fixture(scope="module")
def joined():
    """Weights after one guided step on the whole batch."""
    return trained_weights(guided(jit_compile=False), aligned_batch())


@pytest.mark.long
def test_a_pair_without_alignment_is_not_guided(joined):
    """The reported loss is without that of the attention."""
    source, target, aligned = aligned_batch()
    nothing = source, target, np.zeros_like(aligned)
    plain, history = trained_weights(make(), (source, target))
    assert_same(trained_weights(guided(), nothing)[0], plain)
    differences = [np.abs(a - b).max() for a, b in zip(joined[0], plain, strict=True)]
    assert max(differences) > 1e-3
    np.testing.assert_allclose(joined[1]["loss"], history["loss"], rtol=1e-5)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_guided_microbatches_equal_the_whole_batch(joined, jit_compile):
    """Four of two rows, of which the last is filled up."""
    model = guided(accumulate_steps=4, jit_compile=jit_compile)
    assert_same(trained_weights(model, aligned_batch())[0], joined[0])


@pytest.mark.long
def test_two_guided_replicas_equal_the_joined_batch(joined, two_replicas):
    with two_replicas.scope():
        model = guided(jit_compile=True)
    assert_same(trained_weights(model, aligned_batch())[0], joined[0])


@pytest.mark.long
def test_a_pair_that_is_computed_twice_is_guided_twice(joined):
    """R-Drop without dropout is the same training."""
    weights, _ = trained_weights(guided(r_drop=1.0), aligned_batch())
    assert_same(weights, joined[0])


def test_a_guided_batch_that_is_not_finite_is_described():
    said = divergence.diagnose(guided(), *aligned_batch())
    assert "The batch has 6 rows of 5 + 5 tokens" in said
    assert "all gradients are finite" in said


def test_batches_have_the_alignments_of_their_pairs(corpus):
    """Also of a part of the replicas, from a later step, and where rows are filled."""
    split = data.EncodedCorpus.open(corpus, "train", is_aligned=True)
    plan = split.batch_plan(tokens_per_batch=60)
    whole = list(data.training_dataset(split, plan, 3, rows_multiple=7).take(4))
    for number, (source, target, aligned) in enumerate(whole):
        planned = plan.batch(3 + number)
        expected = split.rows(
            planned.rows, planned.source_length, planned.target_length
        )
        count = len(planned.rows)
        for ours, theirs in zip((source, target, aligned), expected, strict=True):
            np.testing.assert_array_equal(ours[:count], theirs)
        assert len(source) % 7 == 0 and not np.any(aligned[count:])
        assert aligned.dtype == tf.bool
    shared = {"rows_multiple": 7, "replicas": [2, 5], "num_replicas": 7}
    parts = list(data.training_dataset(split, plan, 3, **shared).take(8))
    for number, (*_, aligned) in enumerate(parts):
        rows = np.split(whole[number // 2][2], 7)[(2, 5)[number % 2]]
        np.testing.assert_array_equal(aligned, rows)


def guided_preset(**model):
    """The base preset, guided."""
    preset = presets.get("base")
    training = dataclasses.replace(preset.training, guided_alignment=0.05)
    model = dataclasses.replace(preset.model, **model)
    return dataclasses.replace(preset, training=training, model=model)


def test_the_first_head_of_the_second_to_last_layer_is_guided(corpus):
    """Or the one that a model has; a run that is not guided chooses none."""
    metadata = data.read_metadata(corpus)
    for model, head in (
        ({}, (4, 0)),
        ({"num_decoder_layers": 1}, (0, 0)),
        ({"alignment_head": (2, 3)}, (2, 3)),
    ):
        config = run_setup.resolve(guided_preset(**model), metadata)
        assert config.model.alignment_head == head
        assert run_setup.make_guide(config, None, None).head == head
    assert config_of(corpus).model.alignment_head is None


def test_a_corpus_without_alignments_cannot_guide(tmp_path):
    plain = small_corpus.write_corpus(tmp_path, "data", 285)
    with pytest.raises(
        ValueError,
        match="Received: guided_alignment=0.05. Prepare the "
        "corpus with --train_alignments, or pass --guided_alignment=0.",
    ) as error:
        run_setup.resolve(guided_preset(), data.read_metadata(plain))
    assert "\n" not in str(error.value)


def trained_on_reversed_words(corpus, folder, weight):
    """A translator of 2 layers after 300 steps."""
    config = config_of(
        corpus,
        guided_alignment=weight,
        train_steps=300,
        tokens_per_batch=400,
        learning_rate_schedule="constant",
        learning_rate=3e-3,
        average_last=1,
    )
    model = dataclasses.replace(
        config.model, num_layers=2, d_model=32, d_ff=32, dropout_rate=0.0
    )
    config = dataclasses.replace(config, model=model)
    rare = {"checkpoint_every_steps": 300, "evaluate_every_steps": 300}
    train(corpus, folder, config, **rare)
    return load_searcher(folder, beam_size=1)


@pytest.mark.release
def test_a_guided_head_aligns_the_words_of_translations(corpus, tmp_path):
    """It looks at the aligned tokens, and `align_batch` reads it.

    The words of a translation are those of the source in reverse.
    """
    split = data.EncodedCorpus.open(corpus, "train", is_aligned=True)
    sizes = max(split.source_lengths), max(split.target_lengths)
    source, target, aligned = split.rows(np.arange(len(split)), *sizes)
    seen = {}
    for weight in (0.0, 0.5):
        translator = trained_on_reversed_words(corpus, tmp_path / str(weight), weight)
        inputs = translator.model.shift_right(target)
        _, attention = translator.model(source, inputs, return_attention=True)
        there = np.sum(attention["cross"][0][:, 0] * aligned, axis=-1)
        seen[weight] = there[aligned.any(axis=-1)].mean()
    texts = [" ".join(words) for words in itertools.permutations(WORDS, 3)]
    found = translate_in_batches(texts, 20, translator.align_batch)
    is_right = [
        texts[row].split()[first] == translation.text.split()[second]
        for row, translation in enumerate(found)
        for first, second in translation.alignment
    ]
    assert seen[0.5] > 0.9 > seen[0.0] + 0.2
    assert len(is_right) > 2 * len(texts) and np.mean(is_right) > 0.9


@pytest.mark.long
def test_a_guided_run_is_resumed_bit_for_bit(corpus, tmp_path):
    """Stopped after step 3, with the trial of the largest batch."""
    config = config_of(corpus, guided_alignment=0.5)
    options = {"has_preflight": True}
    train(corpus, tmp_path / "whole", config, **options)
    with pytest.raises(KilledError):
        train(corpus, tmp_path / "run", config, Interrupting(), **options)
    train(corpus, tmp_path / "run", config, **options)
    found = weights(tmp_path / "run"), weights(tmp_path / "whole")
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    train(corpus, tmp_path / "plain", config_of(corpus), **options)
    assert any(
        np.any(ours != theirs)
        for ours, theirs in zip(weights(tmp_path / "plain"), found[1], strict=True)
    )
