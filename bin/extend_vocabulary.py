"""Give a trained model more pieces, for a new domain or language, before fine-tuning.

    python bin/extend_vocabulary.py --model_dir=runs/my --output_dir=runs/larger \
        --text=new.en,new.de --num_pieces=500 --data_dir=data/my

writes a model with the same weights and a larger vocabulary: first characters that it
lacks, then the pairs of pieces that are most frequent in the new text. Old ids stay;
the embedding of a new piece begins as the mean of those it replaces. The training text
of --data_dir, the model's corpus, is split as before; --resplit drops this condition.
Then prepare the new corpus with --tokenizer_from=runs/larger, and train with
--init_checkpoint=runs/larger.

--symbols=<bt>,>>fr<< adds tags and target languages for the file of
bin/prepare_data.py --corpora, --placeholders=16 those of bin/prepare_data.py
--placeholders.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import wording
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags

_MODEL = ModelFlags()
_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Folder of the larger model.")
_TEXT = flags.DEFINE_list("text", [], "Files of the new text, of both languages.")
_NUM_PIECES = flags.DEFINE_integer(
    "num_pieces", 500, "Most pieces to add, beside the symbols.", lower_bound=0
)
_SYMBOLS = flags.DEFINE_list(
    "symbols", [], "Tags and languages to add, such as <bt> or >>fr<<."
)
_PLACEHOLDERS = flags.DEFINE_integer(
    "placeholders",
    0,
    "Placeholders to have, see bin/prepare_data.py --placeholders; those that the "
    "vocabulary lacks are added.",
    lower_bound=0,
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "The model's corpus, whose training text is split as before."
)
_RESPLIT = flags.DEFINE_boolean(
    "resplit", False, "Let new pieces shorten the old text too."
)


def main() -> dict:
    """Write the larger model and return the JSON summary."""
    programs.check_given(_MODEL.model_dir, _OUTPUT_DIR)
    num_pieces = _NUM_PIECES.value if _TEXT.value else 0
    if not (_TEXT.value or _SYMBOLS.value or _PLACEHOLDERS.value):
        raise ValueError(
            "There is nothing to add. Give --text, --symbols or --placeholders."
        )
    if num_pieces and (_DATA_DIR.value is None) != _RESPLIT.value:
        raise ValueError(
            "Give either --data_dir, so that its text is split as before, or --resplit."
        )
    startup.import_tensorflow()
    from keras_transformer.training.vocabulary_extension import extend_vocabulary

    summary = extend_vocabulary(
        _MODEL.model_dir.value,
        _OUTPUT_DIR.value,
        _TEXT.value,
        num_pieces=num_pieces,
        symbols=_SYMBOLS.value,
        placeholders=_PLACEHOLDERS.value,
        data_dir=_DATA_DIR.value,
        checkpoint=_MODEL.checkpoint.value,
    )
    print(
        f"added {wording.count(summary['symbols'], 'symbol')}, "
        f"{wording.count(summary['characters'], 'character')} and "
        f"{wording.count(summary['merges'], 'longer piece')}: "
        f"{summary['vocab_size']:,} in all"
    )
    if _TEXT.value:
        print(
            f"the text has {summary['tokens_after']:,} tokens, instead of "
            f"{summary['tokens_before']:,}"
        )
    return summary


def run() -> None:
    """Run as a console script."""
    programs.run(main, may_be_urls=[_SYMBOLS])


if __name__ == "__main__":
    run()
