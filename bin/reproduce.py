"""Train the rows of Table 3 and compare them with the paper's figures.

    python bin/reproduce.py --table=3 --rows=all --data_dir=data/wmt14_ende \
        --output_dir=runs/table3

trains each row as the paper did: 100,000 steps, which took half a day on 8 P100s. With
--scale=mini widths are divided by 4, layers by 2, steps by 50 and batches by 10, and a
row takes minutes on a CPU; each keeps its change from base. The same command can be run
again at any time: finished rows are skipped, and a stopped row is resumed. The report,
table3.md and table3.png, is written again after every row. bin/train.py trains a row,
and bin/evaluate.py translates the validation split with the last weights, as in the
paper's caption: "beam search ..., but no checkpoint averaging".
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import json_files, presets, tasks, wording
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import DeviceFlags, define_fields
from keras_transformer.config import check_at_least
from keras_transformer.evaluation import table3
from keras_transformer.runs.run_config import RunConfig

if TYPE_CHECKING:  # imports TensorFlow
    from keras_transformer.data import DataMetadata

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
_SEED = define_fields(RunConfig, only=("seed",))["seed"]
_DEVICE = DeviceFlags()


def main() -> dict:
    """Run the rows, write the report and return the JSON summary."""
    programs.check_given(_DATA_DIR, _OUTPUT_DIR)
    rows = table3.choose_rows(_ROWS.value)
    scaled = {row: chosen_preset(row) for row in rows}
    startup.import_tensorflow()
    from keras_transformer import data, evaluation
    from keras_transformer.evaluation.table3_report import write_report

    # What would fail after the training is refused before it.
    metadata = data.read_metadata(_DATA_DIR.value)
    if metadata.task != tasks.TRANSLATION.name:
        raise ValueError(
            f"The corpus in {_DATA_DIR.value} is for --task={metadata.task}; Table 3 "
            "is of translation models. Give another --data_dir."
        )
    evaluation.check_languages([metadata.target_language])
    output = pathlib.Path(_OUTPUT_DIR.value)
    results, compared = {}, []
    for number, row in enumerate(rows, start=1):
        left = table3.seconds_left(results, scaled)
        said = "" if left is None else f", {wording.duration(left)} left for all"
        print(f"row {row}, {number} of {len(rows)}{said}", flush=True)
        results[row] = run_row(row, scaled[row], metadata)
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


def run_row(
    row: str, preset: presets.Preset, metadata: DataMetadata
) -> table3.RowResult:
    """Train and evaluate a row, resume it, or read its result if it is finished.

    Args:
        row: Its name in the paper, and that of its folder, which has the model, the
            translations and `result.json`.
        preset: The model to train.
        metadata: The corpus.

    Raises:
        ValueError: If the result is damaged, or model and corpus do not fit.
        ChildProcessError: If a program fails.
    """
    from keras_transformer.training import run as training_run

    folder = pathlib.Path(_OUTPUT_DIR.value, row)
    chosen = {"precision": _DEVICE.precision.value, "seed": _SEED.value}
    config = training_run.resolve(preset, metadata, **chosen).to_json()
    config = json.loads(json.dumps(config))  # lists for tuples, as in the file
    finished = table3.read_result(folder)
    if finished and finished.config == config:
        print(f"{row}: finished before", flush=True)
        return finished
    places = {"data_dir": _DATA_DIR.value, "model_dir": folder / "model"}
    options = run_options(preset.training.train_steps)
    trained = run_program(
        row, "train.py", **places, **table3.train_flags(preset), **chosen, **options
    )
    began = time.perf_counter()
    scores = run_program(
        row,
        "evaluate.py",
        **places,
        split="valid",
        checkpoint="latest",
        bootstrap_samples=0,
        output=folder / "valid.hypothesis",
    )
    result = table3.RowResult(
        row=row,
        config=config,
        perplexity=scores["perplexity"],
        bleu=scores["bleu_tokenized"],
        num_parameters=trained["num_parameters"],
        seconds=round(trained["seconds"] + time.perf_counter() - began, 1),
    )
    json_files.write(folder / "result.json", dataclasses.asdict(result))
    return result


def run_options(train_steps: int) -> dict[str, Any]:
    """Return the flags of bin/train.py that do not change its model."""
    return {
        **_DEVICE.options(),
        "checkpoint_every_minutes": 10.0 if _SCALE.value == "full" else 1.0,
        "keep_checkpoints": 1,
        "evaluate_every_steps": max(1, train_steps // 5),
        "bleu_sentences": 0,
    }


def run_program(row: str, name: str, /, **values: Any) -> dict[str, Any]:
    """Run a program of this folder, print its lines and return its JSON summary.

    It ends when this program does: a training then saves the step that it is at.

    Args:
        row: The row that it works on, which begins each line.
        name: Name of its file.
        **values: Its flags; None: the default.

    Raises:
        ChildProcessError: If it fails or is killed.
    """
    given = [f"--{flag}={value}" for flag, value in values.items() if value is not None]
    program = pathlib.Path(__file__).with_name(name)
    summary, last = "", ""
    # The kernel ends it if this program is killed and cannot.
    ended = ["setpriv", "--pdeathsig=TERM"] if shutil.which("setpriv") else []
    with subprocess.Popen(
        [*ended, sys.executable, program, "--json", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is for this program, which then ends it
    ) as process:
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    summary = line
                    continue
                last = line.rstrip()
                if not last.startswith(f"{name}: "):  # its error, which is raised here
                    print(f"{row}: {last}", flush=True)
        except BaseException as error:
            process.terminate()
            for line in process.communicate()[0].splitlines()[-1:]:
                error.add_note(f"row {row}: {line}")
            raise
    if process.returncode < 0:
        ended_by = signal.Signals(-process.returncode).name
        last = (
            f"bin/{name} was ended by {ended_by}, perhaps because memory ran out. Run "
            "the same command again to resume from its last checkpoint."
        )
    if process.returncode:
        raise ChildProcessError(f"row {row}: {last.removeprefix(f'{name}: ')}")
    return json.loads(summary)


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
