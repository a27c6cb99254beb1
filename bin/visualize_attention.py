"""Draw the attention of a trained model: heat maps, or an interactive page.

    python bin/visualize_attention.py --model_dir=runs/multi30k/model_1 \
        --source="A man rides a bicycle." --output=attention.html

translates the sentence and writes one page of HTML with every layer and head of all
three kinds of attention, which needs no network. With --target the attention for that
translation is drawn instead. An --output that ends in .png gets the heat maps of one
layer.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags
from keras_transformer.config import check_choice

_MODEL = ModelFlags(has_languages=True)
_SOURCE = flags.DEFINE_string("source", None, "The source sentence.")
_TARGET = flags.DEFINE_string(
    "target", None, "Its translation; default: the model's own."
)
_OUTPUT = flags.DEFINE_string("output", None, "File to write, .html or .png.")
_ATTENTION = flags.DEFINE_enum(
    "attention",
    "cross",
    ["encoder", "decoder", "cross"],
    "encoder or decoder self-attention, or encoder-decoder attention; HTML: which is "
    "shown first.",
)
_LAYER = flags.DEFINE_integer(
    "layer", None, "Layer, from 1; HTML: which is shown first; default: the last."
)
_HEADS = flags.DEFINE_list("heads", None, "Heads of the PNG, from 1; default: all.")
_FORMATS = (".html", ".png")


def main() -> dict:
    """Record the attention, write the picture and return the JSON summary."""
    programs.check_given(_MODEL.model_dir, _SOURCE, _OUTPUT)
    output = pathlib.Path(_OUTPUT.value)
    check_choice("ending of --output", output.suffix.lower(), _FORMATS)
    heads = chosen_heads()
    startup.import_tensorflow()
    from keras_transformer import atomic_files
    from keras_transformer.visualization import attention, figures, heat_map, page

    translator = _MODEL.load_translator()
    _MODEL.check_languages([_SOURCE.value], translator.tokenizer)
    record = attention.record_attention(translator, _SOURCE.value, _TARGET.value)
    num_layers = record.num_layers(_ATTENTION.value)
    layer = num_layers if _LAYER.value is None else _LAYER.value
    if output.suffix.lower() == ".png":
        heads = heads or list(range(1, record.num_heads + 1))
        figures.save_png(
            heat_map.heat_map(record, _ATTENTION.value, layer, heads), output
        )
    else:
        atomic_files.atomic_write(
            output, page.attention_page(record, _ATTENTION.value, layer)
        )
    print(f"{' '.join(record.source_pieces)}  ->  {' '.join(record.target_pieces)}")
    print(f"the picture is {output}")
    return {
        "output": str(output),
        "source_pieces": record.source_pieces,
        "target_pieces": record.target_pieces,
        "num_layers": num_layers,
        "num_heads": record.num_heads,
    }


def chosen_heads() -> list[int]:
    """Return the numbers in --heads; empty for all heads.

    Raises:
        ValueError: If they are not numbers, or --output is HTML.
    """
    if _HEADS.value is None:
        return []
    if not _OUTPUT.value.lower().endswith(".png"):
        raise ValueError(
            "--heads is for an --output of .png; the page shows all heads."
        )
    try:
        return [int(head) for head in _HEADS.value]
    except ValueError:
        raise ValueError(
            "--heads must be numbers from 1, such as 1,2. "
            f"Received: {','.join(_HEADS.value)}."
        ) from None


def run() -> None:
    """Run as a console script."""
    programs.run(main, may_be_urls=[_SOURCE, _TARGET])


if __name__ == "__main__":
    run()
