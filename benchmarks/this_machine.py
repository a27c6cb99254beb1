"""What does this machine do? Runs the main benchmarks and writes one table.

    python benchmarks/this_machine.py --output_dir=runs/benchmark \
        --model_dir=runs/quickstart/model --input=runs/quickstart/data/test.source

or make benchmark. Times a training step and searches of the base model in float32, and
in bfloat16 where the CPU has it, program starts, and a file beside CTranslate2 with a
trained model. Writes every result to results.json and a table for this CPU to table.md,
after each program, so that nothing is lost if one fails or is stopped.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import alternation, machine_table, measure
from benchmarks.lib.machine_table import BENCHMARKS
from keras_transformer import atomic_files, hardware, json_files
from keras_transformer.cli import programs
from keras_transformer.cli.flags import ModelFlags

_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Folder for results and table.")
_INPUT = flags.DEFINE_string("input", None, "Text of the model, one sentence a line.")
_ONLY = flags.DEFINE_list("only", None, "Names of benchmarks to run; default: all.")
_MODEL = ModelFlags()

_ROOT = pathlib.Path(__file__).resolve().parents[1]


def main() -> dict:
    """Run the benchmarks and write their results."""
    programs.check_given(_OUTPUT_DIR, _MODEL.model_dir, _INPUT)
    chosen = _ONLY.value or [
        name for name in BENCHMARKS if hardware.has_bfloat16() or "bfloat16" not in name
    ]
    if unknown := set(chosen) - set(BENCHMARKS):
        raise ValueError(
            f"--only must be among {', '.join(BENCHMARKS)}. Received: "
            f"{', '.join(sorted(unknown))}."
        )
    folder = pathlib.Path(_OUTPUT_DIR.value)
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, Any]] = {}
    for name in chosen:
        command = f"{sys.executable} {_ROOT}/benchmarks/{BENCHMARKS[name][0]}"
        if name == "file":
            command += f" --model_dir={_MODEL.model_dir.value} --input={_INPUT.value}"
        output = alternation.run(name, command)
        results[name] = alternation.last_json_line(name, command, output)
        measure.write_line(name=name, **results[name])
        json_files.write(folder / "results.json", results)
        atomic_files.atomic_write(folder / "table.md", machine_table.table(results))
    return results


if __name__ == "__main__":
    programs.run(main)
