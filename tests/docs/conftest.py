"""What the tests of the documents share."""

import importlib.util
import sys

import pytest


@pytest.fixture(scope="session")
def reference(repository):
    """The module that makes the reference pages of the site."""
    path = repository / "docs" / "hooks" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module
