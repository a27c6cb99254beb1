"""The programs that time training, search and program starts, at tiny sizes."""

import importlib.util
import json
import math
import shlex
import shutil
import subprocess
import sys

import pytest

from benchmarks import start_parts
from benchmarks.lib import program_starts
from keras_transformer import presets
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig
from tests.small_models import LINES, make_translator

SMALL = ("--preset=tiny", "--num_layers=1", "--d_model=6", "--d_ff=7", "--num_heads=2")


def run(repository, program, *arguments):
    return subprocess.run(
        [sys.executable, repository / "benchmarks" / program, *SMALL, *arguments],
        capture_output=True,
        text=True,
        cwd="/",
    )


def line_of(ended):
    assert ended.returncode == 0, ended.stderr[-2000:]
    (line,) = ended.stdout.splitlines()
    return json.loads(line)


@pytest.mark.release
def test_a_training_step_is_timed_and_counted(repository):
    """The FLOP of a pair, which the program gets from `model.cost`, counted by hand.

    Per token: projections 2 * 4 * 36 = 288, FFN 2 * 2 * 42 = 168, attention 24 per key.
    Encoder 5 * (456 + 5 * 24) = 2880; decoder self-attention 7 * (288 + 7 * 24) = 3192,
    cross-attention 7 * (144 + 5 * 24) + 5 * 144 = 2568, FFN 7 * 168 = 1176; logits
    7 * 2 * 6 * 13 = 1092. The sum of 10,908, times 3 for forward and backward pass,
    times 3 rows is 98,172.
    """
    ended = run(
        repository,
        "train_step.py",
        *("--vocab_size=13", "--rows=3", "--source_length=5", "--target_length=7"),
        *("--steps=5", "--label_smoothing=0.2", "--precision=mixed_bfloat16"),
    )
    line = line_of(ended)
    assert line["benchmark"] == "train_step" and line["steps"] == 5
    assert line["gflop"] == pytest.approx(98_172e-9, rel=1e-4)
    assert line["matmul_dtype"] == "bfloat16" and line["jit_compile"] is False
    assert line["tokens_per_s"] == pytest.approx(36 / line["median_step_s"], rel=1e-3)
    assert line["fit_step_s"] == pytest.approx(line["fit_s"] / 5, rel=1e-3)
    rate = line["gflop"] / line["median_step_s"] / line["matmul_gflops"]
    assert line["share_of_matmul"] == pytest.approx(rate, rel=0.01)


@pytest.mark.release
@pytest.mark.parametrize("calls_at_once", [1, 2])
def test_a_search_is_timed_and_its_scores_are_checked(repository, calls_at_once):
    ended = run(
        repository,
        "decode.py",
        *("--vocab_size=331", "--batch_size=4", "--source_length=5", "--steps=11"),
        *("--repeats=3", "--beam_size=2", f"--calls_at_once={calls_at_once}"),
    )
    line = line_of(ended)
    assert line["benchmark"] == "decode" and line["beam_size"] == 2
    assert line["mean_output_tokens"] == 11 and line["repeats"] == 3
    assert line["tokens_per_s"] == pytest.approx(44 / line["median_call_s"], rel=1e-3)
    assert line["largest_score_difference"] < 1e-3
    assert line["calls_at_once"] == calls_at_once
    assert line["first_call_s"] > line["max_call_s"]


@pytest.mark.release
def test_exports_are_compared(repository, small_export, tmp_path):
    """An export and its copy."""
    shutil.copytree(small_export, tmp_path / "2")
    (tmp_path / "text").write_text("\n".join(LINES) + "\n")
    ended = subprocess.run(
        [
            *(sys.executable, repository / "benchmarks" / "fast_models.py"),
            f"--saved_models={small_export},{tmp_path / '2'}",
            *(f"--source={tmp_path / 'text'}", f"--reference={tmp_path / 'text'}"),
            *("--rounds=2", "--sentences=3"),
        ],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    first, second, last = map(json.loads, ended.stdout.splitlines())
    assert last["benchmark"] == "fast_models" and last["lines"] == len(LINES)
    assert first["saved_model"] == str(small_export) and first["preset"] == "tiny"
    for key in ("sacrebleu", "megabytes", "weights_megabytes", "shortlist"):
        assert first[key] == second[key]
    assert first["megabytes"] > first["weights_megabytes"] > 0
    for line in (first, second):
        assert 0 < line["min_lines_per_s"] <= line["median_lines_per_s"]
        assert 0 < line["p50_s"] <= line["p99_s"]


@pytest.mark.release
def test_a_mixed_batch_is_timed_together_with_its_parts(repository):
    """Separate length groups have 8 * 5 + 200 positions instead of 9 * 200."""
    ended = subprocess.run(
        [
            *(sys.executable, repository / "benchmarks" / "mixed_lengths.py"),
            *("--short_texts=8", "--short_length=5", "--long_length=200"),
            *("--steps=3", "--beam_size=2", "--repeats=3"),
        ],
        capture_output=True,
        text=True,
        cwd="/",
    )
    line = line_of(ended)
    assert line["benchmark"] == "mixed_lengths" and line["preset"] == "tiny"
    ratio = line["mixed_s"] / (line["short_s"] + line["long_s"])
    assert line["mixed_over_sum"] == pytest.approx(ratio, rel=1e-3)
    assert 0 < line["min_mixed_over_sum"] <= line["max_mixed_over_sum"]


@pytest.mark.release
def test_growth_is_computed_from_the_results_of_the_programs(repository):
    sizes = shlex.join([*SMALL, "--vocab_size=331"])
    ended = subprocess.run(
        [
            *(sys.executable, repository / "benchmarks" / "scaling.py"),
            *("--steps=7,11", "--rows=3,5"),
            f"--search={sizes} --source_length=5 --batch_size=1 --repeats=1",
            f"--training={sizes} --source_length=5 --target_length=6 --steps=1",
        ],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    *lines, last = map(json.loads, ended.stdout.splitlines())
    kinds = [line["benchmark"] for line in lines]
    assert kinds == ["decode"] * 2 + ["train_step"] * 2
    short, long = (line["median_call_s"] for line in lines[:2])
    grown = math.log(long / short) / math.log(11 / 7)
    assert last["search_exponent"] == pytest.approx(grown, abs=0.01, rel=0.01)
    small, large = (line["peak_megabytes"] for line in lines[2:])
    assert last["training_megabytes"] == {"33": small, "55": large}
    (added,) = last["megabytes_a_token"]
    assert added == pytest.approx((large - small) / 22, rel=0.01)


@pytest.mark.release
def test_starts_are_timed_until_the_first_result(repository):
    """The parts of a start are measured in other processes."""
    ended = run(
        repository,
        "startup.py",
        *("--vocab_size=331", "--source_length=5", "--steps=7", "--repeats=1"),
        "--tokens_per_batch=300",
    )
    line = line_of(ended)
    assert line["benchmark"] == "startup" and line["num_parameters"] == 2672
    for kind in ("model_dir", "saved_model", "train"):
        assert line[f"median_{kind}_result_s"] > 1 < line[f"median_{kind}_cpu_s"]
    for kind in ("model_dir", "saved_model"):
        first = line[f"median_{kind}_first_call_s"]
        assert first > line[f"median_{kind}_later_call_s"] > 0
        assert line[f"median_{kind}_imports_s"] > line[f"median_{kind}_load_s"] > 0
    assert line["median_model_dir_trace_s"] > 0
    assert "median_saved_model_trace_s" not in line


def test_a_start_without_a_result_shows_the_standard_error():
    code = "import sys; print('other'); sys.exit('no model')"
    start = program_starts.Start(
        [sys.executable, "-c", code], lambda line: line == "answer"
    )
    with pytest.raises(ChildProcessError, match="gave no result.*\n?.*no model"):
        program_starts.first_result(start)


def test_a_start_is_killed_after_its_result():
    code = "import time; print('one', flush=True); print(2, flush=True); time.sleep(60)"
    start = program_starts.Start(
        [sys.executable, "-c", code], lambda line: line == "2\n"
    )
    seconds, cpu_seconds, line = program_starts.first_result(start)
    assert 0 < cpu_seconds < 30 > seconds and line == "2\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 7, "source_length": 11}, "--steps must be at least --source_length"),
        ({"preset": "parsing_tiny"}, "--preset=parsing_tiny is for parsing, but this"),
        ({"timed": "model"}, "--timed must be among model_dir, saved_model, train."),
    ],
)
def test_what_cannot_be_timed_is_rejected(program_of, arguments, message):
    programs = ["decode", "startup"][arguments.keys() == {"timed"} :]
    for program in programs:
        with pytest.raises(ValueError, match=message):
            program_of(f"benchmarks/{program}.py")(**{"preset": "tiny", **arguments})


@pytest.mark.release
def test_a_file_is_timed_beside_ctranslate2(repository, tmp_path):
    place = ModelDir(tmp_path / "model")
    translator = make_translator()
    model, tokenizer = translator.model, translator.tokenizer
    parts = presets.get("tiny").training, translator.decoding, "en", "de"
    config = RunConfig("tiny", model.config, *parts, tokenizer.fingerprint)
    place.write(model, tokenizer, config)
    (tmp_path / "text").write_text("\n".join(LINES) + "\n")
    ended = subprocess.run(
        [
            *(sys.executable, repository / "benchmarks" / "translate_file.py"),
            *(f"--model_dir={place.path}", f"--input={tmp_path / 'text'}"),
            *("--lines=200", "--rounds=1", "--programs=saved_model,ctranslate2_int8_1"),
        ],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    *runs, own, peer, result = map(json.loads, ended.stdout.splitlines())
    assert [[*run][2] for run in runs] == ["few", "all"] * 2
    assert (own["program"], peer["program"]) == ("saved_model", "ctranslate2_int8_1")
    assert own.keys() == peer.keys() >= {"median_file_s", "start_s", "cores_busy"}
    assert result["lines"] == 200
    ratio = own["median_lines_per_s"] / peer["median_lines_per_s"]
    assert result["times_ctranslate2_int8"] == pytest.approx(ratio, rel=0.01)
    assert "times_ctranslate2_float32" not in result


def run_start_parts(repository, *arguments):
    return subprocess.run(
        [sys.executable, repository / "benchmarks" / "start_parts.py", *arguments],
        capture_output=True,
        text=True,
        cwd="/",
    )


@pytest.mark.long
def test_start_parts_prints_its_help(repository):
    ended = run_start_parts(repository, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert start_parts.__doc__.strip() in ended.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: kind, folder"),
        (["model", "runs/my"], "argument kind: invalid choice: 'model'"),
    ],
)
def test_start_parts_names_wrong_arguments(repository, arguments, message):
    ended = run_start_parts(repository, *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--model_dir is needed."),
        (
            ["--model_dir=a", "--input=b"],
            "benchmarks/server_load.py needs locust: install keras_transformer[load].",
        ),
    ],
)
def test_a_load_that_cannot_be_made_is_rejected(repository, arguments, message):
    if message.startswith("bench") and importlib.util.find_spec("locust"):
        pytest.skip("Locust is installed")
    ended = subprocess.run(
        [sys.executable, repository / "benchmarks" / "server_load.py", *arguments],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"server_load.py: {message}"
