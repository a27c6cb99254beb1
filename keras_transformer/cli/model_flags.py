"""The flags that say which trained model a program uses."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from absl import flags

MODEL_DIR = flags.DEFINE_string("model_dir", None, "A trained model.")
CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    None,
    "averaged, best, latest, or the path of a checkpoint; default: the first of these "
    "that exists, but no average from before training went on.",
)


def read_config() -> dict[str, Any]:
    """Return the `config.json` of --model_dir, without importing TensorFlow.

    It is {} where there is none or it cannot be read: what loads the model says so.
    """
    try:
        path = pathlib.Path(MODEL_DIR.value) / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}
