"""Killing programs at random times, and checking what they leave."""

from __future__ import annotations

import contextlib
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

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


def translate_through_kills(
    command: Sequence[str], output: pathlib.Path, *, kills: int, seed: int
) -> list[int]:
    """Run a translation undisturbed, then with kills; check that both are equal.

    Args:
        command: A program with --output and --resume, without these.
        output: The file that it is to write.
        kills: Number of kills, at random times after the start of each run.
        seed: Seed of the times.

    Returns:
        The number of batches that were kept at each kill.

    Raises:
        RuntimeError: If a run fails, what was kept gets less or is translated again, or
            the outputs differ.
    """
    expected = output.with_name(f"undisturbed_{output.name}")
    began = time.perf_counter()
    run([*command, f"--output={expected}"])
    seconds = time.perf_counter() - began
    draw, kept, size = random.Random(seed), [], 0
    command = [*command, f"--output={output}", "--resume"]
    partial = output.with_name(f"{output.name}.partial")
    for _ in range(kills):
        with _started(command) as process:
            # A run that goes on takes less time than the first.
            latest = seconds * max(0.3, 1 - len(kept) / kills)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(draw.uniform(0, latest))
            process.kill()
        if output.exists():
            break
        before, size = size, partial.stat().st_size if partial.exists() else 0
        kept.append(_check_kept(pathlib.Path(f"{partial}.jsonl")))
        if size < before or kept != sorted(kept):
            raise RuntimeError(f"A kill lost what was kept: {before} bytes, {kept}.")
    run(command)
    if output.read_bytes() != expected.read_bytes():
        raise RuntimeError(f"{output} differs from {expected}.")
    return kept


def _check_kept(journal: pathlib.Path) -> int:
    """Return the number of batches kept; RuntimeError if one is kept twice."""
    lines = journal.read_bytes().splitlines()[1:] if journal.exists() else []
    batches = [line.partition(b"\t")[0] for line in lines if line.endswith(b"]")]
    if len(set(batches)) < len(batches):
        raise RuntimeError(f"A batch was translated again: {batches}.")
    return len(batches)


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
