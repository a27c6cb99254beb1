"""The default corpus, and a Python of its own for what must hold in a fresh process."""

import os
import subprocess
import sys

import pytest

from examples import phrasebook

IN_CHECKOUT = """
import sys
sys.path.insert(0, sys.argv[1])
"""


@pytest.fixture(scope="session")
def default_corpus() -> dict[str, list[phrasebook.Example]]:
    """24,000 training, 500 validation and 500 test examples of seed 0."""
    return phrasebook.build()


@pytest.fixture
def run_apart(repository):
    """Give a function that runs a program apart and returns its output, as UTF-8."""

    def run(program: str, **environment: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-c", IN_CHECKOUT + program, str(repository)],
            capture_output=True,
            check=False,
            env={**os.environ, **environment, "PYTHONIOENCODING": "utf-8"},
        )
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode("utf-8")

    return run
