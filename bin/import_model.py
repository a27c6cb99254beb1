"""Make a model_dir from a published model: OPUS-MT, Marian, M2M-100 or NLLB.

    python bin/import_model.py --input=Helsinki-NLP/opus-mt-en-de --model_dir=runs/en_de
    echo "Hello!" | python bin/translate.py --model_dir=runs/en_de

--input is the name of a model on the Hugging Face Hub, OWNER/MODEL or
OWNER/MODEL@REVISION, whose files go into the cache of the Hub's client; or a folder
with such files: config.json, model.safetensors and vocabularies of Hugging Face, or
decoder.yml, .npz and vocabularies of Marian, with source.spm and target.spm. All other
programs use the result like a model trained here.

    python bin/import_model.py --input=m2m100_418M --model_dir=runs/m2m100 \
        --source_language=en --target_language=de

An option of the model that would give other outputs than here, a tensor that is missing
or left over, and a damaged file end the program with one line; nothing is written then.
"""

from __future__ import annotations

import os
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer.cli import programs, startup

_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Folder of the published model, or its name on the Hugging Face Hub.",
)
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder to write.")
_FORMAT = flags.DEFINE_enum(
    "format",
    "auto",
    ["auto", "huggingface", "marian"],
    "Format of the files; auto: look at them.",
)
_SOURCE_LANGUAGE = flags.DEFINE_string(
    "source_language",
    None,
    "Code of the source language, such as en. M2M-100 and NLLB need it.",
)
_TARGET_LANGUAGE = flags.DEFINE_string(
    "target_language",
    None,
    "Code of the target language, such as de. M2M-100 and NLLB need it.",
)


def main() -> dict:
    """Import the model and return the JSON summary."""
    programs.check_given(_INPUT, _MODEL_DIR)
    startup.import_tensorflow(onednn=False)
    from keras_transformer.pretrained import hub, importing

    name = None if os.path.exists(_INPUT.value) else hub.parse(_INPUT.value)
    summary = importing.import_model(
        hub.download(name) if name else _INPUT.value,
        _MODEL_DIR.value,
        model_format=_FORMAT.value,
        source_language=_SOURCE_LANGUAGE.value,
        target_language=_TARGET_LANGUAGE.value,
        name=name and str(name),
    )
    print(
        f"imported {_INPUT.value} ({summary['family']}, "
        f"{summary['parameters']:,} parameters) into {summary['model_dir']}"
    )
    for note in summary["notes"]:
        print(f"note: {note}")
    return summary


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
