"""The table of a machine."""

import subprocess
import sys

from benchmarks.lib import machine_table

MACHINE = {"cpu": "A CPU", "cores": 3, "date": "2026-11-23", "tensorflow": "2.21.0"}


def test_the_table_has_a_row_for_each_number():
    shared = {"machine": {**MACHINE, "keras": "3.15.1"}, "load_average": 0.5}
    lines = machine_table.table(
        {
            "search of 1 in float32": {"tokens_per_s": 1234.5, **shared},
            "file": {
                "times_ctranslate2_float32": 0.9,
                "times_ctranslate2_int8": 0.5,
                **shared,
            },
        }
    ).splitlines()
    assert lines[0] == "A CPU, 3 cores, 2026-11-23, TensorFlow 2.21.0, Keras 3.15.1:"
    assert lines[4].startswith(
        "| search of 1 in float32 | tokens_per_s | 1,234.5 | 0.5 |"
    )
    assert [line.split(" | ")[1] for line in lines[5:]] == [
        "times_ctranslate2_float32",
        "times_ctranslate2_int8",
    ]


def test_an_unknown_benchmark_is_named(repository, tmp_path):
    ended = subprocess.run(
        [
            *(sys.executable, repository / "benchmarks" / "this_machine.py"),
            *(f"--output_dir={tmp_path}", "--model_dir=a", "--input=b", "--only=speed"),
        ],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    message = "this_machine.py: --only must be among training in float32, training in"
    assert ended.stderr.splitlines()[-1].startswith(message)
