"""The default corpus, and a Python of its own for what must hold in a fresh process."""

import os
import subprocess
import sys

import pytest

from keras_transformer import phrasebook

# The package `keras_transformer.data` brings TensorFlow; with an empty one in its place
# only what the phrasebook itself imports is loaded.
EMPTY_PARENT = """
import sys, types
sys.path.insert(0, sys.argv[1])
import keras_transformer
name = "keras_transformer.data"
sys.modules[name] = types.ModuleType(name)
sys.modules[name].__path__ = [keras_transformer.__path__[0] + "/data"]
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
            [sys.executable, "-c", EMPTY_PARENT + program, str(repository)],
            capture_output=True,
            check=False,
            env={**os.environ, **environment, "PYTHONIOENCODING": "utf-8"},
        )
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode("utf-8")

    return run
