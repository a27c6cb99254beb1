"""Weights that no run has left in a folder are never overwritten."""

import dataclasses
import pathlib
import re
import shutil

import numpy as np
import pytest

from keras_transformer import tokenization
from keras_transformer.model.transformer import Transformer
from keras_transformer.runs import averaging
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training import callbacks, run_checks, run_setup, strategies
from keras_transformer.training.vocabulary_extension import extend_vocabulary
from tests.training.small_runs import config_of, train, weights

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A run of three steps, averaged."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(corpus, folder, config_of(corpus, train_steps=3))
    averaging.average_run(folder)
    return folder


def copy(whole, folder, *names):
    """Copy a part of a run by hand."""
    folder.mkdir()
    for name in names:
        path = whole / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / name)


def write_without_checkpoints(corpus, folder, config=None):
    """Write what import and extension leave."""
    config = config or config_of(corpus)
    tokenizer = tokenization.load(f"{corpus}/tokenizer")
    ModelDir(folder).write(Transformer(config.model), tokenizer, config)


def contents(folder):
    """All files but the lock, which names the process that was refused."""
    return {
        path: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".training.lock"
    }


COPIES = [
    ("config.json", "model.keras"),
    ("config.json", "averaged"),
    ("config.json", "best"),
    ("config.json", "tokenizer", "averaged", "model.keras", "logs"),
    ("config.json", "best", "model.keras", ".training.lock"),
    ("model.keras",),
    ("averaged",),
    ("best", "tokenizer"),
]


@pytest.mark.parametrize("names", COPIES)
def test_a_training_overwrites_no_weights_that_it_did_not_begin_from(
    corpus, whole, tmp_path, names
):
    place = tmp_path / "copied"
    copy(whole, place, *names)
    before = contents(place)
    remedy = f"give --init_checkpoint={place} and another --model_dir."
    if "config.json" not in names:
        remedy = "Use another --model_dir."
    for _ in range(2):  # the first leaves its lock
        with pytest.raises(ValueError, match="no checkpoint to resume .*") as error:
            train(corpus, place)
        assert str(error.value).endswith(remedy)
    with pytest.raises(ValueError, match="training would overwrite them"):
        train(corpus, place, init_checkpoint=str(whole))
    assert contents(place) == before


def test_other_settings_are_refused_for_the_weights_first(corpus, tmp_path):
    write_without_checkpoints(corpus, tmp_path / "larger")
    with pytest.raises(ValueError, match=re.escape("(" + str(tmp_path / "larger"))):
        train(corpus, tmp_path / "larger", config_of(corpus, warmup_steps=9))


@pytest.mark.parametrize("spelling", ["larger", "larger/", "x/../larger", "link"])
def test_a_training_may_replace_the_model_that_it_begins_from(
    corpus, tmp_path, monkeypatch, spelling
):
    monkeypatch.chdir(tmp_path)
    write_without_checkpoints(corpus, "larger")
    pathlib.Path("x").mkdir()
    pathlib.Path("link").symlink_to("larger")
    process = strategies.Process(strategies.make_strategy("one_device"))
    run_checks.check_weights_are_kept(ModelDir("larger"), process, spelling)
    with pytest.raises(ValueError, match="larger holds weights"):
        run_checks.check_weights_are_kept(ModelDir("larger"), process, "x")


def test_a_model_that_its_own_training_begins_from_becomes_a_run(corpus, tmp_path):
    """With a rate of almost nothing, one step leaves it as it was."""
    config = config_of(corpus, train_steps=1, learning_rate_scale=1e-9)
    write_without_checkpoints(corpus, tmp_path, config)
    start = weights(tmp_path, None)
    train(corpus, tmp_path, config, init_checkpoint=str(tmp_path))
    for ours, theirs in zip(weights(tmp_path, None), start, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert train(corpus, tmp_path, config)["steps"] == 1


@pytest.mark.parametrize("names", COPIES[1:5])
def test_an_average_or_a_best_is_no_start_of_a_run_in_its_folder(
    corpus, whole, tmp_path, names
):
    """At the end it would be taken for that of the run."""
    place = tmp_path / "copied"
    copy(whole, place, *names)
    with pytest.raises(ValueError, match="another --model_dir"):
        train(corpus, place, init_checkpoint=str(place))


def test_all_workers_do_what_the_first_decides(corpus, tmp_path):
    """Also one whose folder is empty, because the disk is not shared."""
    process = strategies.Process(strategies.make_strategy("one_device"), 1, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategies.Process, "from_chief", lambda self, value: 1.0)
        context = run_setup.RunContext(
            ModelDir(tmp_path), process, corpus, config_of(corpus), None, print
        )
        context = dataclasses.replace(context, options=run_setup.RunOptions())
        with pytest.raises(ValueError, match="holds weights .on worker 0. and no"):
            run_setup.check(context)


class KilledError(Exception):
    """Ends a run without saving."""


def test_a_run_killed_before_its_first_checkpoint_resumes(
    corpus, tmp_path, monkeypatch
):
    """It has a configuration then, but no weights."""

    def kill(self, step, metrics):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(callbacks.Evaluate, "_keep_best", kill)
        with pytest.raises(KilledError):
            train(corpus, tmp_path, checkpoint_every_steps=100)
    assert ModelDir(tmp_path).config_path.exists()
    assert ModelDir(tmp_path).find_weights() is None
    assert train(corpus, tmp_path)["steps"] == 6


@pytest.mark.long(first=1)
@pytest.mark.parametrize("is_saved", [False, True])
def test_a_run_killed_at_its_first_best_resumes_and_evaluates_again(
    corpus, tmp_path, monkeypatch, is_saved
):
    """It saves a checkpoint first, although none is due."""
    keep_best = callbacks.Evaluate._keep_best

    def kill(self, step, metrics):
        if not is_saved:
            self._best_folder.save = None
        keep_best(self, step, metrics)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(callbacks.Evaluate, "_keep_best", kill)
        with pytest.raises((KilledError, TypeError)):
            train(corpus, tmp_path, checkpoint_every_steps=100)
    run, lines = ModelDir(tmp_path), []
    assert run.choose("latest").step == 3
    assert (run.checkpoints("best").latest() is not None) == is_saved
    train(corpus, tmp_path, lines=lines, checkpoint_every_steps=100)
    evaluated = [line.split(":")[0] for line in lines if line.startswith("validation")]
    assert evaluated == ["validation at step 3", "validation at step 6"]


@pytest.mark.parametrize(
    "names", [("model.keras",), ("averaged",), ("best",), ("checkpoints", "logs")]
)
def test_a_model_is_not_written_over_weights(whole, tmp_path, names):
    """Nor beside weights, which programs would take for those of the model."""
    place = tmp_path / "copied"
    copy(whole, place, *names)
    before = contents(place)
    with pytest.raises(FileExistsError, match="already holds a model. Give another"):
        extend_vocabulary(whole, place, [], num_pieces=0, symbols=["<a>"])
    with pytest.raises(FileExistsError, match="Give another --model_dir"):
        ModelDir(place).check_has_no_model("model_dir")
    assert contents(place) == before
