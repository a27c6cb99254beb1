"""Whether an export that is killed ever leaves a version that is not whole.

    python robustness/killed_exports.py --model_dir=runs/base --kills=20

exports the model again and again, kills the process at random moments with SIGKILL, and
after each kill loads every new version and compares its translations with the model's.
Prints how many versions there were and what was left beside them. About 15 minutes for
a small model on 2 CPU cores.
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
from keras_transformer.cli import model_flags, programs, startup
from keras_transformer.cli.model_flags import CHECKPOINT, MODEL_DIR
from robustness import kills

_KILLS = flags.DEFINE_integer("kills", 20, "How often.", lower_bound=1)
_SEED = flags.DEFINE_integer("seed", 0, "Of the moments.")
_EXPORT_DIR = flags.DEFINE_string(
    "export_dir", None, "Export into this folder until killed: what is killed."
)
flags.adopt_module_key_flags(model_flags)


def main() -> dict:
    """Kill exports and print what they left."""
    programs.check_given(MODEL_DIR)
    startup.import_tensorflow()
    from keras_transformer.hardware import describe
    from keras_transformer.runs.model_dir import ModelDir
    from keras_transformer.serving import saved_model

    translator = ModelDir(MODEL_DIR.value).load_translator(CHECKPOINT.value)
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
