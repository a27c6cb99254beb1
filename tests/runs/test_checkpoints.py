"""Checkpoints: whole or absent, checked, counted, averaged (§6.1)."""

import json
import os
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig, ModelConfig, TrainingConfig
from keras_transformer.model.transformer import Transformer
from keras_transformer.runs import averaging, checkpoints
from keras_transformer.runs.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    RemovedCheckpointError,
    average,
    restore,
    restore_newest,
)
from keras_transformer.runs.model_dir import ModelDir, RunConfig

CONFIG = ModelConfig(vocab_size=13, num_layers=2, d_model=6, d_ff=7, num_heads=2)


def make(seed=0):
    """A model whose every weight is random."""
    model = Transformer(CONFIG)
    draw = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(draw.normal(size=weight.shape))
    return model


def values(model):
    return [weight.numpy() for weight in model.trainable_weights]


def test_every_weight_and_the_optimizer_come_back(tmp_path):
    """The layers of the stacks too, which Keras hides from TensorFlow in a list."""
    model, other = make(1), make(2)
    for each in (model, other):
        each.compile("adam")
        each.optimizer.build(each.trainable_variables)
    model.optimizer.apply(
        [np.ones(w.shape, "float32") for w in model.trainable_weights]
    )
    saved = CheckpointFolder(tmp_path).save(
        17, {"best": 0.5}, model=model, optimizer=model.optimizer
    )
    state = restore(saved, model=other, optimizer=other.optimizer)
    assert (state["best"], state["step"], saved.step) == (0.5, 17, 17)
    for ours, theirs in zip(values(other), values(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(
        other.optimizer.variables, model.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("name", ["tr [1]", "a*b?", "back\\slash", "#ü z"])
def test_a_folder_may_have_any_name(tmp_path, monkeypatch, name):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    saved = CheckpointFolder(os.path.join(name, "run")).save(3, {}, model=make(1))
    model = make()
    restore(saved, model=model)
    for ours, theirs in zip(values(model), values(make(1)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_newest_are_kept(tmp_path):
    folder = CheckpointFolder(tmp_path, keep=2)
    assert folder.latest() is None
    for step in (3, 5, 11):
        folder.save(step, {}, model=make())
    assert [checkpoint.step for checkpoint in folder.list()] == [5, 11]
    assert folder.latest().path.name == "step-00000011"


def test_a_failed_save_leaves_the_earlier_ones(tmp_path, monkeypatch):
    folder = CheckpointFolder(tmp_path, keep=1)
    folder.save(3, {}, model=make())

    def full(*args, **kwargs):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.train.Checkpoint, "write", full)
    with pytest.raises(OSError, match="No space left.*earlier checkpoints are intact"):
        folder.save(5, {}, model=make())
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


@pytest.mark.parametrize("damage", ["flipped", "truncated", "absent"])
def test_damage_is_named(tmp_path, damage):
    saved = CheckpointFolder(tmp_path).save(3, {}, model=make())
    file = saved.path / "checkpoint.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "absent":
        file.unlink()
    else:
        file.write_bytes(content if damage == "flipped" else content[:-1])
    with pytest.raises(ValueError, match="is damaged: checkpoint.data-00000-of-00001"):
        restore(saved, model=make())


def flip_a_byte(checkpoint):
    file = checkpoint.path / "checkpoint.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_the_newest_whole_one_is_used_and_the_damaged_is_named(tmp_path, caplog):
    folder = CheckpointFolder(tmp_path)
    for step in (3, 5, 7):
        folder.save(step, {"best": step / 2}, model=make(seed=step))
    flip_a_byte(folder.list()[2])
    (folder.list()[1].path / "state.json").write_text("{")
    model = make(seed=1)
    checkpoint, state = restore_newest(folder, model=model)
    assert (checkpoint.step, state["best"]) == (3, 1.5)
    for ours, saved in zip(
        model.get_weights(), make(seed=3).get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, saved)
    warnings = [record.getMessage() for record in caplog.records]
    assert ["step-00000007" in warnings[0], "step-00000005" in warnings[1]] == [
        True
    ] * 2
    assert len(folder.list()) == 3


def test_what_was_gone_back_behind_is_dropped_by_the_next_save(tmp_path):
    folder = CheckpointFolder(tmp_path, keep=2)
    for step in (3, 5, 7):
        folder.save(step, {}, model=make())
    folder.save(6, {}, model=make())
    assert [checkpoint.step for checkpoint in folder.list()] == [5, 6]


def test_when_all_are_damaged_nothing_is_loaded_or_deleted(tmp_path):
    folder = CheckpointFolder(tmp_path)
    assert restore_newest(folder, model=make()) is None
    for step in (3, 5):
        flip_a_byte(folder.save(step, {}, model=make()))
    with pytest.raises(ValueError, match="All 2 checkpoints in .* are damaged"):
        restore_newest(folder, model=make())
    assert [checkpoint.step for checkpoint in folder.list()] == [3, 5]


def test_another_format_version_and_a_broken_state_are_named(tmp_path):
    saved = CheckpointFolder(tmp_path).save(3, {}, model=make())
    path = saved.path / "state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "format_version": 99}))
    with pytest.raises(ValueError, match="format version 99; this program reads"):
        restore(saved, model=make())
    path.write_text("{")
    with pytest.raises(ValueError, match="is damaged: state.json"):
        restore(saved, model=make())


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    saved = CheckpointFolder(tmp_path).save(3, {}, model=make())
    for fields in ({"num_layers": 3}, {"d_ff": 11}):
        sizes = {
            "vocab_size": 13,
            "num_layers": 2,
            "d_model": 6,
            "d_ff": 7,
            "num_heads": 2,
        }
        with pytest.raises(ValueError, match="does not fit the model"):
            restore(saved, model=Transformer(ModelConfig(**{**sizes, **fields})))


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints at steps 3, 5 and 11."""
    place = ModelDir(tmp_path / "run")
    place.write_config(
        RunConfig(
            "tiny", CONFIG, TrainingConfig(), DecodingConfig(), "en", "de", "hash"
        )
    )
    for seed, step in enumerate((3, 5, 11)):
        place.checkpoints().save(step, {}, model=make(seed))
    return place


def test_averaging_is_the_mean(run):
    """Against NumPy to 1e-6, as an ordinary checkpoint with the last one's step."""
    summary = averaging.average_run(run.path, last=3)
    assert summary["steps"] == [3, 5, 11]
    expected = np.mean([values(make(seed))[4] for seed in range(3)], axis=0)
    averaged = run.load_model()
    np.testing.assert_allclose(values(averaged)[4], expected, atol=1e-6)
    assert run.choose() == run.checkpoints("averaged").latest()
    assert run.choose().step == 11
    loaded = keras.saving.load_model(run.model_path)
    for ours, theirs in zip(values(loaded), values(averaged), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_averaging_leaves_out_the_first_half_of_a_run(run):
    """Unless told: a short run has few checkpoints, one of its first evaluation."""
    assert averaging.average_run(run.path)["steps"] == [11]
    run.checkpoints().save(6, {}, model=make(5))
    assert averaging.average_run(run.path)["steps"] == [6, 11]


def test_averaging_elsewhere_leaves_the_run(run, tmp_path):
    summary = averaging.average_run(run.path, last=2, output=tmp_path / "elsewhere")
    assert summary["steps"] == [5, 11]
    assert not run.model_path.exists()
    assert run.checkpoints("averaged").latest() is None
    assert run.load_model(summary["path"]).count_params()


@pytest.mark.long
def test_averaging_begins_again_when_a_training_removed_a_checkpoint(run, monkeypatch):
    folder = run.checkpoints()
    folder.keep = 3

    def rotating(checkpoint, **trackables):
        if checkpoint.step == 5 and len(folder.list()) == 3:
            folder.save(13, {}, model=make(3))  # drops step 3
            folder.save(17, {}, model=make(4))  # drops step 5
        return restore(checkpoint, **trackables)

    monkeypatch.setattr(checkpoints, "restore", rotating)
    summary = averaging.average_run(run.path, last=3)
    assert summary["steps"] == [11, 13, 17]
    expected = np.mean([values(make(seed))[4] for seed in (2, 3, 4)], axis=0)
    np.testing.assert_allclose(values(run.load_model())[4], expected, atol=1e-6)


def test_the_program_says_whether_it_averages(run, program_of, capsys):
    average = program_of("bin/average_checkpoints.py")
    assert average(model_dir=run.path, last=2)["steps"] == [5, 11]
    assert "averaged the checkpoints of steps 5, 11 into " in capsys.readouterr().out
    assert average(model_dir=run.path, last=1)["steps"] == [11]
    assert "copied one checkpoint, of step 11, to " in capsys.readouterr().out


def test_checkpoints_that_are_removed_all_the_time_are_not_called_damaged(
    run, monkeypatch
):
    gone = run.checkpoints().list()[0]
    shutil.rmtree(gone.path)
    monkeypatch.setattr(averaging, "choose", lambda *_: [gone])
    with pytest.raises(RemovedCheckpointError, match="step-00000003 was removed in"):
        averaging.average_run(run.path)
    with pytest.raises(RemovedCheckpointError, match="Run the same command again"):
        checkpoints.restore_checked(gone, model=make())


def test_a_checkpoint_vanishes_as_a_whole(tmp_path, monkeypatch):
    """It is renamed before its files are deleted one after another."""
    folder, deleted = CheckpointFolder(tmp_path, keep=1), []
    folder.save(3, {}, model=make())
    rmtree = shutil.rmtree

    def watched(path, **options):
        deleted.append(pathlib.Path(path).name)
        rmtree(path, **options)

    monkeypatch.setattr(shutil, "rmtree", watched)
    folder.save(5, {}, model=make())
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000005"]
    assert deleted and "step-00000003" not in deleted


def test_what_cannot_be_averaged_is_refused(run):
    with pytest.raises(ValueError, match="step-00000003 and step-00000005 are 2 steps"):
        averaging.average_run(run.path, last=3, min_steps_apart=4)
    with pytest.raises(
        ValueError, match="at most the number of checkpoints.*3.*last=4"
    ):
        averaging.average_run(run.path, last=4)
    with pytest.raises(ValueError, match="`last` must be at least 1"):
        averaging.average_run(run.path, last=0)
    with pytest.raises(FileNotFoundError, match="No checkpoint 'latest' in"):
        averaging.choose(ModelDir(run.path / "empty"), None, 5, 1)
    with pytest.raises(ValueError, match="no checkpoints to average"):
        average([], make())


def test_which_weights_are_chosen(run):
    """averaged, best, latest: the first that exists, or what is asked for."""
    assert run.choose().step == 11
    run.checkpoints("best").save(5, {}, model=make())
    assert run.choose().step == 5
    assert run.choose("latest").step == 11
    path = run.checkpoints().list()[0].path
    assert run.choose(str(path)) == Checkpoint(path, 3)
    with pytest.raises(FileNotFoundError, match="No checkpoint 'averaged' in .*run"):
        run.choose("averaged")
    gone = str(path.with_name("step-00000004"))
    with pytest.raises(FileNotFoundError, match="00004. If a training has removed it"):
        run.choose(gone)
    with pytest.raises(FileNotFoundError, match="No model in .*absent"):
        ModelDir("absent").read_config()


def test_a_run_of_another_format_version_is_refused(run):
    values = json.loads(run.config_path.read_text())
    run.config_path.write_text(json.dumps({**values, "format_version": 99}))
    with pytest.raises(ValueError, match="format version 99; this program reads"):
        run.read_config()
    run.config_path.write_text("{")
    with pytest.raises(ValueError, match="config.json is damaged"):
        run.read_config()
