"""A search that XLA compiled finds what the same search without it finds."""

import dataclasses
import pathlib
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import CLOSING_TAG, OPENING_TAG, PLACEHOLDER
from keras_transformer.inference import generator
from keras_transformer.inference.shortlist import Shortlist
from keras_transformer.inference.translator import Translator
from keras_transformer.opening import open_model
from keras_transformer.server import model_loading
from keras_transformer.serving import saved_model, warmup
from keras_transformer.translation import exported_model, program_sizes
from keras_transformer.translation.compiling_beside import CompilerBeside, compiling
from keras_transformer.translation.program_sizes import Size
from tests.model_variants import VARIANTS
from tests.small_models import LINES, choosing_model, make_parser, make_translator

ROOT = pathlib.Path(__file__).parents[2]
SIZES = [Size(2, 8, 1), Size(2, 32, 1), Size(8, 32, 1), Size(8, 32, 32)]
LARGEST = 2
TEXTS = [*LINES, "", "zwei eins " * 6]


def with_programs(plain, *numbers, sizes=SIZES):
    """Return a translator with programs, of which some are compiled."""
    translator = plain.with_prepared_weights(program_sizes=sizes)
    compile_program = translator.programs.signatures()["compile"]
    compile_program(program=tf.constant(numbers, tf.int32))
    return translator


def num_missed(translator):
    state = translator.programs.signatures()["programs"]
    return state(program=tf.range(len(translator.programs.sizes)))["num_missed"]


def assert_same(result, expected, num_best=1):
    """The best hypotheses, but where their scores differ by rounding."""
    for row in range(len(expected.scores)):
        for own, other in zip(
            hypotheses(result, row, num_best),
            hypotheses(expected, row, num_best),
            strict=True,
        ):
            np.testing.assert_allclose(own[0], other[0], rtol=1e-4, atol=1e-4)
            assert own[1:] == other[1:]


def hypotheses(result, row, num_best):
    """Return score, tokens and whether it ended, for each hypothesis."""
    return [
        (
            result.scores[row, slot].numpy(),
            result.tokens[row, slot, : result.lengths[row, slot]].numpy().tolist(),
            bool(result.finished[row, slot]),
        )
        for slot in range(num_best)
    ]


@pytest.fixture(scope="module")
def pair():
    plain = make_translator(beam_size=3)
    return plain, with_programs(plain, LARGEST)


@pytest.mark.long
def test_batches_of_any_size_and_length_are_searched_alike(pair):
    """Padded to a program, without one because it is not compiled, or too large."""
    plain, compiled = pair
    before = num_missed(compiled).numpy()
    for texts in (TEXTS, TEXTS[-2:], TEXTS * 2, []):
        tokens, _ = plain.source_tokens(tf.constant(texts, tf.string))
        assert_same(compiled.search(tokens), plain.search(tokens))
    # Two sources of more than 8 tokens.
    assert (num_missed(compiled) - before).numpy().tolist() == [0, 1, 0, 0]


@pytest.mark.long
def test_a_batch_is_searched_in_parts(pair):
    """With and without a part that is not full, or empty; and of more than all."""
    plain, _ = pair
    compiled = with_programs(plain, 0, sizes=[Size(2, 32, 1, parts=4)])
    for count in (0, 1, 2, 3, 5, 8, 9):
        tokens, _ = plain.source_tokens(tf.constant((TEXTS * 2)[:count], tf.string))
        assert_same(compiled.search(tokens), plain.search(tokens))
    assert num_missed(compiled).numpy().tolist() == [0]


@pytest.mark.long
def test_few_rows_are_multiplied_by_the_packed_kernel(pair):
    plain, _ = pair
    compiled = with_programs(plain, 0, 1, sizes=[Size(1, 32, 1), Size(2, 32, 1)])
    tokens, _ = plain.source_tokens(tf.constant(TEXTS[:2], tf.string))
    for count in (1, 2):
        assert_same(compiled.search(tokens[:count]), plain.search(tokens[:count]))
    # Three rows read it, six do not.
    (member,) = compiled.ensemble._members
    output = member.packed.variables[-1]
    output.assign(tf.zeros_like(output))
    expected = plain.search(tokens)
    assert_same(compiled.search(tokens), expected)
    found = compiled.search(tokens[:1])
    assert abs(found.scores[0, 0] - expected.scores[0, 0]) > 0.1
    assert num_missed(compiled).numpy().tolist() == [0, 0]


@pytest.mark.long
def test_a_program_does_not_pay_for_the_search_without_it(pair):
    """TensorFlow visits each operation of a branch, taken or not, if it is inlined."""
    graph = pair[1]._search.get_concrete_function().graph.as_graph_def()
    functions = [each.attr for each in graph.library.function]
    apart = [each for each in functions if each["_noinline"].b]
    compiled = [each for each in apart if each["_XlaMustCompile"].b]
    assert (len(apart), len(compiled)) == (2, 1)


@pytest.mark.long
def test_texts_become_the_same_texts(pair):
    expected, found = (each.translate_batch(tf.constant(TEXTS)) for each in pair)
    np.testing.assert_array_equal(found["translations"], expected["translations"])
    assert "" in expected["translations"].numpy()[:, 0].astype(str)


CASES = {
    "greedy": ({"num_layers": 1}, {"beam_size": 1}),
    "early stop, forced ends": (
        {"num_layers": 1, "position_encoding": "learned", "num_positions": 40},
        {"early_stopping": True, "force_eos": True, "num_best": 2},
    ),
    "repetitions": (
        {"attention_window": 3, "num_heads": 1},
        {"no_repeat_ngram_size": 2, "max_repetitions": 1},
    ),
    "no early stop, probabilities of what is possible": (
        {"norm_placement": "pre", "key_dim": 5, "value_dim": 11, "output_bias": True},
        {"beam_size": 8, "num_best": 8, "renormalize": True, "max_output_length": 9},
    ),
    "as in Marian": (
        VARIANTS["as in Marian"],
        {"length_penalty": "power", "certain_eos": True, "force_eos": True},
    ),
}


@pytest.mark.long(first=1)
@pytest.mark.parametrize("fields, options", CASES.values(), ids=CASES)
def test_every_option_of_model_and_search(fields, options):
    num_best = options.get("num_best", 1)
    given = make_translator()
    config = dataclasses.replace(given.model.config, **fields)
    plain = Translator(
        choosing_model(config, 5), given.tokenizer, given.decoding, **options
    )
    compiled = with_programs(plain, LARGEST)
    tokens, _ = plain.source_tokens(tf.constant(TEXTS))
    found, expected = (
        each.search(tokens, num_best=num_best) for each in (compiled, plain)
    )
    assert_same(found, expected, num_best)
    assert not num_missed(compiled).numpy().any()


@pytest.mark.long
def test_prefixes_rules_placeholders_and_ensembles():
    """All at once: each of them changes the outputs of the others."""
    names = [PLACEHOLDER.format(1), OPENING_TAG.format(1), CLOSING_TAG.format(1)]
    first = make_translator(placeholders=names)

    def rule(hypotheses, step, source):
        is_odd = (hypotheses.ids % 2 == 1)[tf.newaxis]
        return (is_odd | (source["source_tokens"][:, 1:2] != 7))[:, tf.newaxis]

    plain = Translator(
        first.model,
        first.tokenizer,
        first.decoding,
        others=[choosing_model(first.model.config, 9)],
        token_rules=[rule],
    )
    compiled = with_programs(plain, LARGEST, LARGEST + 1)
    texts = tf.constant([f"{text} {' '.join(names)}" for text in LINES])
    prefixes = tf.constant(["zwei", "", "A dog runs fast", "", "2"])
    tokens, _ = plain.source_tokens(texts)
    assert_same(compiled.search(tokens), plain.search(tokens))
    found, expected = (
        each.translate_with_prefix(texts, prefixes) for each in (compiled, plain)
    )
    np.testing.assert_array_equal(found["translations"], expected["translations"])
    assert not num_missed(compiled).numpy().any()


@pytest.mark.release
def test_bfloat16_differs_by_its_rounding():
    plain = make_translator(precision="bfloat16")
    compiled = with_programs(plain, LARGEST)
    tokens, _ = plain.source_tokens(tf.constant(TEXTS))
    found, expected = (each.search(tokens).scores[:, 0] for each in (compiled, plain))
    np.testing.assert_allclose(found, expected, rtol=0.05)


def test_a_shortlist_has_no_programs():
    """The size of its vocabulary follows from the words of a batch."""
    plain = make_translator()
    assert plain.program_sizes("gpu")
    size = plain.model.config.vocab_size
    always, others = np.arange(99, dtype="int32"), np.zeros([size, 2], "int32")
    listed = Translator(
        plain.model, plain.tokenizer, shortlist=Shortlist(always, others)
    )
    assert listed.program_sizes("gpu") == []


def test_a_parser_has_no_programs():
    """Its search reads more of a sentence than programs get."""
    for device in ("cpu", "gpu"):
        assert make_parser().program_sizes(device) == []


def test_sizes_pay_where_they_were_measured_to_pay():
    small, large = 10**6, 10**8
    of_cpu = program_sizes.sizes_for("cpu", small, 300)
    assert max(size.rows for size in of_cpu) == 32
    assert {size.width for size in of_cpu} == {16, 32, 64, 128, 256, 512}
    assert program_sizes.sizes_for("cpu", large, 100) == []
    longest = {(size.rows, size.width) for size in of_cpu[-1:]}
    assert longest == {(32, 128)}
    of_gpu = program_sizes.sizes_for("gpu", large, 16)
    assert {size.rows for size in of_gpu} == {2, 8, 32, 128, 384}
    assert not any(size.pays("cpu", large) for size in of_gpu)
    assert of_gpu == sorted(of_gpu)


class Programs:
    """Signatures of three programs, the last of which cannot be compiled."""

    def __init__(self):
        self.is_compiled, self.num_missed = np.zeros(3, bool), np.zeros(3, "int64")

    def compile(self, program):
        if 2 in program.numpy():
            raise tf.errors.InvalidArgumentError(None, None, "no compiler\nat all")
        self.is_compiled[program.numpy()] = True

    def programs(self, program):
        return {
            name: tf.gather(getattr(self, name), program)
            for name in ("is_compiled", "num_missed")
        }

    def signatures(self):
        return {name: getattr(self, name) for name in ("compile", "programs")}


SMALL = [Size(1, 16, 1), Size(64, 16, 1), Size(2, 16, 16)]


def compiler_of(programs, sizes=SMALL):
    return CompilerBeside(programs.signatures(), sizes, step_weights=1)


def test_a_program_is_compiled_after_several_batches_without_it():
    programs = Programs()

    def translate_batch(text):
        programs.num_missed[:2] += 1  # also of one that does not pay here
        return text

    compiler = compiler_of(programs)
    run = compiling(translate_batch, compiler)
    for _ in range(2):
        assert run("a") == "a"
        compiler.wait()
    assert not programs.is_compiled.any()
    run("a")
    compiler.wait()
    assert programs.is_compiled.tolist() == [True, False, False]


def test_usual_programs_are_compiled_before_there_are_batches():
    programs = Programs()
    compiler = compiler_of(programs, [*SMALL[:2], Size(1, 256, 1)])
    compiler.start(most_rows=99)
    compiler.wait()
    assert programs.is_compiled.tolist() == [True, False, False]


@pytest.mark.parametrize("most_rows, usual", [(1, [0]), (2, [0, 1]), (3, [0, 1, 3])])
def test_only_programs_that_batches_need_are_usual(most_rows, usual):
    sizes = [Size(1, 16, 1), Size(2, 16, 1), Size(2, 16, 16), Size(4, 16, 1)]
    assert program_sizes.usual_numbers(sizes, "gpu", 1, most_rows) == usual


def test_nothing_is_looked_at_once_all_programs_are_compiled():
    programs = Programs()
    programs.is_compiled[:] = True
    compiler = compiler_of(programs)
    compiler.look()
    del programs.num_missed
    compiler.look()


def test_a_failure_is_told_once_and_nothing_else_is_tried(caplog):
    programs = Programs()
    programs.num_missed[:] = 9, 0, 10
    compiler = compiler_of(programs)
    for _ in range(3):
        compiler.look()
        compiler.wait()
    assert not programs.is_compiled.any()
    assert [record.getMessage() for record in caplog.records] == [
        "Searches of any size run without XLA, which failed: no compiler"
    ]


def test_a_program_that_needs_too_much_memory_is_left_out_alone(caplog):
    programs = Programs()

    def compile_program(program):
        if 0 in program.numpy():
            raise tf.errors.ResourceExhaustedError(None, None, "out of memory")
        programs.is_compiled[program.numpy()] = True

    sizes = [Size(1, 16, 1), Size(2, 16, 1), Size(8, 16, 1)]
    signatures = {**programs.signatures(), "compile": compile_program}
    compiler = CompilerBeside(signatures, sizes, step_weights=1)
    compiler.start(most_rows=8)
    compiler.wait()
    assert programs.is_compiled.tolist() == [False, True, True]
    (record,) = caplog.records
    assert "rows=1" in record.getMessage()


PROGRAM = """
import time
from tests.small_models import make_translator
from keras_transformer.translation.program_sizes import Size

translator = make_translator().with_prepared_weights(program_sizes=[Size(2, 8, 1)])
translator.compiler.start(most_rows=2)
time.sleep(0.5)
"""


ENDING = """
from keras_transformer.cli import programs
from keras_transformer.translation import compiling_beside


def main():
    compiling_beside._compiling.acquire()  # as the thread does that compiles
    print("done")


programs.run(main)
"""


@pytest.mark.release
def test_a_process_waits_for_the_compiler_at_its_end():
    """Python aborted it: "FATAL: exception not rethrown"."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, cwd=ROOT)


@pytest.mark.long
def test_a_program_does_not_wait_for_the_compiler():
    ended = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, cwd=ROOT, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, b"done\n")


def test_an_export_without_its_description_is_searched_without_programs(tmp_path):
    """Some tools copy what TensorFlow knows of alone."""
    loaded = types.SimpleNamespace(signatures=Programs().signatures())
    description = exported_model.read_description(tmp_path)
    assert exported_model.compiler_of(loaded, description) is None


def test_without_programs_there_is_no_compiler():
    assert compiling(len, None) is len
    assert make_translator().with_prepared_weights().compiler is None


@pytest.mark.long
def test_a_translator_compiles_beside_its_batches():
    translator = make_translator().with_prepared_weights(program_sizes=SIZES[1:2])
    expected = [translator(LINES[:2]) for _ in range(3)]
    translator.compiler.wait()
    assert translator.compiler.state()[0].tolist() == [True]
    assert translator(LINES[:2]) == expected[0]


def test_large_batches_have_programs_on_a_gpu_alone(monkeypatch):
    plain = make_translator()
    assert plain.sizes_of_large_batches() == []
    monkeypatch.setattr(generator.hardware, "has_gpu", lambda: True)
    assert plain.sizes_of_large_batches() == plain.program_sizes("gpu")


@pytest.mark.release
def test_programs_without_prepared_weights_follow_a_training(two_replicas):
    with two_replicas.scope():
        plain = make_translator()
    live = plain.with_prepared_weights(
        has_packed_kernels=False, program_sizes=SIZES[1:2]
    )
    live.programs.signatures()["compile"](program=tf.constant([0]))
    before = live(LINES[:2])
    for weight in plain.model.trainable_weights:
        weight.assign(weight[::-1])
    assert live(LINES[:2]) == plain(LINES[:2]) != before
    assert not num_missed(live).numpy().any()


@pytest.mark.long
def test_an_export_compiles_beside_its_batches_and_a_server_before_them(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(program_sizes, "sizes_for", lambda *_: [Size(8, 32, 1)])
    plain = make_translator()
    version = saved_model.export(
        plain,
        tmp_path,
        signatures=["serving_default"],
        description={"device": "cpu"},
    )
    opened = open_model(version)
    translate_batch, compiler = opened.run_batch, opened.compiler
    for number in range(3):
        assert not compiler.state()[0].any(), number
        expected = translate_batch(tf.constant(TEXTS))
    compiler.wait()
    found = translate_batch(tf.constant(TEXTS))
    assert compiler.state()[0].tolist() == [True]
    assert compiler.state()[1].tolist() == [3]
    np.testing.assert_array_equal(found["translation"], expected["translation"])
    np.testing.assert_allclose(found["score"], expected["score"], atol=1e-4)

    served = model_loading.served(open_model(version, "serve"))
    assert [*served.signatures] == ["serving_default"]
    deadline = time.monotonic() + 60
    while not served.num_programs() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert served.num_programs() == 1


@pytest.mark.long
def test_an_export_of_signatures_without_a_search_has_no_programs(tmp_path):
    """A server would compile them for nothing."""
    version = saved_model.export(
        make_translator(),
        tmp_path,
        signatures=["score"],
        description={"device": "cpu"},
    )
    assert "programs" not in exported_model.read_description(version)
    assert [*model_loading.served(open_model(version, "serve")).signatures] == ["score"]


def test_warmup_compiles_the_usual_programs_first():
    pytest.importorskip("tensorflow_serving")
    sizes = [Size(1, 16, 1), Size(1, 16, 16), Size(1, 256, 1), Size(8, 16, 1)]
    requests = [*warmup.compile_requests(sizes)]
    assert {each.model_spec.signature_name for each in requests} == {"compile"}
    programs = [tf.make_ndarray(each.inputs["program"]) for each in requests]
    assert np.concatenate(programs).tolist() == [0, 3]
