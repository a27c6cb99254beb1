"""Attention that is shown where to look while a parser trains."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import data, presets, tokenization
from keras_transformer.config import TrainingConfig
from keras_transformer.parsing import symbols
from keras_transformer.runs import model_dir
from keras_transformer.training import run as training_run
from keras_transformer.training import run_setup
from keras_transformer.training.guided_alignment import NextWordGuide
from keras_transformer.training.run_options import RunOptions
from tests import small_treebank


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return small_treebank.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return tokenization.load(f"{corpus}/tokenizer")


@pytest.fixture(scope="module")
def labels(corpus):
    return symbols.load(f"{corpus}/labels.json")


@pytest.fixture
def guide(tokenizer, labels):
    return NextWordGuide(0.5, tokenizer, labels)


def batch_of(corpus, rows):
    """The first pairs, padded."""
    split = data.EncodedCorpus.open(corpus, "train")
    return split.rows(
        np.arange(rows),
        max(split.source_lengths[:rows]) + 2,
        max(split.target_lengths[:rows]) + 3,
    )


def test_each_symbol_is_aligned_with_the_word_that_comes_next(guide, tokenizer, labels):
    """Of two sentences, the second shorter; behind the last word with EOS."""
    texts = ["the fox barks .", "dog barks"]
    ids = [[*tokens, tokenizer.eos_id] for tokens in tokenizer.encode(texts)]
    source = tf.keras.utils.pad_sequences(ids, padding="post")
    written = [
        ["(S", "(NP", "XX", "XX", ")NP", "(VP", "XX", ")VP", "XX", ")S"],
        ["(S", "(NP", "XX", ")NP", "(VP", "XX", ")VP", ")S"],
    ]
    target = [[*labels.encode(row), tokenizer.eos_id] for row in written]
    target = tf.keras.utils.pad_sequences(target, padding="post")
    aligned = guide.alignment(source, target).numpy()
    expected = ["the the the fox barks barks barks . . EOS EOS", "dog dog dog barks"]
    expected[1] += " barks barks EOS EOS EOS"
    for row, words in enumerate(expected):
        pieces = tokenizer.pieces(source[row : row + 1]).numpy()[0]
        for step, word in enumerate(words.split()):
            found = [pieces[at].decode() for at in np.flatnonzero(aligned[row, step])]
            spelled = "".join(found).removeprefix("\N{LOWER ONE EIGHTH BLOCK}")
            assert spelled.replace("</s>", "EOS") == word


def test_the_loss_is_what_the_first_heads_of_all_layers_miss(guide, corpus):
    source, target = batch_of(corpus, 3)
    aligned = guide.alignment(source, target).numpy()
    right = aligned / np.maximum(aligned.sum(-1, keepdims=True), 1)
    even = np.full_like(right, 1 / source.shape[1])
    layers = [np.stack([first, even], axis=1) for first in (right, right)]
    real = target != 0
    losses = guide.token_losses((source, target), layers).numpy()
    np.testing.assert_allclose(losses[real], 0, atol=1e-5)
    layers[1] = layers[1][:, ::-1]  # the second layer's first head looks everywhere
    losses = guide.token_losses((source, target), layers).numpy()
    missed = -np.log(aligned.sum(-1)[real] / source.shape[1])
    np.testing.assert_allclose(losses[real], 0.5 * missed / 2, atol=1e-4)


def test_tokens_that_do_not_tell_words_are_refused(guide, corpus):
    """As those of an own model without a space before the first word."""
    split = data.EncodedCorpus.open(corpus, "train")
    pairs = [split[row] for row in range(20)]
    guide.check(pairs)
    pairs[0] = (pairs[0][0][:-2], pairs[0][1])
    guide.check(pairs)
    shorter = [(source[1:], target) for source, target in pairs]
    with pytest.raises(ValueError, match="20 of 20 sentences have another number of"):
        guide.check(shorter)


def build(corpus, tokenizer, labels, weight):
    """A small parser, compiled as a run does it."""
    preset = presets.get("parsing_tiny")
    small = dataclasses.replace(
        preset.model, num_layers=2, d_model=16, d_ff=16, num_heads=2, dropout_rate=0.0
    )
    training = dataclasses.replace(
        preset.training, guided_alignment=weight, warmup_steps=10
    )
    preset = dataclasses.replace(preset, model=small, training=training)
    config = run_setup.resolve(preset, data.read_metadata(corpus))
    keras.utils.set_random_seed(5)
    guide = run_setup.make_guide(config, tokenizer, labels)
    return run_setup.build(config, RunOptions(), guide=guide)


@pytest.mark.long
def test_training_turns_attention_to_the_next_word(corpus, tokenizer, labels):
    """The loss that is reported is without it; a saved model does without."""
    # Set before: a seed drops what a tokenizer holds in the graph.
    guide = NextWordGuide(1.0, tokenizer, labels)
    source, target = batch_of(corpus, 40)
    missed, reported = {}, {}
    for weight in (0.0, 3.0):
        model = build(corpus, tokenizer, labels, weight)
        pairs = tf.data.Dataset.from_tensors((source, target)).repeat(60)
        history = model.fit(pairs.take(1), shuffle=False, verbose=0).history
        reported[weight] = history["loss"][0]
        model.fit(pairs, shuffle=False, verbose=0)
        _, attention = model(source, model.shift_right(target), return_attention=True)
        losses = guide.token_losses((source, target), attention["cross"]).numpy()
        missed[weight] = losses[target != 0].mean()
    assert reported[3.0] == pytest.approx(reported[0.0], rel=1e-5)
    assert missed[3.0] < missed[0.0] - 0.5


@pytest.mark.long
def test_a_run_that_is_guided_can_be_loaded(corpus, tmp_path):
    preset = presets.get("parsing_tiny")
    small = dataclasses.replace(
        preset.model, num_layers=1, d_model=6, d_ff=6, num_heads=2
    )
    training = dataclasses.replace(
        preset.training, guided_alignment=0.5, train_steps=2, tokens_per_batch=300
    )
    preset = dataclasses.replace(preset, model=small, training=training)
    config = run_setup.resolve(preset, data.read_metadata(corpus))
    options = RunOptions(distribution="one_device")
    training_run.train(corpus, str(tmp_path), config, options, write=lambda line: None)
    place = model_dir.ModelDir(tmp_path)
    assert place.read_config().training.guided_alignment == 0.5
    loaded = keras.saving.load_model(place.model_path)
    assert loaded.config == place.load_model().config


def test_only_words_that_tokens_tell_can_guide(labels):
    pieces = tokenization.train_wordpiece(["the fox", "a dog"] * 9, vocab_size=60)
    with pytest.raises(ValueError, match="tell where words begin.*wordpiece"):
        NextWordGuide(0.5, pieces, labels)


@pytest.mark.parametrize("name", ["guided_alignment", "r_drop"])
@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_below_zero_is_refused(name, weight):
    with pytest.raises(ValueError, match=f"`{name}` must be a finite number"):
        TrainingConfig(**{name: weight})
