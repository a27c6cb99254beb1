"""Pairs packed into rows train as pairs in rows of their own do."""

import dataclasses
import itertools
import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import data, presets
from keras_transformer.config import ModelConfig, TrainingConfig
from keras_transformer.data.corpus import CorpusWriter, EncodedCorpus
from keras_transformer.model.batch import Batch
from keras_transformer.model.transformer import Transformer
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training import run_checks, run_setup
from keras_transformer.training.losses import LabelSmoothedCrossEntropy
from tests.training.small_runs import config_of, train, weights

SIZES = {
    "vocab_size": 13,
    "num_layers": 2,
    "d_model": 6,
    "d_ff": 7,
    "num_heads": 2,
    "dropout_rate": 0.0,
}
VARIANTS = {
    "post-norm": {},
    "pre-norm": {"norm_placement": "pre"},
    # Fewer positions than a row has tokens.
    "learned positions": {"position_encoding": "learned", "num_positions": 7},
    "separate vocabularies": {"share_embeddings": False, "target_vocab_size": 17},
    "BOS is padding": {"bos_id": 0, "position_layout": "halves", "first_position": 1},
}
# Three pairs in the first row, two in the second, none in the last.
SOURCE = np.array(
    [
        [4, 5, 3, 12, 7, 8, 3, 3, 0, 0, 0],
        [9, 3, 6, 10, 4, 5, 11, 3, 0, 0, 0],
        [0] * 11,
    ],
    "int32",
)
TARGET = np.array(
    [
        [5, 3, 4, 6, 11, 10, 7, 3, 8, 3, 0, 0, 0],
        [8, 9, 4, 3, 7, 7, 3, 0, 0, 0, 0, 0, 0],
        [0] * 13,
    ],
    "int32",
)


def sentences(rows):
    """Split rows at EOS."""
    found = []
    for row in rows:
        ends = np.flatnonzero(row == 3)
        found += np.split(row[: ends[-1] + 1], ends[:-1] + 1) if len(ends) else []
    return found


def unpacked(rows):
    """One sentence a row."""
    found = sentences(rows)
    matrix = np.zeros((len(found), max(map(len, found))), "int32")
    for row, sentence in zip(matrix, found, strict=True):
        row[: len(sentence)] = sentence
    return matrix


def make(is_packed, fields=None, **options):
    """A compiled model whose every weight is random, and equal each time."""
    model = Transformer(ModelConfig(**{**SIZES, **(fields or {})}))
    draw = np.random.default_rng(5)
    model.set_weights([0.5 * draw.normal(size=w.shape) for w in model.get_weights()])
    optimizer = options.pop("optimizer", None) or keras.optimizers.SGD(1.0)
    model.compile(
        optimizer, LabelSmoothedCrossEntropy(0.1), is_packed=is_packed, **options
    )
    return model


def packed_logits(model, source=SOURCE, target=TARGET):
    segments = model.segments(source), model.segments(target)
    inputs = model.shift_right(target, segments[1])
    return np.asarray(model(source, inputs, segments=segments))


def as_one_batch(source, target):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return tf.data.Dataset.from_tensors((source, target)).with_options(options)


@pytest.fixture(params=list(VARIANTS.values()), ids=list(VARIANTS))
def fields(request):
    return request.param


def test_logits_of_every_token_are_as_in_a_row_of_its_own(fields):
    model = make(True, fields)
    source, target = unpacked(SOURCE), unpacked(TARGET)
    alone = np.asarray(model(source, model.shift_right(target)))
    together = packed_logits(model)
    assert len(alone) == 5
    np.testing.assert_allclose(together[TARGET != 0], alone[target != 0], atol=1e-5)


def test_without_segments_the_pairs_of_a_row_see_each_other():
    model = make(True)
    joined = np.asarray(model(SOURCE, model.shift_right(TARGET)))
    assert np.abs(joined - packed_logits(model))[TARGET != 0].max() > 1e-2


def test_losses_and_gradients_are_as_in_rows_of_their_own(fields):
    batches = {True: (SOURCE, TARGET), False: (unpacked(SOURCE), unpacked(TARGET))}
    (packed, packed_sums, _), (alone, alone_sums, _) = (
        make(is_packed, fields).batch_gradients(*map(tf.constant, batches[is_packed]))
        for is_packed in (True, False)
    )
    np.testing.assert_allclose(packed_sums, alone_sums, rtol=1e-5)
    largest = max(np.abs(gradient).max() for gradient in alone)
    assert largest > 0.1
    for ours, theirs in zip(packed, alone, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * largest)


@pytest.mark.parametrize(
    ("pair", "changed"),
    [(0, (slice(0, 2), slice(0, 1))), (1, (slice(3, 6), slice(2, 7)))],
)
def test_a_pair_sees_nothing_of_those_beside_it(pair, changed):
    """Other words in one pair of the first row change its logits and no others."""
    model, source, target = make(True), SOURCE.copy(), TARGET.copy()
    source[0, changed[0]] = target[0, changed[1]] = 9
    before, after = packed_logits(model), packed_logits(model, source, target)
    of_pair = np.cumsum(TARGET[0] == 3) - (TARGET[0] == 3) == pair
    others = ~of_pair & (TARGET[0] != 0)
    np.testing.assert_array_equal(before[0][others], after[0][others])
    assert np.abs(before[0][of_pair] - after[0][of_pair]).max() > 1e-3


def test_attention_weights_are_zero_outside_of_the_segment():
    model = make(True)
    source, target = model.segments(SOURCE), model.segments(TARGET)
    inputs = model.shift_right(TARGET, target)
    _, attention = model(
        SOURCE, inputs, return_attention=True, segments=(source, target)
    )
    sides = {"encoder": (source,) * 2, "decoder": (target,) * 2}
    sides["cross"] = (target, source)
    tokens = {"encoder": SOURCE, "decoder": TARGET, "cross": TARGET}
    for kind, (queries, keys) in sides.items():
        outside = np.asarray(queries)[:, :, None] != np.asarray(keys)[:, None, :]
        outside &= (tokens[kind] != 0)[:, :, None]
        for layer in attention[kind]:
            weights = np.moveaxis(np.asarray(layer), 1, -1)  # heads last
            assert outside.any() and (weights[outside] == 0.0).all()
            real = weights[tokens[kind] != 0]
            np.testing.assert_allclose(np.sum(real, axis=1), 1.0, atol=1e-5)


def test_every_segment_begins_with_bos():
    model = make(True)
    shifted = model.shift_right(TARGET, model.segments(TARGET))
    np.testing.assert_array_equal(
        shifted[:2],
        [
            [2, 5, 2, 4, 6, 11, 10, 7, 2, 8, 2, 0, 0],
            [2, 8, 9, 4, 2, 7, 7, 2, 0, 0, 0, 0, 0],
        ],
    )


@pytest.mark.long
def test_xla_takes_packed_rows():
    """Forward pass, loss and gradients as they are without it."""
    one_layer = {"num_layers": 1, "position_encoding": "learned", "num_positions": 7}
    rows = Batch(*map(tf.constant, (SOURCE, TARGET)))
    compiled, plain = (
        make(True, one_layer, jit_compile=jit_compile)._gradients(rows, 0, 1.0)
        for jit_compile in (True, False)
    )
    np.testing.assert_allclose(compiled[1], plain[1], rtol=1e-5)
    for ours, theirs in zip(compiled[0], plain[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_replicas_and_microbatches_take_packed_rows(two_replicas):
    """Two replicas with two microbatches each: the weights after one step of rate 1."""
    one_layer = {"num_layers": 1}
    alone = make(False, one_layer)
    alone.fit(
        as_one_batch(unpacked(SOURCE), unpacked(TARGET)), shuffle=False, verbose=0
    )
    with two_replicas.scope():
        packed = make(True, one_layer, jit_compile=False, accumulate_steps=2)
    rows = (np.pad(side, ((0, 1), (0, 0))) for side in (SOURCE, TARGET))
    packed.fit(as_one_batch(*rows), shuffle=False, verbose=0)
    for ours, theirs in zip(packed.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.release
def test_packed_rows_that_do_not_fill_all_microbatches_count_too():
    """Three rows in two microbatches: the weights after one step of rate 1."""
    whole, cut = (
        make(True, {"num_layers": 1}, jit_compile=False, accumulate_steps=count)
        for count in (1, 2)
    )
    for model in (whole, cut):
        model.fit(as_one_batch(SOURCE, TARGET), shuffle=False, verbose=0)
    for ours, theirs in zip(cut.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.long
def test_evaluation_takes_a_pair_a_row():
    source, target = unpacked(SOURCE), unpacked(TARGET)
    results = [
        make(is_packed).evaluate(source, target, verbose=0, return_dict=True)
        for is_packed in (True, False)
    ]
    assert results[0] == results[1]


def test_a_saved_model_knows_that_it_takes_packed_rows(tmp_path):
    make(True).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.is_packed
    assert "pack" not in str(loaded.config)


@pytest.mark.release
def test_an_epoch_has_the_loss_that_it_has_unpacked(tmp_path):
    """Through plan, corpus and pipeline: sums over all tokens of an epoch."""
    draw = np.random.default_rng(3)
    with CorpusWriter(tmp_path / "train", 13, eos_id=3) as writer:
        for _ in range(53):
            writer.append(
                *([draw.integers(4, 13, draw.integers(0, 7))] for _ in range(2))
            )
    corpus = EncodedCorpus.from_folder(tmp_path / "train", pad_id=0)
    corpus.check_segments(3)
    totals = []
    for is_packed in (True, False):
        make_plan = corpus.packed_batch_plan if is_packed else corpus.batch_plan
        plan, model = make_plan(tokens_per_batch=80), make(is_packed)
        dataset = data.training_dataset(corpus, plan, rows_multiple=3)
        sums = [
            [float(value) for value in model.batch_gradients(*batch)[1]]
            for batch in itertools.islice(dataset, plan.batches_per_epoch)
        ]
        totals.append(np.sum(sums, axis=0))
    np.testing.assert_allclose(*totals, rtol=1e-5)


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A packed run of six steps, which is more than two epochs."""
    folder, lines = tmp_path_factory.mktemp("packed") / "run", []
    config = config_of(corpus, pack=True)
    summary = train(corpus, folder, config, lines, has_preflight=True)
    return folder, summary, lines


@pytest.mark.long
def test_a_packed_run_says_its_shape_and_its_pairs_a_row(corpus, whole):
    _, plan = run_setup.plan_batches(corpus, config_of(corpus, pack=True))
    _, summary, lines = whole
    assert plan.batches_per_epoch < 6
    assert (
        f"60 pairs in {plan.batches_per_epoch} batches of 1 shape, "
        f"{100 * plan.padding_rate:.1f} % padding, {plan.pairs_per_row:.1f} pairs a row"
    ) in lines[0]
    [(rows, source_length, target_length)] = plan.shapes
    assert lines[1] == "tracing the training step"
    assert f"{rows} rows of {source_length} + {target_length} tokens" in lines[2]
    assert (summary["steps"], summary["num_shapes"]) == (6, 1)


@pytest.mark.long
def test_a_resumed_packed_run_ends_bit_for_bit_where_it_would_have(
    corpus, whole, tmp_path
):
    train(corpus, tmp_path / "run", config_of(corpus, train_steps=3, pack=True))
    train(corpus, tmp_path / "run", config_of(corpus, pack=True))
    for ours, theirs in zip(weights(tmp_path / "run"), weights(whole[0]), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.release
def test_the_program_packs_on_two_replicas(corpus, tmp_path, repository):
    """With microbatches too; the model is like any other, and takes a pair a row."""
    given = {
        "preset": "tiny",
        "data_dir": corpus,
        "model_dir": tmp_path / "run",
        "distribution": "mirrored",
        "num_replicas": 2,
        "accumulate_steps": 2,
        "num_layers": 1,
        "d_model": 6,
        "d_ff": 7,
        "num_heads": 2,
        "tokens_per_batch": 150,
        "max_length": 40,
        "train_steps": 2,
        "bleu_sentences": 0,
    }
    ended = subprocess.run(
        [
            sys.executable,
            repository / "bin" / "train.py",
            "--pack",
            "--json",
            *(f"--{name}={value}" for name, value in given.items()),
        ],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    summary = json.loads(ended.stdout.splitlines()[-1])
    assert "2 replicas, 2 microbatches a batch" in ended.stdout
    assert (summary["steps"], summary["num_shapes"]) == (2, 1)
    assert summary["flops"] > 0
    place = ModelDir(tmp_path / "run")
    assert place.read_config().training.pack
    model, tokens = place.load_model("latest"), np.array([[5, 6, 3]], "int32")
    assert model(tokens, model.shift_right(tokens)).shape == (1, 3, 285)


def test_what_does_not_go_together_is_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match="`pack` must be False with `guided_align"):
        TrainingConfig(pack=True, guided_alignment=0.1)
    with pytest.raises(ValueError, match="so `is_packed` must be False"):
        make(True, guide=object())
    with pytest.raises(ValueError, match="`pack` must be False with restricted att"):
        run_checks.check_can_pack(ModelConfig(attention_window=5))
    with pytest.raises(
        ValueError, match="Restricted attention does not support `segments`"
    ):
        packed_logits(make(True, {"attention_window": 3}))
    config = config_of(corpus, pack=True)
    window = {"attention_window": 5}
    with pytest.raises(ValueError, match="`pack` must be False with restricted att"):
        run_setup.resolve(
            preset_with(config, window), data.read_metadata(corpus), seed=0
        )


def preset_with(config, model_fields):
    """A preset as `config` was resolved from, but for fields of its model."""
    model = dataclasses.replace(config.model, **model_fields)
    return dataclasses.replace(
        presets.get("tiny"), model=model, training=config.training
    )
