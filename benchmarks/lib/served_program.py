"""export/serve.py in a process of its own."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

_PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "export" / "serve.py"


@contextlib.contextmanager
def served(
    *options: str, stderr: IO | None = None, **variables: str
) -> Iterator[tuple[subprocess.Popen, tuple[str, int]]]:
    """Run the server on a free port; yield its process, and its host and port.

    Args:
        *options: Its flags.
        stderr: File for its messages; None: that of this process.
        **variables: Variables of its environment, beside those of this process.
    """
    with subprocess.Popen(
        [sys.executable, _PROGRAM, "--port=0", *options],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, **variables},
    ) as server:
        try:
            line = server.stdout.readline()
            if not (found := re.search(r"http://([\d.]+):(\d+)", line)):
                raise ValueError("export/serve.py did not start; see its message.")
            yield server, (found[1], int(found[2]))
        finally:
            server.terminate()
