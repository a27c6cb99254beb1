"""The benchmarks of a machine, and the table of their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TRAIN = "train_step.py --preset=base --steps=8 --untimed_steps=3"
_SEARCH = "decode.py --preset=base --beam_size=4 --nocheck_scores"
# By name: the command after "python benchmarks/", and its numbers for the table.
BENCHMARKS = {
    "training in float32": (f"{_TRAIN} --precision=float32", ("tokens_per_s",)),
    "training in bfloat16": (f"{_TRAIN} --precision=mixed_bfloat16", ("tokens_per_s",)),
    "search of 1 in float32": (f"{_SEARCH} --batch_size=1", ("tokens_per_s",)),
    "search of 32 in float32": (f"{_SEARCH} --batch_size=32", ("tokens_per_s",)),
    "search of 32 in bfloat16": (
        f"{_SEARCH} --batch_size=32 --precision=bfloat16",
        ("tokens_per_s",),
    ),
    "start": (
        "startup.py --repeats=3 --timed=saved_model",
        ("median_saved_model_result_s",),
    ),
    "file": (
        "translate_file.py --rounds=1",
        ("times_ctranslate2_float32", "times_ctranslate2_int8"),
    ),
}


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the results as a table in Markdown, under the hardware and the day."""
    machine = next(iter(results.values()))["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['date']}, TensorFlow "
        f"{machine['tensorflow']}, Keras {machine['keras']}:",
        "",
        "| benchmark | number | value | load | command |",
        "|---|---|---|---|---|",
    ]
    for name, result in results.items():
        command, keys = BENCHMARKS[name]
        lines += [
            f"| {name} | {key} | {result[key]:,} | {result['load_average']} | "
            f"`{command}` |"
            for key in keys
        ]
    return "\n".join(lines) + "\n"
