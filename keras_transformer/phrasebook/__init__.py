"""The built-in corpus: English-German sentence pairs from a grammar, no download.

    from keras_transformer import phrasebook
    for english, german in phrasebook.generate("train", 1000): ...

`phrasebook.builder.Phrasebook` offers the same pairs as a TensorFlow dataset; it is the
only module here that imports TensorFlow.
"""

from keras_transformer.phrasebook.corpus import (
    DEFAULT_SIZES,
    Example,
    build,
    generate,
    words_of,
)
from keras_transformer.phrasebook.templates import ALL, Pattern

__all__ = [
    "DEFAULT_SIZES",
    "Example",
    "Pattern",
    "build",
    "generate",
    "patterns",
    "words_of",
]


def patterns() -> tuple[Pattern, ...]:
    """Return the sentence patterns, by topic."""
    return ALL
