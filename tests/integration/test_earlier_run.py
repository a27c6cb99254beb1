"""Files of an earlier version: a corpus, a run, `model.keras` and an export.

`earlier_run/run.tar.xz` was made by the programs of commit 6b1d69c, which came before
the package was divided into folders: 1,500 lines of number words prepared with
--vocab_size=320 into `data`, `FLAGS` and --train_steps=600 trained into `model`, then
averaged and exported. `expected.json` has the answers that the same commit gave.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tarfile

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.opening import open_model
from keras_transformer.runs.model_dir import ModelDir
from tests.searchers import load_searcher

EARLIER = pathlib.Path(__file__).parent / "earlier_run"
FLAGS = [
    "--preset=tiny",
    "--num_layers=2",
    "--d_model=32",
    "--num_heads=2",
    "--d_ff=64",
    "--dropout_rate=0.05",
    "--label_smoothing=0",
    "--tokens_per_batch=600",
    "--max_length=40",
    "--warmup_steps=100",
    "--learning_rate_scale=0.3",
    "--checkpoint_every_steps=300",
    "--evaluate_every_steps=300",
    "--bleu_sentences=0",
]


@pytest.fixture(scope="module")
def expected():
    return json.loads((EARLIER / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("earlier_run")
    with tarfile.open(EARLIER / "run.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def run(repository, program, *arguments):
    subprocess.run(
        [sys.executable, str(repository / "bin" / program), *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
    )


@pytest.mark.long(first=1)
@pytest.mark.parametrize("of_export", [False, True])
def test_an_earlier_run_and_its_export_translate_the_same(folder, expected, of_export):
    wanted = expected["translations"]
    sources = [each["source"] for each in wanted]
    if of_export:
        found = open_model(folder / "export" / "1").translate(sources)
    else:
        found = load_searcher(folder / "model").translate(sources)
    assert [each.text for each in found] == [each["translation"] for each in wanted]
    np.testing.assert_allclose(
        [each.score for each in found], [each["score"] for each in wanted], atol=1e-4
    )


def test_an_earlier_model_keras_has_the_weights_of_its_checkpoint(folder):
    """Averaging had replaced the weights of the best step."""
    loaded = kt.load_model(folder / "model" / "model.keras")
    restored = ModelDir(folder / "model").load_model("averaged")
    for weight, other in zip(loaded.weights, restored.weights, strict=True):
        np.testing.assert_array_equal(weight, other, err_msg=weight.path)


@pytest.mark.long
def test_an_earlier_run_has_the_same_scores(repository, folder, expected, tmp_path):
    report = tmp_path / "report.json"
    run(
        repository,
        "evaluate.py",
        f"--model_dir={folder}/model",
        f"--data_dir={folder}/data",
        "--split=test",
        f"--report={report}",
    )
    found = json.loads(report.read_text(encoding="utf-8"))
    for name, value in expected["evaluation"].items():
        assert found[name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.long
def test_an_earlier_run_resumes_as_it_would_have(
    repository, folder, expected, tmp_path
):
    """30 more steps: shuffling, dropout masks and optimizer go on where they were."""
    model = shutil.copytree(folder / "model", tmp_path / "model")
    run(
        repository,
        "train.py",
        *FLAGS,
        f"--data_dir={folder}/data",
        f"--model_dir={model}",
        "--train_steps=630",
    )
    last = model / "checkpoints" / "step-00000630" / "state.json"
    state = json.loads(last.read_text(encoding="utf-8"))
    wanted = expected["validation_nll_at_step_630"]
    assert state["best"] == pytest.approx(wanted, rel=1e-3)
    card = (model / "README.md").read_text(encoding="utf-8")
    assert "| steps | 630 |" in card and "## Data" in card
    for unknown in ("| began |", "| tokens, source and target |", "None"):
        assert unknown not in card
