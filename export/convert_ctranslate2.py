"""Convert a trained model to CTranslate2, an inference engine with int8 weights.

    python export/convert_ctranslate2.py --model_dir=runs/base \
        --output_dir=exports/base_ct2 --quantization=int8

writes a folder for `ctranslate2.Translator`, with the vocabulary in tokenizer/.
CTranslate2's length penalty differs from the paper's: see docs/how_to/converting.md.
Takes seconds. Needs the extra `ctranslate2`.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags

_MODEL = ModelFlags()
_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "The folder to write.")
_QUANTIZATION = flags.DEFINE_enum(
    "quantization",
    "float32",
    ["float32", "int8", "int8_float32", "int16", "float16", "bfloat16"],
    "Data type of the stored weights.",
)


def main() -> dict:
    """Convert and return the JSON summary."""
    programs.check_given(_MODEL.model_dir, _OUTPUT_DIR)
    startup.import_tensorflow()
    from keras_transformer.serving import ctranslate2_converter

    translator = _MODEL.load_translator(precision="float32")
    with programs.needing("ctranslate2", "Converting"):
        ctranslate2_converter.convert(
            translator, _OUTPUT_DIR.value, _QUANTIZATION.value
        )
    print(f"converted {_MODEL.model_dir.value} to {_OUTPUT_DIR.value}")
    return {"output_dir": _OUTPUT_DIR.value, "quantization": _QUANTIZATION.value}


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
