"""How much noise does the cleaning of the how-to find, and what good text does it cost?

    python benchmarks/clean_corpus.py --source=train.en --target=train.de \
        --pairs=20000

draws pairs, spoils a fifth of them in five ways (the target of another pair, a target
in the source's language, the source as target, half of the target, UTF-8 read as
cp1252), runs OpusFilter with the configuration of docs/how_to/cleaning.md, and prints
how many of each kind were found, by rules and in the end, and how many good pairs were
lost. Needs the extra `filter`, and its program `opusfilter` in the path.
"""

from __future__ import annotations

import collections
import pathlib
import random
import shutil
import sys
import tempfile

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure, noisy_corpus
from keras_transformer import text_files
from keras_transformer.cli import programs

_SOURCE = flags.DEFINE_string("source", None, "Text file of good sources.")
_TARGET = flags.DEFINE_string("target", None, "Their translations.")
_PAIRS = flags.DEFINE_integer("pairs", 20_000, "Pairs to draw.", lower_bound=5)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the pairs and the noise.")


def main() -> dict:
    """Make the noisy text, clean it, and print."""
    programs.check_given(_SOURCE, _TARGET)
    if shutil.which("opusfilter") is None:
        raise ValueError(
            "There is no program opusfilter. Install the extra: pip install "
            "'keras_transformer[filter]'."
        )
    sides = map(text_files.read_lines, (_SOURCE.value, _TARGET.value))
    pairs = list(zip(*sides, strict=True))
    draw = random.Random(_SEED.value)
    good = draw.sample(pairs, min(_PAIRS.value, len(pairs)))
    kinds, noisy = noisy_corpus.with_noise(good, draw)
    counts = collections.Counter(kinds)
    result = {"benchmark": "clean_corpus", "pairs": dict(counts)}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        noisy_corpus.clean(folder, noisy)
        for step in ("rules", "clean"):
            kept = noisy_corpus.kinds_of(
                noisy_corpus.read_pairs(folder / "clean", step), noisy, kinds
            )
            result[f"dropped_by_{step}"] = {
                kind: counts[kind] - kept[kind] for kind in counts
            }
    measure.write_line(**result)
    return result


if __name__ == "__main__":
    programs.run(main)
