"""The flags that choose a trained model."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from absl import flags

MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder of a trained model.")
CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    None,
    "averaged, best, latest, or the path of a checkpoint; default: the first of these "
    "that exists, except an average older than the latest checkpoint.",
)


def weights(saved_model: flags.FlagHolder) -> pathlib.Path:
    """Return the path of the weights that the flags choose.

    Args:
        saved_model: The flag with the path of an export, which may be given instead.
    """
    if saved_model.value is not None:
        return pathlib.Path(saved_model.value)
    from keras_transformer.runs.model_dir import ModelDir

    model_dir = ModelDir(MODEL_DIR.value)
    model_dir.read_config()  # its error says that there is no model
    return model_dir.choose(CHECKPOINT.value).path


def read_config() -> dict[str, Any]:
    """Return the `config.json` of --model_dir, without importing TensorFlow.

    It is {} if there is none or it cannot be read; loading the model reports that.
    """
    try:
        path = pathlib.Path(MODEL_DIR.value) / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}
