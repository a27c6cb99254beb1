"""Convert a trained model to a MarianMTModel of Hugging Face Transformers.

    python export/convert_huggingface.py --model_dir=runs/my \
        --output_dir=exports/my_hf

writes config.json, generation_config.json, model.safetensors, the vocabulary and a
model card, for `MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained`;
bin/import_model.py reads the folder, too. An option of the model that MarianMTModel
lacks ends the program with one line. See docs/how_to/published_models.md. Takes
seconds. --push_to_hub=OWNER/MODEL then uploads the folder to the Hugging Face Hub.
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
_PUSH_TO_HUB = flags.DEFINE_string(
    "push_to_hub",
    None,
    "Repository on the Hugging Face Hub to upload to, OWNER/MODEL or OWNER/MODEL@BRANCH"
    "; one that is absent is made, for all to see. Default: none.",
)


def main() -> dict:
    """Convert and return the JSON summary."""
    programs.check_given(_MODEL.model_dir, _OUTPUT_DIR)
    startup.import_tensorflow()
    from keras_transformer.pretrained import hub, huggingface_writer
    from keras_transformer.runs import model_card

    repository = None
    if _PUSH_TO_HUB.value and (repository := hub.parse(_PUSH_TO_HUB.value)) is None:
        raise ValueError(
            "--push_to_hub must be OWNER/MODEL or OWNER/MODEL@BRANCH. Received: "
            f"{_PUSH_TO_HUB.value}."
        )

    run, checkpoint = _MODEL.run().read_config(), _MODEL.choose()
    translator = _MODEL.load_translator(
        checkpoint=str(checkpoint.path), precision="float32"
    )
    report = None
    if _REPORT.value:
        report = model_card.read_report(_REPORT.value, checkpoint)
    num_parameters = translator.model.count_params()
    card = model_card.make_card(
        _MODEL.run(), checkpoint, num_parameters, report, is_converted=True
    )
    huggingface_writer.write(translator, run, _OUTPUT_DIR.value, card)
    print(f"converted {_MODEL.model_dir.value} to {_OUTPUT_DIR.value}")
    summary = {"output_dir": _OUTPUT_DIR.value, "parameters": num_parameters}
    if repository is not None:
        summary["address"] = hub.upload(_OUTPUT_DIR.value, repository)
        print(f"uploaded it to {summary['address']}")
    return summary


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
