"""export/serve.py in a process of its own, and asking it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

PREDICT = "/v1/models/translation:predict"
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


def translated(host: str, port: int, texts: list[str], seconds: float) -> list[str]:
    """Return the translations of texts by TF Serving's route."""
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("POST", PREDICT, json.dumps({"inputs": {"text": texts}}))
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return answer["outputs"]["translation"]
