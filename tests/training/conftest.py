"""What the tests of training share."""

import pytest

from tests.small_corpus import write_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A prepared corpus of 60 pairs."""
    return write_corpus(tmp_path_factory.mktemp("corpus"), "data", 285)
