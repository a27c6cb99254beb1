r"""Write English-German sentence pairs from a grammar to text files: no download.

    python examples/write_phrasebook.py --output_dir=text

writes train.en, train.de, valid.en, valid.de, test.en and test.de, one sentence a line:
24,000 pairs for training and 500 for each of the others, which hold numbers, times,
dates, prices and combinations of words that training does not have, while it has every
word of theirs. The same seed gives the same pairs on every machine.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from examples.phrasebook import corpus, grammar, values
from keras_transformer import atomic_files
from keras_transformer.cli import programs

# Names of the files' splits.
_SPLITS = {values.TRAIN: "train", values.VALIDATION: "valid", values.TEST: "test"}

_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Folder that gets the files.")
_TRAIN_PAIRS = flags.DEFINE_integer(
    "train_pairs", corpus.DEFAULT_SIZES[values.TRAIN], "Pairs to write for training."
)
_HELD_OUT_PAIRS = flags.DEFINE_integer(
    "held_out_pairs",
    corpus.DEFAULT_SIZES[values.TEST],
    "Pairs to write for validation, and for the test.",
)
_SEED = flags.DEFINE_integer("seed", 0, "Selects the sample.")


def main() -> dict[str, int]:
    """Write the files; return the number of pairs of each split."""
    programs.check_given(_OUTPUT_DIR)
    sizes = dict.fromkeys(values.SPLITS, _HELD_OUT_PAIRS.value)
    splits = corpus.build({**sizes, values.TRAIN: _TRAIN_PAIRS.value}, _SEED.value)
    folder = pathlib.Path(_OUTPUT_DIR.value)
    folder.mkdir(parents=True, exist_ok=True)
    for split, examples in splits.items():
        for side, language in enumerate(grammar.LANGUAGES):
            lines = "".join(f"{example.pair[side]}\n" for example in examples)
            atomic_files.atomic_write(folder / f"{_SPLITS[split]}.{language}", lines)
    return {_SPLITS[split]: len(examples) for split, examples in splits.items()}


if __name__ == "__main__":
    programs.run(main)
