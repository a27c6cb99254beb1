"""Does a translation that is killed and resumed give what an undisturbed one gives?

    python robustness/killed_translations.py --input=news.en --kills=10 \\
        bin/translate.py --model_dir=runs/base --beam_size=1

runs the command once without interruption. Then it kills the command with SIGKILL
--kills times while it translates, each time after a random number of new batches, and
after each of these once more while it resumes: while it loads the model and goes over
what is there. Checks at each kill that no finished batch and no line of OUTPUT.partial
is lost and that no batch is translated again, and in the end that the outputs are equal
byte for byte. With --suffix=.gz the outputs are compressed; bin/back_translate.py can
be given too. For a text of few lines give a small --batch_size: with fewer batches than
kills, there are fewer kills.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer.cli import programs
from robustness import kills

_INPUT = flags.DEFINE_string("input", None, "The text to translate.")
_KILLS = flags.DEFINE_integer(
    "kills", 10, "Number of kills while it translates.", lower_bound=1
)
_SUFFIX = flags.DEFINE_string("suffix", "", "Ending of the output's name.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the moments.")


def main(command: list[str]) -> dict:
    """Kill and resume a translation, and print what it kept at each kill."""
    programs.check_given(_INPUT)
    if not command:
        raise ValueError("Give the command that translates, bin/translate.py ...")
    from keras_transformer.hardware import describe

    command = [sys.executable, *command, f"--input={_INPUT.value}"]
    with tempfile.TemporaryDirectory() as folder:
        kept = kills.translate_through_kills(
            command,
            pathlib.Path(folder) / f"output{_SUFFIX.value}",
            kills=_KILLS.value,
            seed=_SEED.value,
        )
    result = {"kills": len(kept), "batches_kept": kept}
    measure.write_line(**result, seed=_SEED.value, machine=describe())
    return result


if __name__ == "__main__":
    programs.run(main, has_other_options=True)
