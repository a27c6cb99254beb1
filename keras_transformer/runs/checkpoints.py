"""Checkpoints: written atomically, checked when read, averaged (§6.1)."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from keras_transformer import atomic_files, json_files
from keras_transformer.config import check_at_least
from keras_transformer.model import lora
from keras_transformer.model.transformer import Transformer

FORMAT_VERSION = 1
_PREFIX = "checkpoint"
_STATE = "state.json"
_FOLDER = re.compile(r"step-(\d+)")


class DamagedCheckpointError(ValueError):
    """The files of a checkpoint differ from what was written."""


class RemovedCheckpointError(FileNotFoundError):
    """A checkpoint was removed after it was chosen."""


class Checkpoint(NamedTuple):
    """A checkpoint on disk."""

    # A folder; or the file `model.keras` of an imported model, which has no state.
    path: pathlib.Path
    # Optimizer steps done.
    step: int

    @property
    def state(self) -> dict[str, Any]:
        """The state saved beside the variables, such as the best metric.

        Raises:
            DamagedCheckpointError: If it cannot be read.
            RemovedCheckpointError: If the folder is gone.
            ValueError: If it has another format version.
        """
        if self.path.is_file():
            return {}
        try:
            state = json.loads((self.path / _STATE).read_text(encoding="utf-8"))
            version = state["format_version"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.check_is_there()
            raise DamagedCheckpointError(
                f"{self.path} is damaged: {_STATE}: {error}. Delete the folder to use "
                "the checkpoint before it."
            ) from error
        if version != FORMAT_VERSION:
            raise ValueError(
                f"{self.path} has format version {version}; this program reads version "
                f"{FORMAT_VERSION}. Use the release that wrote it."
            )
        return state

    def check_is_there(self) -> None:
        """Raise RemovedCheckpointError if the folder is gone."""
        if not self.path.is_dir():
            raise RemovedCheckpointError(
                f"{self.path} was removed in the meantime, by a training that is "
                "running or by hand. Run the same command again."
            )


class CheckpointFolder:
    """A folder of checkpoints, one sub-folder per step.

    Args:
        path: The folder; the first save makes it.
        keep: Number of newest checkpoints to keep; None: all.
    """

    def __init__(self, path: str | os.PathLike, keep: int | None = None):
        if keep is not None:
            check_at_least("keep", keep, 1)
        self.path = pathlib.Path(path)
        self.keep = keep

    def list(self) -> list[Checkpoint]:
        """Return the checkpoints, oldest first."""
        if not self.path.is_dir():
            return []
        matches = ((_FOLDER.fullmatch(p.name), p) for p in self.path.iterdir())
        found = [Checkpoint(path, int(match[1])) for match, path in matches if match]
        return sorted(found, key=lambda checkpoint: checkpoint.step)

    def latest(self) -> Checkpoint | None:
        """Return the newest checkpoint, or None."""
        return max(self.list(), key=lambda found: found.step, default=None)

    def path_of(self, step: int) -> pathlib.Path:
        """Return the path of the checkpoint of a step, whether or not it exists."""
        return self.path / f"step-{step:08d}"

    def save(self, step: int, state: dict[str, Any], **trackables: Any) -> Checkpoint:
        """Write a checkpoint atomically, then remove the oldest beyond `keep`.

        Checkpoints of later steps are removed too: they were damaged, so the run that
        writes this one had resumed from an earlier step.

        Args:
            step: Optimizer steps done.
            state: JSON values to save beside the variables.
            **trackables: What to save, such as `model` and `optimizer`.

        Raises:
            OSError: If the disk is full or cannot be written; earlier ones stay.
        """
        path = self.path_of(step)
        with atomic_files.atomic_folder(path) as aside:
            _write_variables(aside, trackables)
            sums = {
                name.name: atomic_files.sha256_of(name)
                for name in sorted(aside.iterdir())
            }
            content = dict(state, format_version=FORMAT_VERSION, step=step, sha256=sums)
            json_files.write(aside / _STATE, content)
        if self.keep is not None:
            found = self.list()
            until_now = [old for old in found if old.step <= step]
            for old in found:
                if old not in until_now[-self.keep :]:
                    _remove(old)
        return Checkpoint(path, step)


def _remove(checkpoint: Checkpoint) -> None:
    """Delete a checkpoint in such a way that readers never see a part of it."""
    try:
        with atomic_files.folder_aside(checkpoint.path) as aside:
            os.rename(checkpoint.path, aside)
    except OSError:  # a full disk has no room for another name
        shutil.rmtree(checkpoint.path, ignore_errors=True)


def restore(checkpoint: Checkpoint, **trackables: Any) -> dict[str, Any]:
    """Load a checkpoint after checking that its files are intact.

    Args:
        checkpoint: The checkpoint to load.
        **trackables: Objects to load it into, each of them built. Other contents of the
            checkpoint are ignored.

    Returns:
        The state saved beside the variables.

    Raises:
        DamagedCheckpointError: If a file differs from what was written.
        ValueError: If the checkpoint is of another model.
    """
    check_files(checkpoint)
    return restore_checked(checkpoint, **trackables)


def check_files(checkpoint: Checkpoint) -> None:
    """Raise DamagedCheckpointError if a file differs from what was written."""
    for name, expected in checkpoint.state["sha256"].items():
        file = checkpoint.path / name
        try:
            is_intact = atomic_files.sha256_of(file) == expected
        except FileNotFoundError:
            is_intact = False
        if not is_intact:
            checkpoint.check_is_there()
            raise DamagedCheckpointError(
                f"{checkpoint.path} is damaged: {name} is absent or was changed "
                "after it was written. Delete the folder to use the checkpoint before "
                "it."
            )


def restore_checked(checkpoint: Checkpoint, **trackables: Any) -> dict[str, Any]:
    """Load a checkpoint after `check_files`; see `restore`."""
    try:
        with atomic_files.without_pattern(checkpoint.path) as folder:
            saved = os.path.join(folder, _PREFIX)
            status = tf.train.Checkpoint(**trackables).read(saved)
            status.assert_existing_objects_matched().expect_partial()
    except (AssertionError, ValueError, tf.errors.NotFoundError) as error:
        checkpoint.check_is_there()
        raise ValueError(
            f"{checkpoint.path} does not fit the model: {str(error).splitlines()[0]}"
        ) from error
    return checkpoint.state


def restore_newest(
    folder: CheckpointFolder, **trackables: Any
) -> tuple[Checkpoint, dict[str, Any]] | None:
    """Load the newest intact checkpoint; log a warning for each damaged one.

    Args:
        folder: The folder of the checkpoints.
        **trackables: As in `restore`.

    Returns:
        The checkpoint and the state saved with it; None if there is no checkpoint.

    Raises:
        DamagedCheckpointError: If all are damaged; nothing is deleted.
        ValueError: If they are of another model.
    """
    found = folder.list()
    for checkpoint in reversed(found):
        try:
            return checkpoint, restore(checkpoint, **trackables)
        except DamagedCheckpointError as error:
            logging.warning("%s Trying the one before.", error)
    if found:
        raise DamagedCheckpointError(
            f"All {len(found)} checkpoints in {folder.path} are damaged, the newest "
            f"{found[-1].path.name}. Restore them from a copy, or train again into "
            "another --model_dir."
        )
    return None


def average(checkpoints: Sequence[Checkpoint], model: Transformer) -> Transformer:
    """Return a model with the mean of checkpoints, summed in float32, §6.1.

    Args:
        checkpoints: At least one, all of this model.
        model: Takes the weights of each. The result is this model, or a new one without
            adapters if it has some.

    Raises:
        ValueError: If there is no checkpoint, or one is damaged or of another model.
    """
    if not checkpoints:
        raise ValueError("There are no checkpoints to average.")
    weights = lora.weights_without_adapters(model)
    sums = [np.zeros(weight.shape, np.float32) for weight in weights]
    for checkpoint in checkpoints:
        restore(checkpoint, model=model)
        merged = lora.merged(model)
        for total, weight in zip(sums, merged.weights, strict=True):
            total += weight.numpy()
    merged.set_weights([total / len(checkpoints) for total in sums])
    return merged


def _write_variables(folder: pathlib.Path, trackables: dict[str, Any]) -> None:
    try:
        tf.train.Checkpoint(**trackables).write(str(folder / _PREFIX))
    except tf.errors.OpError as error:
        raise OSError(
            f"Could not write a checkpoint into {folder.parent.parent}: "
            f"{atomic_files.reason(error)}. Free some space or check the folder's "
            "permissions; earlier checkpoints are intact."
        ) from error
    with contextlib.suppress(FileNotFoundError):
        (folder / "checkpoint").unlink()
