"""The flag that lets several models search together."""

from __future__ import annotations

from absl import flags

ENSEMBLE = flags.DEFINE_list(
    "ensemble",
    None,
    "Folders of further trained models with the vocabulary of --model_dir. All of them "
    "choose the pieces of a translation together, by the mean of their probabilities: "
    "better than each alone, and as slow as all. Default: none.",
)
