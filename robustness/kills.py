"""Killing programs at random times, and checking what they leave."""

from __future__ import annotations

import contextlib
import math
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

READY = "exporting"


def export_until_killed(translator, export_dir: str) -> None:
    """Export one version after another, until this process is killed."""
    from keras_transformer.serving import saved_model

    print(READY, flush=True)
    while True:
        texts = saved_model.trial_texts(translator, 8)
        saved_model.export(translator, export_dir, check_texts=texts)
        print(READY, flush=True)


def killed_at_random(
    command: Sequence[str],
    export_dir: pathlib.Path,
    check: Callable[[pathlib.Path], None],
    *,
    kills: int,
    seconds: float,
    seed: int,
) -> dict[str, int]:
    """Repeatedly start an exporting command, kill it, and check the new versions.

    Args:
        command: Calls `export_until_killed` with `export_dir`.
        export_dir: The folder of the versions.
        check: Called with the folder of each version; raises if it is incomplete.
        kills: Number of kills.
        seconds: Latest time of a kill, in seconds after the start of an export.
        seed: Seed of the times.

    Returns:
        "kills"; "versions", the number of complete versions; "unfinished", the number
        of other files that the last kill left.
    """
    draw = random.Random(seed)
    checked: set[pathlib.Path] = set()
    for _ in range(kills):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            for line in process.stdout:
                if line.strip() == READY:
                    break
            time.sleep(draw.uniform(0, seconds))
            if process.poll() is not None:
                raise RuntimeError(f"Command ended by itself: {' '.join(command)}")
            process.kill()
        versions = {path for path in export_dir.iterdir() if path.name.isdigit()}
        for version in sorted(versions - checked):
            check(version)
        checked |= versions
    others = [path for path in export_dir.iterdir() if path not in checked]
    return {"kills": kills, "versions": len(checked), "unfinished": len(others)}


def training_command(
    data_dir: str, model_dir: pathlib.Path, train_steps: int, *options: str
) -> list[str]:
    """Return the command of a very short training with a checkpoint per step."""
    program = pathlib.Path(__file__).resolve().parents[1] / "bin" / "train.py"
    return [
        sys.executable,
        str(program),
        "--preset=tiny",
        f"--data_dir={data_dir}",
        f"--model_dir={model_dir}",
        f"--train_steps={train_steps}",
        *("--num_layers=1", "--d_model=16", "--d_ff=32", "--num_heads=2"),
        *("--tokens_per_batch=150", "--max_length=40", "--warmup_steps=5"),
        *("--bleu_sentences=0", "--log_every_steps=1", "--nopreflight"),
        *("--checkpoint_every_steps=1", "--keep_checkpoints=3"),
        *("--evaluate_every_steps=20", *options),
    ]


def seconds_of_steps(command: Sequence[str]) -> float:
    """Run a training; return the seconds from its first step to its end."""
    with _started(command) as process:
        _wait_for_step(process)
        began = time.perf_counter()
        process.stdout.read()
    _check_status(process, command)
    return time.perf_counter() - began


def kill_after_first_step(command: Sequence[str], seconds: float) -> None:
    """Start a training and kill it `seconds` after its first step."""
    with _started(command) as process:
        _wait_for_step(process)
        time.sleep(seconds)
        process.kill()


def run(command: Sequence[str]) -> None:
    """Start or resume a training and run it to its end.

    Raises:
        RuntimeError: If it fails.
    """
    with _started(command) as process:
        process.stdout.read()
    _check_status(process, command)


def newest_step(model_dir: pathlib.Path) -> int:
    """Load the newest checkpoint and return its step; 0 without a checkpoint."""
    from keras_transformer.runs import checkpoints
    from keras_transformer.runs.model_dir import ModelDir

    newest = checkpoints.restore_newest(ModelDir(model_dir).checkpoints())
    return newest[0].step if newest else 0


def distance_of_weights(ours: pathlib.Path, theirs: pathlib.Path) -> float:
    """Return the largest difference between the final weights of two runs."""
    import numpy as np

    from keras_transformer.runs.model_dir import ModelDir

    models = [ModelDir(folder).load_model("latest") for folder in (ours, theirs)]
    pairs = zip(*(model.get_weights() for model in models), strict=True)
    return max(float(np.max(np.abs(left - right))) for left, right in pairs)


class Left(NamedTuple):
    """What a killed translation has left."""

    # The lines of OUTPUT.partial.jsonl after the first, one for each finished batch.
    batches: list[bytes]
    # OUTPUT.partial.
    text: bytes


def translate_through_kills(
    command: Sequence[str], output: pathlib.Path, *, kills: int, seed: int
) -> list[int]:
    """Run a translation undisturbed, then with kills; check that both are equal.

    Each kill while it translates is followed by one while it resumes, at a random time
    before it can translate anything new.

    Args:
        command: A program with --output and --resume, without these.
        output: The file that it is to write.
        kills: Number of kills while it translates, each after a random number of new
            batches.
        seed: Seed of these numbers and of the times.

    Returns:
        The number of batches that were kept at each kill while it translated. They are
        fewer than `kills` if the input has too few batches.

    Raises:
        RuntimeError: If a run fails, a finished batch is lost or translated again, or
            the outputs differ.
    """
    expected = output.with_name(f"undisturbed_{output.name}")
    seconds_to_first, seconds_of_batch, num_batches = _times(command, expected)
    draw, left, kept = random.Random(seed), Left([], b""), []
    command = [*command, f"--output={output}", "--resume"]
    for kills_left in range(kills, 0, -1):
        most = (num_batches - len(left.batches)) // (kills_left + 1)
        wanted = len(left.batches) + draw.randint(1, max(1, most))
        with _started(command) as process:
            _wait_for_batches(process, output, wanted)
            time.sleep(draw.uniform(0, seconds_of_batch))
            process.kill()
        if output.exists():
            break
        left = _check_left(output, expected, left)
        if len(left.batches) < wanted:
            _check_status(process, command)
        kept.append(len(left.batches))
        with _started(command) as process:
            time.sleep(draw.uniform(0, seconds_to_first))
            process.kill()
        if output.exists():
            break
        left = _check_left(output, expected, left)
    else:
        run(command)
    if output.read_bytes() != expected.read_bytes():
        raise RuntimeError(f"{output} differs from {expected}.")
    return kept


def _times(command: Sequence[str], output: pathlib.Path) -> tuple[float, float, int]:
    """Run a translation undisturbed.

    Returns:
        The seconds until the first batch, those of each further one, and the number of
        batches.
    """
    began = time.perf_counter()
    command = [*command, f"--output={output}"]
    with _started(command) as process:
        _wait_for_batches(process, output, 1)
        first = time.perf_counter()
        num_batches = _wait_for_batches(process, output, math.inf)
    _check_status(process, command)
    seconds = (time.perf_counter() - first) / max(1, num_batches)
    return first - began, seconds, num_batches


def _wait_for_batches(
    process: subprocess.Popen, output: pathlib.Path, wanted: float
) -> int:
    """Wait until a number of batches is finished, or the process ends.

    Returns:
        The number of finished batches that were seen last.
    """
    found, size = 0, 0
    journal = _partial(output, ".jsonl")
    while process.poll() is None and found < wanted:
        time.sleep(0.001)
        with contextlib.suppress(FileNotFoundError):  # deleted at the end
            if (now := journal.stat().st_size) != size:
                found, size = len(_batches(journal.read_bytes())), now
    return found


def _check_left(output: pathlib.Path, expected: pathlib.Path, before: Left) -> Left:
    """Return what a kill has left; RuntimeError if it is not what it should be.

    Args:
        output: The file that is written.
        expected: The output of an undisturbed run.
        before: What the kill before has left.
    """
    journal, partial = _partial(output, ".jsonl"), _partial(output)
    left = Left(
        _batches(journal.read_bytes()) if journal.exists() else [],
        partial.read_bytes() if partial.exists() else b"",
    )
    if left.batches[: len(before.batches)] != before.batches:
        raise RuntimeError(f"{journal} has lost finished batches.")
    if not left.text.startswith(before.text):
        raise RuntimeError(f"{partial} has lost lines.")
    if not expected.read_bytes().startswith(left.text):
        raise RuntimeError(f"{partial} differs from {expected}.")
    keys = [batch.partition(b"\t")[0] for batch in left.batches]
    if len(set(keys)) < len(keys):
        raise RuntimeError(f"A batch was translated again: {keys}.")
    return left


def _partial(output: pathlib.Path, ending: str = "") -> pathlib.Path:
    return output.with_name(f"{output.name}.partial{ending}")


def _batches(journal: bytes) -> list[bytes]:
    """Return the lines of finished batches, without one that is cut."""
    lines = journal.splitlines(keepends=True)[1:]
    return [line for line in lines if line.endswith(b"\n")]


def _started(command: Sequence[str]) -> subprocess.Popen:
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _wait_for_step(process: subprocess.Popen) -> None:
    for line in process.stdout:
        if line.startswith("step "):
            return


def _check_status(process: subprocess.Popen, command: Sequence[str]) -> None:
    if process.returncode:
        raise RuntimeError(
            f"Command ended with status {process.returncode}: {' '.join(command)}"
        )
