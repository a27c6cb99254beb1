"""The flag that lets several models search together."""

from __future__ import annotations

import pathlib

from absl import flags

from keras_transformer.cli import language_flags
from keras_transformer.cli.model_flags import MODEL_DIR

ENSEMBLE = flags.DEFINE_list(
    "ensemble",
    None,
    "Folders of further trained models with the vocabulary of --model_dir. All of them "
    "choose the pieces of a translation together, by the mean of their probabilities: "
    "better than each alone, and as slow as all. Default: none.",
)


def choose() -> list[tuple[pathlib.Path, pathlib.Path]]:
    """Return what `ensembles.choose` finds for the flag.

    Raises:
        FileNotFoundError: If a folder has no model.
        ValueError: If a model cannot search together with that of --model_dir.
    """
    if not ENSEMBLE.value:
        return []
    from keras_transformer.opening import ensembles

    return ensembles.choose(MODEL_DIR.value, ENSEMBLE.value, language_flags.given())
