"""Killing what writes files at random moments, and looking at what is left."""

from __future__ import annotations

import pathlib
import random
import subprocess
import time
from collections.abc import Callable, Sequence

READY = "exporting"


def export_until_killed(translator, export_dir: str) -> None:
    """Export one version after another; the caller is killed meanwhile."""
    from keras_transformer import exported

    print(READY, flush=True)
    while True:
        texts = exported.trial_texts(translator, 8)
        exported.export(translator, export_dir, check_texts=texts)
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
    """Start a command that exports, kill it, check what it left, and so on.

    Args:
        command: Calls `export_until_killed` with `export_dir`.
        export_dir: Where versions appear.
        check: Called with the folder of each version; raises if it is not whole.
        kills: How often.
        seconds: The kill comes so many seconds after the start of exporting at most.
        seed: Of the moments.

    Returns:
        "versions", whole ones; "unfinished", folders aside that kills left.
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
                raise RuntimeError(f"It ended by itself: {' '.join(command)}")
            process.kill()
        versions = {path for path in export_dir.iterdir() if path.name.isdigit()}
        for version in sorted(versions - checked):
            check(version)
        checked |= versions
    others = [path for path in export_dir.iterdir() if path not in checked]
    return {"kills": kills, "versions": len(checked), "unfinished": len(others)}
