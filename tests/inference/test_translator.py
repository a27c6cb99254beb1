"""Text to text, and the SavedModel that does the same."""

import dataclasses
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import tokenization
from keras_transformer.config import DecodingConfig, ModelConfig
from keras_transformer.inference import graph_optimizer, packed_kernels
from keras_transformer.inference.translator import Translator
from keras_transformer.model.transformer import Transformer
from keras_transformer.opening import open_model
from keras_transformer.serving import saved_model
from keras_transformer.translation.batching import (
    BATCHES_AT_ONCE,
    first_call_alone,
    in_batches,
    in_blocks,
)
from keras_transformer.translation.opened_model import OpenedModel
from keras_transformer.translation.pipeline import has_loop
from tests.small_models import prepared_variables

LINES = ["one two three", "zwei eins", "Ein Hund läuft.", "A dog runs!", "2, 3, 5, 7"]
MIXED = ["one two three", "", "A dog", "   ", "2, 3, 5, 7 " * 9, "\u00e9\U0001f600"]


@pytest.fixture(scope="module")
def parts():
    """An untrained model of distinct sizes and its tokenizer."""
    keras.utils.set_random_seed(3)
    tokenizer = tokenization.train_bpe(LINES * 5, vocab_size=300)
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, num_layers=2, d_model=6, d_ff=7, num_heads=2
    )
    return Transformer(config), tokenizer


def make(parts, **options):
    return Translator(*parts, extra_decode_length=5, **options)


@pytest.fixture(scope="module")
def translator(parts):
    """A translator whose search is traced once for all tests."""
    return make(parts)


@pytest.fixture(scope="module")
def greedy(parts):
    """A source of five words, and what greedy search finds for it."""
    source = tf.constant(parts[1].encode_rows(["A dog runs!"]))
    return source, make(parts, beam_size=1).search(source)


@pytest.mark.long
def test_attention_is_that_of_the_head_that_aligns(parts):
    """The second of the last layer; without one the mean of the first of two layers."""
    plain, tokenizer = parts
    aligning = Transformer(dataclasses.replace(plain.config, alignment_head=(1, 1)))
    aligning.set_weights(plain.get_weights())
    text = tf.constant(["one two three"])
    translator = make(parts)
    tokens, _ = translator.source_tokens(text)
    best = translator.search(tokens)
    target = best.tokens[:, 0, : int(best.lengths[0, 0])]
    _, weights = translator.ensemble.decode(tokens, target)
    for model, expected in (
        (plain, tf.reduce_mean(weights[0], axis=1)),
        (aligning, weights[1][:, 1]),
    ):
        translator = make((model, tokenizer))
        found = translator.align_batch(text)["attention"]
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(weights[1][:, 1] - tf.reduce_mean(weights[0], axis=1)).max() > 1e-3


def test_what_fails_in_any_batch_is_told():
    def answer(batch):
        if "c" in batch:
            raise ValueError("c is not for me")
        return batch

    assert in_batches(["bb", "a", "dddd"], 1, answer) == ["bb", "a", "dddd"]
    assert in_batches([], 1, answer) == []
    with pytest.raises(ValueError, match="c is not for me"):
        in_batches(["a", "b", "c", "d"], 1, answer)


def test_blocks_come_in_order_as_soon_as_they_are_done():
    """Blocks of 4: "ccc" and "dddd" are first, but "d" is the first of its block."""
    texts = ["d", "dddd", "bb", "ccc", "bb", "a", "ee"]
    found = [*in_blocks(texts, 2, list, block_size=4)]
    assert found == [
        (2, []),
        (2, ["d", "dddd", "bb", "ccc"]),
        (2, ["bb", "a"]),
        (1, ["ee"]),
    ]


def test_texts_are_taken_when_they_are_needed():
    """At most four batches run or wait while the answers of one are used."""
    taken = []
    texts = (taken.append(number) or "a" for number in range(100))
    answers = in_blocks(texts, 1, list, block_size=2, at_once=2)
    for num_used in (1, 2):
        assert next(answers) == (1, ["a"])
        assert len(taken) <= num_used + 2 * 2
    assert sum(size for size, _ in answers) == 98


@pytest.mark.parametrize("first_alone", [True, False])
def test_the_first_batch_is_alone_unless_that_is_not_needed(first_alone):
    met, both_run = [], threading.Barrier(2)

    def answer(batch):
        try:
            both_run.wait(60 if met or not first_alone else 0.1)
            met.append(True)
        except threading.BrokenBarrierError:
            both_run.reset()
            met.append(False)
        return batch

    if first_alone:
        answer = first_call_alone(answer)
    answers = in_batches(["a"] * (3 if first_alone else 2), 1, answer, 2)
    assert answers == ["a"] * len(met)
    assert met == [False, True, True] if first_alone else [True, True]


def test_the_first_batch_of_an_export_is_not_alone():
    both_run = threading.Barrier(2)

    def run_batch(text):
        both_run.wait(60)
        return {"translation": text}

    opened = OpenedModel(run_batch=run_batch, first_alone=False)
    assert [each.text for each in opened.translate(["a", "b"], 1)] == ["a", "b"]


def test_what_is_not_wanted_is_not_answered():
    """A program that is interrupted ends with the batches that have begun."""
    released, batches = threading.Event(), []

    def answer(batch):
        if batches:
            released.wait(60)
        batches.append(batch)
        return batch

    answers = in_blocks(["a"] * 23, 1, answer, block_size=23)
    assert next(answers) == (1, ["a"])
    threading.Timer(0.1, released.set).start()
    answers.close()
    assert len(batches) <= 1 + 2 * BATCHES_AT_ONCE


def test_what_runs_when_a_program_is_interrupted_is_kept():
    """Batches that have not begun are not answered."""
    answered, is_interrupted = [], threading.Event()

    class Kept(list):
        def get(self, texts):
            return None

        def add(self, texts, answers):
            self.append(texts)

    def answer(batch):
        if batch == ["b"]:
            is_interrupted.wait(60)
        answered.append(batch)
        return batch

    kept = Kept()
    blocks = in_blocks(list("abcdefg"), 1, answer, block_size=1, at_once=1, kept=kept)
    assert next(blocks) == (1, ["a"])
    threading.Timer(0.1, is_interrupted.set).start()
    with pytest.raises(KeyboardInterrupt):
        blocks.throw(KeyboardInterrupt)
    assert kept == answered
    assert ["b"] in kept and ["g"] not in kept


def test_batches_of_long_texts_are_small():
    batches = []

    def answer(batch):
        batches.append([len(text) for text in batch])
        return batch

    lengths = [5, 0, 40_000, 2**15, 70_000, 2**15, 6, 5, 80_000]
    texts = ["x" * length for length in lengths]
    assert in_batches(texts, 3, answer) == texts
    assert batches[0] == [80_000]
    assert sorted(batches) == [
        [0, 5, 5],
        [6, 2**15],
        *([2**15], [40_000], [70_000], [80_000]),
    ]


def test_translations_come_back_in_the_order_of_the_sources(translator):
    """Sorting into batches by length must not show."""
    together = translator.translate(MIXED, batch_size=2)
    single = [translator.translate([text])[0] for text in MIXED]
    assert [t.text for t in together] == [t.text for t in single]
    np.testing.assert_allclose(
        [t.score for t in together], [t.score for t in single], atol=1e-5
    )


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    ("options", "is_all"),
    [
        ({}, False),
        ({"has_packed_kernels": False, "has_stacks": True}, True),
        ({"has_stacks": True}, True),
    ],
)
def test_prepared_weights_translate_alike_and_do_not_follow(parts, options, is_all):
    """With stacks none of a layer's weights is read as it was."""
    model, tokenizer = parts
    model = Transformer(model.config)
    following = make((model, tokenizer), num_best=2)
    kept = following.with_prepared_weights(**options)
    pair = [[5, 7, 11, 2], [13, 2, 0, 0]], [[17, 19, 2], [2, 0, 0]]

    @tf.function
    def decode(translator):
        outputs, weights = translator.ensemble.decode(*map(tf.constant, pair))
        return *outputs, *weights

    def assert_equal(ours, theirs):
        assert [t.text for t in ours] == [t.text for t in theirs]
        np.testing.assert_allclose(
            [[each.score for each in t.nbest] for t in ours],
            [[each.score for each in t.nbest] for t in theirs],
            atol=1e-5,
        )

    def assert_all_close(ours, theirs):
        for own, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(own, other, atol=1e-5)

    before = following.translate(MIXED, batch_size=5)  # of 4 rows, and of 20
    assert_equal(kept.translate(MIXED, batch_size=1), before)
    assert_equal(kept.translate(MIXED, batch_size=5), before)
    decoded = decode(following)
    assert_all_close(decode(kept), decoded)
    layers = model.decoder.layers + (model.encoder.layers if is_all else [])
    for layer in layers:
        for weight in layer.weights if is_all else [layer.ffn.hidden.kernel]:
            weight.assign(-weight)
    assert_equal(kept.translate(MIXED, batch_size=5), before)
    if is_all:
        assert_all_close(decode(kept), decoded)
        eager, weights = kept.ensemble.decode(*map(tf.constant, pair))
        assert_all_close([*eager, *weights], decoded)
    after = following.translate(MIXED, batch_size=5)
    assert [t.score for t in after] != [t.score for t in before]


@pytest.mark.long(first=2)
@pytest.mark.parametrize("beam_size", [16, 17])
def test_the_words_are_kept_for_few_rows_alone(parts, beam_size):
    plain = make(parts, beam_size=beam_size, num_best=2)
    kept = plain.with_prepared_weights()
    assert (kept.decoding, kept.num_best) == (plain.decoding, 2)
    of_words = packed_kernels.pack_transposed(
        parts[0].output_embedding.embeddings
    ).blocks.shape
    shapes = [variable.shape for variable in prepared_variables(kept)]
    assert (of_words in shapes) == (beam_size == 16)
    assert prepared_variables(plain) == []
    assert kept("one two") == plain("one two")


@pytest.mark.long
def test_what_is_kept_is_saved_with_its_owner(parts, tmp_path):
    class Owner(tf.Module):
        def __init__(self):
            super().__init__()
            self.translator = make(parts).with_prepared_weights()

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def serve(self, text):
            return self.translator.translate_batch(text)["translations"]

    owner = Owner()
    tf.saved_model.save(owner, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    expected = [[text.encode()] for text in make(parts)(MIXED)]
    assert loaded.serve(tf.constant(MIXED)).numpy().tolist() == expected


@pytest.mark.parametrize("is_prepared", [False, True])
def test_no_step_reads_a_variable(translator, is_prepared):
    """The step of a search is the innermost loop.

    Nor does anything gather rows of a variable: TensorFlow would copy that variable at
    each later read as a whole.
    """
    if is_prepared:
        translator = translator.with_prepared_weights()
    text = tf.TensorSpec([None], tf.string)
    graph = translator._translate_batch.get_concrete_function(text).graph
    functions = {
        function.signature.name: function.node_def
        for function in graph.as_graph_def().library.function
    }

    def called_by(node):
        names = [node.attr[key].func.name for key in node.attr]
        return [name for name in names if name in functions]

    def operations(name):
        nodes = functions[name]
        inner = [operations(other) for node in nodes for other in called_by(node)]
        return {node.op for node in nodes}.union(*inner)

    bodies = [
        node.attr["body"].func.name
        for nodes in functions.values()
        for node in nodes
        if "body" in node.attr
    ]
    loops = {"While", "StatelessWhile"}
    (step,) = [found for found in map(operations, bodies) if not found & loops]
    assert "BatchMatMulV2" in step
    assert ("StatelessIf" in step) == is_prepared
    assert "ReadVariableOp" not in step
    assert "ResourceGather" not in set().union(*map(operations, functions))


def test_a_source_without_words_becomes_nothing(translator):
    translation = translator.translate(["  "])[0]
    assert (translation.text, translation.score, translation.truncated) == (
        "",
        0.0,
        False,
    )


def test_no_source_gives_no_translation(translator):
    assert translator.translate([]) == []
    assert translator([]) == []
    assert translator.translate_batch(tf.constant([], tf.string))["scores"].shape == (
        0,
        1,
    )


def test_a_string_gives_a_string_and_a_list_a_list(translator):
    assert translator("A dog") == translator(["A dog"])[0]


def test_long_sources_are_cut_at_the_end_and_said_to_be(parts):
    """Two sources that differ after the limit alone have the same translation."""
    translator = make(parts, max_input_length=11)
    long, other, short = translator.translate(
        ["one two three " * 7, "one two three " * 7 + "zwei", "one"]
    )
    assert [long.truncated, other.truncated, short.truncated] == [True, True, False]
    assert long.text == other.text


def test_output_is_at_most_input_plus_extra_tokens(greedy):
    """§6.1: input length + 50; an untrained model runs into it."""
    source, result = greedy
    assert result.tokens.shape[2] == source.shape[1] + 5
    assert int(result.lengths[0, 0]) <= source.shape[1] + 5


def test_nbest_is_sorted_and_begins_with_the_best(parts, translator):
    one = translator.translate(["A dog"])[0]
    many = make(parts, num_best=3).translate(["A dog"])[0]
    scores = [hypothesis.score for hypothesis in many.nbest]
    assert scores == sorted(scores, reverse=True)
    assert many.nbest[0].text == one.text
    assert len({hypothesis.text for hypothesis in many.nbest}) > 1


def test_scores_are_log_probabilities_over_the_penalty(parts, greedy):
    """The score of greedy search, worked out from the whole-sentence pass."""
    model, (source, result) = parts[0], greedy
    length = int(result.lengths[0, 0])
    target = result.tokens[0, :1, :length]
    logits = model(source, model.shift_right(target))
    log_probs = tf.gather(tf.nn.log_softmax(logits), target, batch_dims=2)
    expected = tf.reduce_sum(log_probs) / ((5 + length) / 6) ** 0.6
    np.testing.assert_allclose(result.scores[0, 0], expected, rtol=1e-5)


def test_more_best_than_beams_is_refused(parts):
    with pytest.raises(ValueError, match="must be at most `beam_size`"):
        make(parts, num_best=5)


def test_less_than_one_best_is_refused(parts):
    message = "`num_best` must be at least 1. Received: num_best=0"
    with pytest.raises(ValueError, match=message):
        make(parts, num_best=0)
    with pytest.raises(ValueError, match=message):
        make(parts).search(tf.constant([[4, 2]]), num_best=0)


def test_another_vocabulary_is_refused(parts):
    other = tokenization.train_bpe(LINES * 5, vocab_size=295)
    with pytest.raises(ValueError, match="The tokenizer is not the model's.*295.*300"):
        Translator(parts[0], other)


def test_learned_positions_limit_the_input(parts):
    tokenizer = parts[1]
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        num_layers=1,
        d_model=6,
        d_ff=7,
        num_heads=2,
        position_encoding="learned",
        num_positions=17,
    )
    translator = Translator(Transformer(config), tokenizer, extra_decode_length=6)
    assert translator.decoding.max_input_length == 11
    assert translator.translate(["one two three " * 9])[0].truncated
    with pytest.raises(ValueError, match="must leave room in the table"):
        Translator(Transformer(config), tokenizer, extra_decode_length=16)


@pytest.mark.parametrize(("most", "expected"), [(None, 14), (7, 7), (90, 14)])
def test_an_output_has_at_most_its_own_limit(parts, most, expected):
    """The source has 9 tokens, and an output may have 5 more."""
    translator = make(parts, max_output_length=most)
    tokens, _ = translator.source_tokens(tf.constant(["2, 3, 5, 7", ""]))
    limits = translator.output_limits(tokens)
    assert limits.numpy().tolist() == [expected, 0]
    found = translator.best_outputs(tokens, limits)
    assert found.lengths.numpy().max() <= expected


@pytest.fixture(scope="module")
def saved(parts, tmp_path_factory):
    return saved_model.export(
        make(parts),
        tmp_path_factory.mktemp("export"),
        signatures=["serving_default"],
        has_packed_kernels=False,
    )


@pytest.mark.long
def test_the_export_translates_as_the_translator_does(parts, saved):
    assert saved.name == "1"
    ours = make(parts).translate(MIXED, batch_size=2)
    theirs = open_model(saved).translate(MIXED, batch_size=3)
    assert [t.text for t in theirs] == [t.text for t in ours]
    np.testing.assert_allclose(
        [t.score for t in theirs], [t.score for t in ours], atol=1e-5
    )


@pytest.mark.long
def test_the_export_runs_moved_in_a_process_without_this_package(
    parts, saved, tmp_path
):
    """Only TensorFlow and TensorFlow Text are imported there; strings are compared."""
    moved = tmp_path / "elsewhere"
    saved.rename(moved)
    program = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        f"serve = tf.saved_model.load({str(moved)!r}).signatures['serving_default']\n"
        f"result = serve(text=tf.constant({MIXED!r}))\n"
        "print(result['translation'].numpy().tolist())\n"
        "assert not [name for name in sys.modules if name == 'keras_transformer']\n"
    )
    try:
        result = subprocess.run(
            [sys.executable, "-I", "-c", program], capture_output=True, text=True
        )
    finally:
        moved.rename(saved)
    assert result.returncode == 0, result.stderr[-2000:]
    expected = [text.encode() for text in make(parts)(MIXED)]
    assert result.stdout.splitlines()[-1] == str(expected)


def test_each_export_is_the_next_version(tmp_path):
    for name in ("1", "7", "notes"):
        (tmp_path / name).mkdir()
    assert saved_model.next_version(tmp_path) == 8
    assert saved_model.next_version(tmp_path / "absent") == 1


@pytest.mark.long
def test_a_failed_export_leaves_nothing(parts, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        message = "{{function_node x}} /a/.b; No space left on device [Op:SaveV2]"
        raise tf.errors.ResourceExhaustedError(None, None, message)

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(
        OSError, match="Could not write the export into .*: No space left on device\\. "
    ):
        saved_model.export(make(parts), tmp_path, signatures=["score"])
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_export_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No saved_model.pb in .*VERSION"):
        open_model(tmp_path).translate(["a"])
    module = tf.Module()
    module.f = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([])])
    tf.saved_model.save(module, str(tmp_path / "m"), signatures={"other": module.f})
    with pytest.raises(ValueError, match="must have the signature.*Received: other"):
        open_model(tmp_path / "m").translate(["a"])


def test_decoding_config_of_the_paper():
    """§6.1: beam 4, alpha 0.6, input + 50."""
    decoding = DecodingConfig()
    assert (decoding.beam_size, decoding.length_penalty_alpha) == (4, 0.6)
    assert decoding.extra_decode_length == 50


@pytest.mark.parametrize(("num_texts", "is_off"), [(1000, True), (1001, False)])
def test_little_work_is_not_optimized_for(num_texts, is_off):
    def option():
        options = tf.config.optimizer.get_experimental_options()
        return options.get("disable_meta_optimizer", False)

    before = option()
    with (
        pytest.raises(ZeroDivisionError),
        graph_optimizer.disabled_for(num_texts),
    ):
        assert option() == (is_off or before)
        raise ZeroDivisionError
    assert option() == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("no no no", False),
        ("no no no no", True),
        ("no, no, no, no!", True),
        ("a dog and a cat and a dog and a cat", False),
        ("so a dog a dog a dog a dog runs", True),
        ("a b a b a b a c", False),
        ("1 2 3 4 5 6 7 8 " * 4, True),
        ("1 2 3 4 5 6 7 8 9 " * 4, False),
    ],
)
def test_a_loop_is_a_phrase_that_comes_four_times_in_a_row(text, expected):
    assert has_loop(text) == expected
