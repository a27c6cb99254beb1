"""Make a lexical shortlist: the target pieces that each source piece usually goes with.

    python bin/make_shortlist.py --model_dir=runs/my --data_dir=data/my

writes runs/my/shortlist.npz. With --shortlist, bin/translate.py, bin/evaluate.py and
export/export_saved_model.py then search among the pieces that go with those of a batch,
instead of the whole vocabulary. Prints how many pieces that are and which share of the
validation split's tokens is among them. The translations are those of IBM model 1 on
the training split. Takes seconds for 30,000 pairs.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer.cli import programs, startup

_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Folder of a trained model.")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "The model's corpus, or another with its vocabulary."
)
_FREQUENT = flags.DEFINE_integer(
    "frequent",
    100,
    "Most frequent target pieces that are in every list, beside the special ones.",
    lower_bound=0,
)
_TRANSLATIONS = flags.DEFINE_integer(
    "translations", 50, "Most target pieces for a source piece.", lower_bound=1
)


def main() -> dict:
    """Make the list and return the JSON summary."""
    programs.check_given(_MODEL_DIR, _DATA_DIR)
    startup.import_tensorflow()
    from keras_transformer.training import shortlists

    summary = shortlists.make_shortlist(
        _MODEL_DIR.value,
        _DATA_DIR.value,
        frequent=_FREQUENT.value,
        translations=_TRANSLATIONS.value,
    )
    print(f"wrote {summary['path']}: {summary['always']:,} pieces are in every list")
    for size, found in summary["batches"].items():
        print(
            f"batches of {size:,}: {found['pieces']:,.0f} of {summary['vocab_size']:,} "
            f"pieces in the mean, {found['coverage']:.2%} of the tokens in validation"
        )
    return summary


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
