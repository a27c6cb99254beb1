"""Train the rows of Table 3 and compare them with the paper's figures.

    python bin/reproduce.py --table=3 --rows=all --data_dir=data/wmt14_ende \
        --output_dir=runs/table3

trains each row as the paper did: 100,000 steps, which took half a day on 8 P100s. With
--scale=mini widths are divided by 4, layers by 2, steps by 50 and batches by 10, and a
row takes minutes on a CPU; each keeps its change from base. The same command can be run
again at any time: finished rows are skipped, and a stopped row is resumed. The report,
table3.md and table3.png, is written again after every row.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import presets, wording
from keras_transformer.cli import device_flags, field_flags, programs, startup
from keras_transformer.config import check_at_least
from keras_transformer.evaluation import table3
from keras_transformer.runs.run_config import RunConfig

_TABLE = flags.DEFINE_enum("table", "3", ["3"], "Table of the paper.")
_ROWS = flags.DEFINE_string(
    "rows", "all", "all, or a list such as A1,B2,C3; base is always included."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "A corpus prepared by bin/prepare_data.py."
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder of the rows and the report."
)
_SCALE = flags.DEFINE_enum(
    "scale", "full", list(table3.SCALES), "full: as published; mini: for a CPU."
)
_TRAIN_STEPS = flags.DEFINE_integer(
    "train_steps", None, "Steps of every row; default: the preset's, scaled."
)
_SEED = field_flags.define(RunConfig, only=("seed",))["seed"]
flags.adopt_module_key_flags(device_flags)


def main() -> dict:
    """Run the rows, write the report and return the JSON summary."""
    programs.check_given(_DATA_DIR, _OUTPUT_DIR)
    rows = table3.choose_rows(_ROWS.value)
    scaled = {row: chosen_preset(row) for row in rows}
    startup.import_tensorflow(compiles=True)
    from keras_transformer import data
    from keras_transformer.evaluation.table3_report import write_report

    data.read_metadata(_DATA_DIR.value)  # a wrong folder is refused before any row
    output = pathlib.Path(_OUTPUT_DIR.value)
    results, compared = {}, []
    for number, row in enumerate(rows, start=1):
        left = table3.seconds_left(results, scaled)
        said = "" if left is None else f", {wording.duration(left)} left for all"
        print(f"row {row}, {number} of {len(rows)}{said}", flush=True)
        results[row] = table3.in_own_process(
            table3.run_row,
            row,
            scaled[row],
            _DATA_DIR.value,
            str(output / row),
            run_options(scaled[row].training.train_steps),
            {"precision": device_flags.PRECISION.value, "seed": _SEED.value},
            prepare=startup.import_tensorflow,
        )
        compared = write_report(
            output / f"table{_TABLE.value}.md",
            _DATA_DIR.value,
            scaled,
            results,
            scale=_SCALE.value,
            seed=_SEED.value,
            command=shlex.join(["python", "bin/reproduce.py", *sys.argv[1:]]),
        )
    print(f"the report is {output}/table{_TABLE.value}.md")
    return {"rows": [dataclasses.asdict(row) for row in compared]}


def chosen_preset(row: str) -> presets.Preset:
    """Return the preset of a row, scaled, with the steps of the flag."""
    preset = table3.row_preset(row, _SCALE.value)
    if _TRAIN_STEPS.value is None:
        return preset
    check_at_least("train_steps", _TRAIN_STEPS.value, 1)
    training = dataclasses.replace(preset.training, train_steps=_TRAIN_STEPS.value)
    return dataclasses.replace(preset, training=training)


def run_options(train_steps: int) -> dict:
    """Return the options of a row: what does not change its model."""
    return {
        **device_flags.options(),
        "checkpoint_every_minutes": 10.0 if _SCALE.value == "full" else 1.0,
        "keep_checkpoints": 1,
        "evaluate_every_steps": max(1, train_steps // 5),
        "bleu_sentences": 0,
    }


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
