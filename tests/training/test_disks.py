"""Disks that fill up and folders that cannot be written, while a run is saved."""

import os
import subprocess

import numpy as np
import pytest

from keras_transformer.runs import checkpoints
from keras_transformer.runs.model_dir import ModelDir
from tests.training.small_runs import config_of, train, weights


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB, for which one must be root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here: that takes root")
    yield folder
    # Lazily: a failed test holds files open, and must leave no file system behind.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.long
def test_a_full_disk_stops_the_run_and_leaves_the_last_good_checkpoint(
    corpus, small_disk
):
    config = config_of(corpus, train_steps=500)
    with pytest.raises(OSError, match="(?i)no space left on device|free some space"):
        train(
            corpus,
            small_disk / "run",
            config,
            checkpoint_every_steps=1,
            keep_checkpoints=400,
            evaluate_every_steps=500,
        )
    newest = ModelDir(small_disk / "run").checkpoints().latest()
    assert newest.step > 1
    assert all(np.all(np.isfinite(weight)) for weight in weights(small_disk / "run"))
    # Nothing half-written stands beside it.
    names = {path.name for path in newest.path.parent.iterdir()}
    assert all(name.startswith("step-") for name in names)
    for checkpoint in ModelDir(small_disk / "run").checkpoints().list():
        checkpoints.restore(checkpoint)


@pytest.mark.long
def test_a_folder_that_cannot_be_written_is_named_and_stays_as_it_is(
    corpus, small_disk
):
    train(corpus, small_disk / "run", config_of(corpus, train_steps=3))
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(remount, check=True)
    with pytest.raises(OSError, match="Read-only file system"):
        train(corpus, small_disk / "run")
    assert ModelDir(small_disk / "run").checkpoints().latest().step == 3
    weights(small_disk / "run")
