"""Running a program in a process of its own, with its time and memory."""

from __future__ import annotations

import contextlib
import os
import pathlib
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.lib import measure

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_SHOWN_CHARACTERS = 500


class TimedProcess(NamedTuple):
    """What a program took."""

    seconds: float
    # Of all its threads and children.
    cpu_seconds: float
    # The sum of its own peak and those of its children.
    peak_bytes: int


def run(command: Sequence[str | os.PathLike]) -> TimedProcess:
    """Run a program in the root of the repository.

    Raises:
        RuntimeError: If it fails.
    """
    began, peak = time.perf_counter(), 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=errors
        )
        while process.poll() is None:
            # The peak of a process that has ended counts memory of its parent.
            peak = max(peak, _family_kib(process.pid))
            time.sleep(0.02)
        if process.returncode:
            errors.seek(0)
            said = errors.read()[-_SHOWN_CHARACTERS:]
            raise RuntimeError(f"{' '.join(map(str, command))} failed: {said}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return TimedProcess(time.perf_counter() - began, cpu, 1024 * peak)


def _family_kib(process: int) -> int:
    """Return the sum of the peaks of a process and its descendants, 0 if it ended."""
    total = 0
    with contextlib.suppress(OSError):
        total = measure.memory_kib(process=process)
        for file in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
            total += sum(map(_family_kib, map(int, file.read_text().split())))
    return total
