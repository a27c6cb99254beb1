"""Translate text, one sentence a line, with a trained or an exported model.

    echo "A man rides." | python bin/translate.py --model_dir=runs/multi30k/model

    python bin/translate.py --saved_model=runs/multi30k/export/1 < test.en > test.de

Blank lines stay blank. With --nbest=N each line becomes N lines: the line's number,
from 0, the score and the translation, separated by tabs.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import model_flags, programs, search_flags, text_files
from keras_transformer.config import TRANSLATED_AT_ONCE
from keras_transformer.model_flags import CHECKPOINT, MODEL_DIR
from keras_transformer.search_flags import BEAM_SIZE, LENGTH_PENALTY_ALPHA

_SAVED_MODEL = flags.DEFINE_string(
    "saved_model",
    None,
    "An exported model, EXPORT_DIR/VERSION, instead of a model_dir.",
)
_INPUT = flags.DEFINE_string(
    "input", None, "Text file, one sentence a line; .gz too; default: standard input."
)
_OUTPUT = flags.DEFINE_string("output", None, "Default: standard output.")
_NBEST = flags.DEFINE_integer("nbest", None, "Translations of each line, best first.")
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size",
    TRANSLATED_AT_ONCE,
    "Sentences translated at once; fewer where they are long.",
    lower_bound=1,
)
flags.adopt_module_key_flags(model_flags)
flags.adopt_module_key_flags(search_flags)


def main() -> dict:
    """Translate and return the JSON summary."""
    if (MODEL_DIR.value is None) == (_SAVED_MODEL.value is None):
        raise ValueError("Give one of --model_dir and --saved_model.")
    lines = text_files.read_lines(_INPUT.value)
    from keras_transformer import text_search, threads

    with threads.made_for(len(lines)), text_search.started_soon(len(lines)):
        translations = _translate(lines)
    text_files.write_lines(_OUTPUT.value, list(_format(translations)))
    return {
        "lines": len(lines),
        "truncated": sum(translation.truncated for translation in translations),
    }


def _translate(lines):
    if _SAVED_MODEL.value is None:
        return _load_translator().translate(lines, _BATCH_SIZE.value)
    fixed = (BEAM_SIZE, LENGTH_PENALTY_ALPHA, _NBEST, CHECKPOINT)
    for flag in fixed:
        if flag.value is not None:
            raise ValueError(
                f"--{flag.name} is fixed when a model is exported; drop it, or use "
                "--model_dir."
            )
    from keras_transformer import exported

    return exported.translate(_SAVED_MODEL.value, lines, _BATCH_SIZE.value)


def _load_translator():
    from keras_transformer.model_dir import ModelDir

    translator = ModelDir(MODEL_DIR.value).load_translator(
        CHECKPOINT.value,
        num_best=_NBEST.value or 1,
        **search_flags.given(),
    )
    return translator.with_kept_weights()


def _format(translations):
    for number, translation in enumerate(translations):
        if _NBEST.value is None:
            yield text_files.one_line(translation.text)
            continue
        for text, score in translation.nbest:
            yield f"{number}\t{score:.6f}\t{text_files.one_line(text)}"


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
