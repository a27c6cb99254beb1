"""How do time and memory of restricted and full self-attention grow with length (§4)?

    python benchmarks/restricted_attention.py

runs a forward and backward pass of each kind and length in a process of its own, and
prints one line of JSON for each. Then prints the growth from the shortest to the
longest length, divided by the growth of n. It takes about two minutes on 2 CPU cores.
Linux only.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer.cli import programs, startup
from keras_transformer.config import check_at_least

_LENGTHS = flags.DEFINE_list(
    "lengths", ["512", "1024", "2048", "4096"], "Sequence lengths (n)."
)
_WINDOW = flags.DEFINE_integer(
    "window", 64, "Positions that each position attends to (r)."
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 4, "Sequences per batch.")
_HEADS = flags.DEFINE_integer("num_heads", 8, "Heads, each of width 64.")
_REPEATS = flags.DEFINE_integer("repeats", 5, "Timed calls; the median is reported.")
_ONE = flags.DEFINE_string("one", None, "KIND:LENGTH to measure in this process.")

KINDS = ("restricted", "full")


def measure_one(kind: str, length: int) -> dict:
    """Return the time of a forward and backward pass, and its peak memory."""
    import tensorflow as tf

    from keras_transformer.layers import attention, restricted_attention

    sides = restricted_attention.neighbourhood(_WINDOW.value, causal=False)

    @tf.function
    def run(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            if kind == "full":
                outputs, _ = attention.scaled_dot_product_attention(
                    inputs, inputs, inputs
                )
            else:
                outputs, _ = restricted_attention.restricted_attention(
                    inputs, inputs, inputs, *sides
                )
            total = tf.reduce_sum(outputs**2)
        return tape.gradient(total, inputs)

    def inputs_of(length):
        return tf.random.normal((_BATCH_SIZE.value, _HEADS.value, length, 64))

    run(inputs_of(2 * _WINDOW.value)).numpy()  # loads libraries and starts threads
    inputs = inputs_of(length)
    before = measure.memory_kib("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    seconds = measure.median_seconds(lambda: run(inputs).numpy(), _REPEATS.value)
    return {
        "kind": kind,
        "length": length,
        "seconds": seconds,
        "peak_megabytes": round((measure.memory_kib("VmHWM") - before) / 1024, 1),
    }


def main() -> dict:
    """Measure every kind and length, and print their growth."""
    startup.import_tensorflow()
    if _ONE.value is not None:
        kind, length = _ONE.value.split(":")
        return measure_one(kind, int(length))
    from keras_transformer.hardware import describe

    lengths = [int(length) for length in _LENGTHS.value]
    for length in lengths:
        check_at_least("lengths", length, 1)
    results, growth = [], {}
    for kind in KINDS:
        rows = [measure_in_subprocess(kind, length) for length in lengths]
        for row in rows:
            measure.write_line(**row)
        for key in ("seconds", "peak_megabytes"):
            growth[f"{kind}_{key}_over_n"] = round(
                rows[-1][key] / rows[0][key] / (lengths[-1] / lengths[0]), 2
            )
        results += rows
    summary = {"growth": growth, "results": results, "machine": describe()}
    measure.write_line(growth=growth, machine=summary["machine"])
    return summary


def measure_in_subprocess(kind: str, length: int) -> dict:
    """Run this program for one kind and length in a new process."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--json"]
    result = subprocess.run(
        [sys.executable, __file__, *arguments, f"--one={kind}:{length}", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(result.stdout.splitlines()[-1])


if __name__ == "__main__":
    programs.run(main)
