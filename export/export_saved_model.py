"""Export a trained model as one SavedModel that takes strings and returns strings.

    python export/export_saved_model.py --model_dir=runs/base --export_dir=exports/base

writes exports/base/1 (the next free number), which TF Serving serves as it is: the
tokenizer and the beam search are inside. Search settings are fixed here. Takes about a
minute.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import programs

_MODEL_DIR = flags.DEFINE_string("model_dir", None, "The trained model.")
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    None,
    "averaged, best, latest, or the path of a checkpoint; default: the first of these "
    "that exists.",
)
_EXPORT_DIR = flags.DEFINE_string(
    "export_dir", None, "Takes one folder a version: EXPORT_DIR/VERSION."
)
_BEAM_SIZE = flags.DEFINE_integer(
    "beam_size", None, "Hypotheses kept alive; 1 is greedy; default: the model's."
)
_LENGTH_PENALTY_ALPHA = flags.DEFINE_float(
    "length_penalty_alpha", None, "alpha of the length penalty; default: the model's."
)


def main() -> dict:
    """Export and return the JSON summary."""
    for flag in (_MODEL_DIR, _EXPORT_DIR):
        if flag.value is None:
            raise ValueError(f"--{flag.name} is needed.")
    from keras_transformer import exported
    from keras_transformer.model_dir import ModelDir

    place = ModelDir(_MODEL_DIR.value)
    translator = place.load_translator(
        _CHECKPOINT.value,
        precision="float32",
        beam_size=_BEAM_SIZE.value,
        length_penalty_alpha=_LENGTH_PENALTY_ALPHA.value,
    )
    version = exported.export(translator, _EXPORT_DIR.value)
    print(f"exported {place.choose(_CHECKPOINT.value).path} to {version}")
    return {"saved_model": str(version)}


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
