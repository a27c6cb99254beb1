"""Timing the start of a training, and its steps beside a peer's, on a GPU."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.lib import measure, program_starts
from benchmarks.lib.training_rate import MIXED

_LIB = pathlib.Path(__file__).parent
_OURS = (sys.executable, str(_LIB / "training_rate.py"))
_PEER = _LIB / "huggingface_train.py"
# As in `make quickstart`, with a line for each step.
_QUICKSTART = (
    *("--preset=tiny", "--num_layers=2", "--d_ff=512", "--dropout_rate=0.1"),
    *("--tokens_per_batch=3000", "--train_steps=650", "--warmup_steps=250"),
    *("--learning_rate_scale=1.4", "--checkpoint_every_steps=20"),
    *("--evaluate_every_steps=650", "--bleu_sentences=0", "--log_every_steps=1"),
)


def measure_starts(steps: int) -> None:
    """Time bin/train.py from its start, then again with what the first compiled.

    Args:
        steps: Last step of a start.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program_starts.make_corpus(folder / "data")
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        for number in (1, 2):
            command = program_starts.program("bin/train.py") + [
                *_QUICKSTART,
                f"--data_dir={folder / 'data'}",
                f"--model_dir={folder / f'model_{number}'}",
            ]
            seconds = program_starts.seconds_until(
                command, ["step 1/", f"step {steps}/"], environment
            )
            measure.write_line(
                part="start",
                start=("first", "second, with cache")[number - 1],
                step_1_s=round(seconds[0], 1),
                **{f"step_{steps}_s": round(seconds[1], 1)},
            )


def measure_steps(
    presets: Sequence[str],
    precisions: Sequence[str],
    shapes: Sequence[str],
    steps: int,
    peer_python: str | None,
) -> None:
    """Time training steps of fixed shapes beside a peer, and of mixed lengths.

    Args:
        presets: Names of configurations.
        precisions: "bfloat16", "float32".
        shapes: Such as "200x64", rows x tokens of each side.
        steps: Steps timed at once.
        peer_python: A Python with PyTorch and Transformers; None: leave out.

    Raises:
        ChildProcessError: If a program failed, after the others have measured.
    """
    failed = []
    for preset, precision in itertools.product(presets, precisions):
        policy = "mixed_bfloat16" if precision == "bfloat16" else precision
        model = (preset, policy)
        commands = [[*_OURS, *model, shape, str(steps)] for shape in shapes]
        commands.append([*_OURS, *model, f"{shapes[0]}{MIXED}", str(5 * steps)])
        if peer_python:
            peer = (peer_python, str(_PEER))
            commands += [[*peer, *model, shape, str(steps)] for shape in shapes]
        rates = {}
        for line in _by_turns_after_compiling(commands, failed):
            measure.write_line(**line)
            rates["peer" in line, line["shape"]] = line["tokens_per_s"]
        _write_ratios(rates, shapes, preset=preset, precision=precision)
    if failed:
        raise ChildProcessError(f"Failed: {'; '.join(failed)}.")


def _write_ratios(
    rates: Mapping[tuple[bool, str], float], shapes: Sequence[str], **about: str
) -> None:
    """Write our rates by the peer's, and that of mixed lengths by that of a shape.

    Args:
        rates: Tokens a second of (whether of the peer, shape).
        shapes: Same as in `measure_steps`.
        **about: Fields of the lines.
    """
    compared = {shape: ((False, shape), (True, shape)) for shape in shapes}
    compared["mixed lengths, by fixed"] = (
        (False, f"{shapes[0]}{MIXED}"),
        (False, shapes[0]),
    )
    for name, (one, other) in compared.items():
        if {one, other} <= rates.keys():
            times = round(rates[one] / rates[other], 2)
            measure.write_line(part="train", shape=name, times_faster=times, **about)


def _by_turns_after_compiling(
    commands: Sequence[Sequence[str]], failed: list[str]
) -> Iterator[dict[str, Any]]:
    """Start programs together, let each measure alone, and yield their figures.

    A program writes "ready" when it has compiled, waits for a line, and writes lines of
    JSON. Programs that fail are added to `failed`.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = []
    with contextlib.ExitStack() as stack:
        for command in commands:
            try:
                process = stack.enter_context(subprocess.Popen(command, **pipes))
            except OSError as error:
                failed.append(str(error))
                continue
            stack.callback(process.kill)
            started.append(process)
        for process in started:
            for line in process.stdout:
                if line == "ready\n":
                    break
        for process in started:
            with contextlib.suppress(BrokenPipeError):
                print(file=process.stdin, flush=True)
            yield from map(json.loads, process.stdout)
            if process.wait():
                failed.append(shlex.join(process.args))
