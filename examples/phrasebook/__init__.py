"""English-German sentence pairs from a grammar: clock times, dates, prices, travel.

    from examples import phrasebook
    for english, german in phrasebook.generate("train", 1000): ...

`examples/write_phrasebook.py` writes them to text files.
"""

from examples.phrasebook.corpus import (
    DEFAULT_SIZES,
    Example,
    build,
    generate,
    words_of,
)
from examples.phrasebook.templates import ALL, Pattern

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
