"""The program that measures a GPU, small and on the CPU."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks.lib import gpu_devices, program_starts, random_models
from keras_transformer import presets


def run(repository, *arguments):
    """Run parts of the program with a small model; return its lines."""
    command = [sys.executable, "benchmarks/gpu.py", "--preset=tiny"]
    done = subprocess.run(
        [*command, "--precisions=float32", "--lines=30", *arguments],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.release
def test_each_part_writes_its_figures_and_another_goes_on_after_a_failure(repository):
    pytest.importorskip("ctranslate2")
    lines = run(
        repository,
        *("files", "search", "--batch_sizes=2", "--repeats=1"),
        "--peer_python=no-such-python",
    )
    (search,) = (each for each in lines if "times_faster" in each)
    assert search["ours_tokens_per_s"] > 0
    assert search["ctranslate2_tokens_per_s"] > 0
    files = [each for each in lines if each["part"] == "files"]
    assert len(files) == 5 and all(each["lines_per_s"] > 0 for each in files)
    assert "no-such-python" in lines[-1]["error"]


@pytest.mark.release
def test_training_is_timed_beside_a_peer_that_may_be_absent(repository):
    _, fixed, mixed, ratio, error = run(
        repository,
        *("train", "--train_presets=tiny", "--train_shapes=4x8", "--train_steps=1"),
        "--peer_python=no-such-python",
    )
    assert (fixed["shape"], mixed["shape"]) == ("4x8", "4x8mixed")
    assert fixed["tokens_per_s"] == pytest.approx(64 / fixed["step_s"], rel=0.01)
    own = mixed["tokens_per_s"] / fixed["tokens_per_s"]
    assert ratio["times_faster"] == pytest.approx(own, abs=0.01)
    assert "no-such-python" in error["error"]


LINES = "import time; print('step 1/2', flush=True); print('other', flush=True); "


def test_a_start_is_timed_to_its_first_and_a_later_step_and_ended():
    command = [sys.executable, "-c", LINES + "print('step 2/2', flush=True); input()"]
    first, last = program_starts.seconds_until(
        command, ["step 1/", "step 2/"], os.environ
    )
    assert 0 < first <= last


def test_a_start_that_ends_before_its_step_is_an_error():
    with pytest.raises(ChildProcessError, match="ended without 'step 2/'"):
        program_starts.seconds_until(
            [sys.executable, "-c", LINES], ["step 1/", "step 2/"], os.environ
        )


@pytest.mark.long
def test_a_copying_model_copies():
    preset = presets.get("base")
    translator = random_models.copying_translator(
        preset.model, preset.decoding, "float32"
    )
    texts = random_models.number_texts(preset.model.vocab_size, 2, 20, 3)
    assert translator(texts) == texts


@pytest.mark.release
def test_a_server_starts_twice_and_compiles_nothing_while_it_answers(repository):
    _, first, second, asked = run(repository, "server", "--requests=12", "--longest=9")
    for start in (first, second):
        assert start["programs"] == start["usual_programs"] == 3
        assert 0 < start["first_answer_s"] < start["all_compiled_s"]
    assert asked["requests"] == 12 and asked["compiled_meanwhile"] == 0
    assert 0 < asked["p50_s"] <= asked["p99_s"]


@pytest.mark.release
def test_exports_for_each_device_answer_alike(repository):
    _, *lines = run(repository, "devices", "--longest=9")
    assert [line["export"] for line in lines] == ["cpu", "gpu"]
    for line in lines:
        assert line["same"] and line["equal"] == 30 and line["bleu"] == 100


def test_different_texts_with_close_scores_are_counted():
    here = [("a b c d e", -1.0), ("a b", -1.0), ("f", -2.0)]
    there = [("a b c d e", -1.004), ("a c", -1.009), ("g", -2.1)]
    found = gpu_devices.described(here, there)
    assert (found["lines"], found["equal"], found["close"]) == (3, 1, 1)
    assert found["largest_difference"] == 0.004
    assert not found["same"] and found["bleu"] < 100
