"""The flags that say which trained model a program uses."""

from __future__ import annotations

from absl import flags

MODEL_DIR = flags.DEFINE_string("model_dir", None, "A trained model.")
CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    None,
    "averaged, best, latest, or the path of a checkpoint; default: the first of these "
    "that exists, but no average from before training went on.",
)
