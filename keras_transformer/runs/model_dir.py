"""The folder of a run: configuration, tokenizer, checkpoints and model."""

from __future__ import annotations

import concurrent.futures
import math
import os
import pathlib
import shutil
import tempfile
import zipfile
from typing import Any

import keras
import tensorflow as tf

from keras_transformer import atomic_files, json_files, tasks, tokenization
from keras_transformer.layers.initialization import skip_weight_init
from keras_transformer.model import lora
from keras_transformer.model.transformer import Transformer
from keras_transformer.runs.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    check_files,
    restore_checked,
)
from keras_transformer.runs.run_config import FORMAT_VERSION, RunConfig

# Folders that may hold the weights to use, in order of preference.
CHOICES = ("averaged", "best", "latest")

# Bytes that `model.keras` needs for a variable beside its values: 1,300 to 3,100 of
# models with one layer and with six.
_FILE_OVERHEAD = 4096


class ModelDir:
    """The paths and files of a run.

    Args:
        path: The folder; it need not exist yet.

    Raises:
        ValueError: If `path` is a URL.

    Examples:
        >>> run = kt.model_dir.ModelDir("runs/my")
        >>> run.read_config().preset
        'tiny'
    """

    def __init__(self, path: str | os.PathLike):
        atomic_files.check_is_local(path)
        self.path = pathlib.Path(path)
        self.config_path = self.path / "config.json"
        self.tokenizer_path = self.path / "tokenizer"
        # Vocabulary of tree symbols; only parsers have it.
        self.labels_path = self.path / tasks.LABELS_FILE
        self.model_path = self.path / "model.keras"
        # The model card.
        self.card_path = self.path / "README.md"
        self.log_path = self.path / "logs"
        # Made by bin/make_shortlist.py.
        self.shortlist_path = self.path / "shortlist.npz"

    def checkpoints(self, kind: str = "checkpoints") -> CheckpointFolder:
        """Return the folder "checkpoints", "best" or "averaged"."""
        keep = None if kind == "checkpoints" else 1
        return CheckpointFolder(self.path / kind, keep=keep)

    def write_config(self, config: RunConfig) -> None:
        """Write `config.json`."""
        json_files.write(self.config_path, config.to_json())

    def check_is_run(self) -> None:
        """Raise FileNotFoundError unless the folder has a configuration."""
        if not self.config_path.is_file():
            raise FileNotFoundError(
                f"No model in {self.path}: it has no config.json. Train first with "
                f"bin/train.py --model_dir={self.path}, or correct --model_dir."
            )

    def read_config(self) -> RunConfig:
        """Read `config.json`.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it cannot be read, or has another format version.
        """
        self.check_is_run()
        remedy = "train again into another --model_dir"
        return RunConfig.from_json(
            json_files.read(self.config_path, FORMAT_VERSION, remedy)
        )

    def choose(self, checkpoint: str | None = None) -> Checkpoint:
        """Find the weights to use.

        Args:
            checkpoint: "averaged", "best", "latest", or the path of a checkpoint. None:
                the first of these that exists, except an average that is older than the
                latest checkpoint; `model.keras` if there is no checkpoint.

        Raises:
            FileNotFoundError: If there is no such checkpoint.
        """
        newest = self.checkpoints().latest()
        for choice in CHOICES if checkpoint is None else (checkpoint,):
            if choice == "latest":
                found = newest
            elif choice in CHOICES:
                found = self.checkpoints(choice).latest()
            else:
                found = _checkpoint_at(pathlib.Path(choice))
            is_old = found and newest and found.step < newest.step
            if found and not (checkpoint is None and choice == "averaged" and is_old):
                return found
        is_imported = checkpoint is None and newest is None
        is_named = checkpoint == str(self.model_path)
        if (is_imported or is_named) and self.model_path.is_file():
            return Checkpoint(self.model_path, 0)
        if checkpoint and checkpoint not in CHOICES:
            raise FileNotFoundError(
                f"No checkpoint {checkpoint}. If a training has removed it in the "
                "meantime, run the same command again; else correct --checkpoint."
            )
        wanted = f"No checkpoint {checkpoint!r}" if checkpoint else "No checkpoint"
        raise FileNotFoundError(
            f"{wanted} in {self.path}. Train first with "
            f"bin/train.py --model_dir={self.path}, or pass --checkpoint."
        )

    def find_weights(self) -> pathlib.Path | None:
        """Return the path of weights in the folder, of checkpoints first; or None."""
        for kind in ("checkpoints", "averaged", "best"):
            if found := self.checkpoints(kind).latest():
                return found.path
        return self.model_path if self.model_path.exists() else None

    def load_tokenizer(self) -> Any:
        """Load the tokenizer that the model was trained with."""
        return tokenization.load(self.tokenizer_path)

    def told(
        self,
        tokenizer: Any,
        languages: tuple[str | None, str | None],
        config: RunConfig | None = None,
    ) -> Any:
        """Return the run's tokenizer for some languages.

        Args:
            tokenizer: From `load_tokenizer`.
            languages: Codes of source and target language; None: the one chosen at the
                model's import, or the run's `default_language`.
            config: The run's configuration; None: it is read if it is needed.

        Raises:
            ValueError: If the model has no such language.
        """
        source, target = languages
        if target is None and tokenizer.language_tokens:
            target = (config or self.read_config()).default_language
        return tokenizer.with_languages(source, target)

    def load_model(
        self,
        checkpoint: str | None = None,
        precision: str | None = None,
        config: RunConfig | None = None,
    ) -> Transformer:
        """Load the model with the weights that `choose` finds.

        Args:
            checkpoint: As in `choose`.
            precision: Name of a Keras dtype policy; None: the one used in training.
            config: The run's configuration; None: it is read.
        """
        config = config or self.read_config()
        chosen = self.choose(checkpoint)
        with skip_weight_init():
            if chosen.path == self.model_path:
                model = keras.saving.load_model(chosen.path, compile=False)
            else:
                model = _restored(chosen, config)
            if precision in (None, config.precision):
                return model
            recast = Transformer(config.model, dtype=precision)
            recast.set_weights(model.get_weights())
            return recast

    def check_has_no_model(self, flag: str) -> None:
        """Raise an error unless a model can be written here; `flag` names the folder.

        Raises:
            FileExistsError: If there is a model.
            NotADirectoryError: If it is a file.
        """
        atomic_files.check_folder(self.path)
        if self.config_path.exists() or self.find_weights():
            raise FileExistsError(
                f"{self.path} already holds a model. Give another --{flag}."
            )

    def write(self, model: Transformer, tokenizer: Any, config: RunConfig) -> None:
        """Write a model that has no checkpoints into a new folder."""
        self.path.mkdir(parents=True, exist_ok=True)
        tokenizer.save(self.tokenizer_path)
        self.save_model(model)
        self.write_config(config)  # last: without it there is no model

    def save_model(self, model: Transformer) -> None:
        """Write `model.keras`, for `keras.saving.load_model`."""
        with atomic_files.folder_aside(self.model_path) as folder:
            aside = folder / self.model_path.name
            with atomic_files.naming(self.model_path):
                _check_disk_space(folder, model)
            _save_zipped(model, folder / "model", aside)
            os.replace(aside, self.model_path)

    def sweep(self) -> None:
        """Delete unfinished files of killed trainings; call it only while none runs."""
        for kind in ("checkpoints", "best", "averaged"):
            atomic_files.sweep(self.path / kind, ".step-*")
        for path in (self.model_path, self.tokenizer_path):
            atomic_files.sweep(self.path, f".{path.name}.*")
        # Only trainings write these, so they need no locks of their own.
        for kind in ("checkpoints", "best"):
            for left in (self.path / kind).glob(".step-*"):
                shutil.rmtree(left, ignore_errors=True)
        for path in (self.config_path, self.labels_path, self.card_path):
            for left in self.path.glob(f".{path.name}.*"):
                left.unlink()


def load_model(path: str | os.PathLike) -> Transformer:
    """Load a model with its weights.

    Args:
        path: A file that Keras saved, such as `model.keras`: the model is compiled if
            it was when it was saved. Or the folder of a run: the model has the weights
            that `ModelDir.choose` finds, and is not compiled.

    Raises:
        FileNotFoundError: If the folder holds no model.
        ValueError: If the file is absent or not a Keras model.

    Examples:
        >>> model = kt.load_model("runs/my")
        >>> model.config.num_layers
        2
    """
    if pathlib.Path(path).suffix == ".keras":
        return keras.saving.load_model(path)
    return ModelDir(path).load_model()


def _check_disk_space(folder: pathlib.Path, model: Transformer) -> None:
    """Raise OSError if the disk has no room to save a model.

    Without room, h5py 3.14 may end the process.
    """
    optimizer = getattr(model, "optimizer", None)  # absent before `compile`
    variables = [*model.variables, *(optimizer.variables if optimizer else ())]
    size = sum(
        math.prod(variable.shape) * tf.as_dtype(variable.dtype).size + _FILE_OVERHEAD
        for variable in variables
    )
    with tempfile.TemporaryFile(dir=folder) as file:
        # Twice: as Keras's folder, and as the file made of it.
        os.posix_fallocate(file.fileno(), 0, 2 * size)


def _save_zipped(model: Transformer, folder: pathlib.Path, path: pathlib.Path) -> None:
    """Save a model into a folder, and the folder as a .keras file.

    Keras itself writes a .keras file from copies of all weights in memory.
    """
    keras.saving.save_model(model, folder, zipped=False)
    with zipfile.ZipFile(path, "w") as archive:
        for file in filter(pathlib.Path.is_file, sorted(folder.rglob("*"))):
            archive.write(file, file.relative_to(folder))


def _restored(chosen: Checkpoint, config: RunConfig) -> Transformer:
    """Return the model of a run with the weights of a checkpoint."""
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        # Checking 250 MB takes as long as building the model.
        checked = beside.submit(check_files, chosen)
        model = Transformer(config.model, dtype=config.precision)
        if "averaged_steps" not in chosen.state:  # an average has no adapters
            lora.add_adapters(model, config.training.lora_rank)
        checked.result()
    restore_checked(chosen, model=_layers(model))
    return lora.merged(model)


def _layers(model: Transformer) -> tf.train.Checkpoint:
    """Return a checkpoint object of the model's layers, without its optimizer.

    If the model itself were restored, TensorFlow would load a saved optimizer's state
    into the next optimizer that is compiled.
    """
    layers = {
        name: value
        for name, value in vars(model).items()
        if isinstance(value, keras.layers.Layer)
    }
    return tf.train.Checkpoint(**layers)


def _checkpoint_at(path: pathlib.Path) -> Checkpoint | None:
    """Return the checkpoint with this folder, or with this prefix of its files."""
    for folder in (path, path.parent):
        for found in CheckpointFolder(folder.parent).list():
            if found.path == folder:
                return found
    return None
