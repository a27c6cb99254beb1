"""The default corpus, drawn once for all tests here."""

import pytest

from keras_transformer.data import phrasebook


@pytest.fixture(scope="session")
def default_corpus() -> dict[str, list[phrasebook.Example]]:
    """24,000 training, 500 validation and 500 test examples of seed 0."""
    return phrasebook.build()
