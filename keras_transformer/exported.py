"""SavedModels: writing them, and translating with them (TF Serving loads the same)."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operators of the vocabulary

from keras_transformer import files
from keras_transformer.translator import (
    Translation,
    Translator,
    translate_in_batches,
)

SIGNATURE = "serving_default"


class ServingModule(tf.Module):
    """What is exported: a translator behind the signatures that servers call.

    Args:
        translator: What translates.
    """

    def __init__(self, translator: Translator):
        super().__init__(name="serving")
        self.translator = translator

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serving_default(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translate a batch of any size.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            "translation", string `[batch]`; "score", float32 `[batch]`, log probability
            / length penalty; "truncated", bool `[batch]`, whether the source was cut at
            the length limit.
        """
        result = self.translator.translate_batch(text)
        return {
            "translation": result["translations"][:, 0],
            "score": result["scores"][:, 0],
            "truncated": result["truncated"],
        }


def export(translator: Translator, export_dir: str | os.PathLike) -> pathlib.Path:
    """Write a SavedModel as the next version of a model, whole or not at all.

    Args:
        translator: What to export, with its search settings.
        export_dir: Holds one folder a version, as TF Serving wants it.

    Returns:
        The folder of the version, EXPORT_DIR/VERSION.

    Raises:
        OSError: If the disk is full or the folder cannot be written.
    """
    version = pathlib.Path(export_dir) / str(next_version(export_dir))
    module = ServingModule(translator)
    with files.atomic_folder(version) as aside:
        try:
            tf.saved_model.save(
                module, str(aside), signatures={SIGNATURE: module.serving_default}
            )
        except tf.errors.OpError as error:
            raise OSError(
                f"Could not write the export into {export_dir}: "
                f"{files.reason(error)}. Free some space or check the folder's "
                "permissions."
            ) from error
    return version


def next_version(export_dir: str | os.PathLike) -> int:
    """Return the number after the highest version in a folder; 1 for none."""
    folder = pathlib.Path(export_dir)
    if not folder.is_dir():
        return 1
    versions = [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
    return max(versions, default=0) + 1


def translate(
    saved_model: str | os.PathLike, texts: Sequence[str], batch_size: int = 64
) -> list[Translation]:
    """Translate texts with an exported model, in batches of about equal length.

    Args:
        saved_model: The folder of a version, EXPORT_DIR/VERSION.
        texts: One source each.
        batch_size: Sources translated at once.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it does not translate.
    """
    folder = pathlib.Path(saved_model)
    if not (folder / "saved_model.pb").is_file():
        raise FileNotFoundError(
            f"No saved_model.pb in {folder}. Give the folder with the version number, "
            "EXPORT_DIR/VERSION."
        )
    loaded = tf.saved_model.load(str(folder))
    if SIGNATURE not in loaded.signatures:
        raise ValueError(
            f"The model in {folder} must have the signature {SIGNATURE!r}. Received: "
            f"{', '.join(sorted(loaded.signatures)) or 'none'}."
        )
    serve = loaded.signatures[SIGNATURE]

    def translate_batch(text):
        result = serve(text=text)
        return {
            "translations": result["translation"][:, tf.newaxis],
            "scores": result["score"][:, tf.newaxis],
            "truncated": result["truncated"],
        }

    return translate_in_batches(texts, batch_size, translate_batch)
