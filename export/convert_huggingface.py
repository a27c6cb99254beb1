"""Convert a trained model to a MarianMTModel of Hugging Face Transformers.

    python export/convert_huggingface.py --model_dir=runs/my \
        --output_dir=exports/my_hf

writes config.json, generation_config.json, model.safetensors, the vocabulary and a
model card, for `MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained`;
bin/import_model.py reads the folder, too. An option of the model that MarianMTModel
lacks ends the program with one line. See docs/how_to/published_models.md. Takes
seconds.
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
_REPORT = flags.DEFINE_string(
    "report", None, "Report of bin/evaluate.py, whose scores the model card shows."
)


def main() -> dict:
    """Convert and return the JSON summary."""
    programs.check_given(_MODEL.model_dir, _OUTPUT_DIR)
    startup.import_tensorflow()
    from keras_transformer.pretrained import huggingface_writer, model_card

    run, checkpoint = _MODEL.run().read_config(), _MODEL.choose()
    translator = _MODEL.load_translator(
        checkpoint=str(checkpoint.path), precision="float32"
    )
    report = None
    if _REPORT.value:
        report = model_card.read_report(_REPORT.value, checkpoint)
    num_parameters = translator.model.count_params()
    card = model_card.make_card(run, checkpoint, num_parameters, report)
    huggingface_writer.write(translator, run, _OUTPUT_DIR.value, card)
    print(f"converted {_MODEL.model_dir.value} to {_OUTPUT_DIR.value}")
    return {"output_dir": _OUTPUT_DIR.value, "parameters": num_parameters}


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
