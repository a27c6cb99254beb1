"""What every test may use."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """Real text for tests; skips where it is absent."""
    default = REPOSITORY.parent / "shared" / "data"
    folder = pathlib.Path(os.environ.get("KERAS_TRANSFORMER_SHARED_DATA", default))
    if not folder.is_dir():
        pytest.skip(
            f"no real text: {folder.name} is absent (set "
            "KERAS_TRANSFORMER_SHARED_DATA to the folder that holds it)"
        )
    return folder
