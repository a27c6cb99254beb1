"""The program that measures a GPU, small and on the CPU."""

import json
import subprocess
import sys

import pytest

from benchmarks.lib import random_models
from keras_transformer import presets


@pytest.mark.long
def test_each_part_writes_its_figures_and_another_goes_on_after_a_failure(repository):
    pytest.importorskip("ctranslate2")
    command = [sys.executable, "benchmarks/gpu.py", "files", "search"]
    small = ["--preset=tiny", "--batch_sizes=2", "--precisions=float32", "--lines=30"]
    done = subprocess.run(
        [*command, *small, "--repeats=1", "--peer_python=no-such-python"],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    (search,) = (each for each in lines if "times_faster" in each)
    assert search["ours_tokens_per_s"] > 0
    assert search["ctranslate2_tokens_per_s"] > 0
    files = [each for each in lines if each["part"] == "files"]
    assert len(files) == 5 and all(each["lines_per_s"] > 0 for each in files)
    assert "no-such-python" in lines[-1]["error"]


@pytest.mark.long
def test_a_copying_model_copies():
    preset = presets.get("base")
    translator = random_models.copying_translator(
        preset.model, preset.decoding, "float32"
    )
    texts = random_models.number_texts(preset.model.vocab_size, 2, 20, 3)
    assert translator(texts) == texts
