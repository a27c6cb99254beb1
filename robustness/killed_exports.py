"""Does an export that is killed ever leave an incomplete version?

    python robustness/killed_exports.py --model_dir=runs/base --kills=20

exports the model repeatedly and kills the process at random times with SIGKILL. After
each kill it loads every new version and compares its translations with the model's.
Prints the number of versions and of leftover files. Takes about 15 minutes for a small
model on 2 CPU cores.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags
from robustness import kills

_KILLS = flags.DEFINE_integer("kills", 20, "Number of kills.", lower_bound=1)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the times.")
_EXPORT_DIR = flags.DEFINE_string(
    "export_dir", None, "Run as the process that exports to this folder until killed."
)
_MODEL = ModelFlags()


def main() -> dict:
    """Kill exports and print what they leave."""
    programs.check_given(_MODEL.model_dir)
    startup.import_tensorflow()
    from keras_transformer.hardware import describe
    from keras_transformer.serving import saved_model

    translator = _MODEL.load_translator()
    if _EXPORT_DIR.value is not None:
        kills.export_until_killed(translator, _EXPORT_DIR.value)
    texts = saved_model.trial_texts(translator, 16)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        saved_model.export(translator, pathlib.Path(folder) / "first")
        seconds = time.perf_counter() - began
        export_dir = pathlib.Path(folder) / "killed"
        export_dir.mkdir()
        result = kills.killed_at_random(
            [sys.executable, *sys.argv, f"--export_dir={export_dir}"],
            export_dir,
            lambda version: saved_model.check_same(translator, version, texts),
            kills=_KILLS.value,
            seconds=2 * seconds,
            seed=_SEED.value,
        )
    measure.write_line(**result, seed=_SEED.value, machine=describe())
    return result


if __name__ == "__main__":
    programs.run(main)
