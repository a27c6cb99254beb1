"""Lines of text in the form that SentencePiece's trainer accepts."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator

from keras_transformer import config, given_texts, white_space
from keras_transformer.wording import shown

# SentencePiece skips lines with more bytes than its limit, so longer lines are split,
# after a space if there is one. UTF-8 takes at most four bytes per character.
_MAX_CHARACTERS = 1000
MAX_BYTES = 4 * _MAX_CHARACTERS
_PARTS = re.compile(rf".{{1,{_MAX_CHARACTERS}}}(?:\s|$)|.{{1,{_MAX_CHARACTERS}}}")

# Characters that the trainer reserves (it skips a line with U+2585), and characters
# that are not part of a word: control characters, U+2581 and its replacement U+FDD0.
_NOT_LEARNED = re.compile("[\x00-\x1f\x7f-\x9f\u2581\u2585\ufdd0]")


def sentences(texts: Iterable[str]) -> Iterator[str]:
    """Split texts into training sentences, without empty ones.

    Raises:
        TypeError: If `texts` is one string, such as a path, or a text is no string.
        ValueError: If there is no text at all.
    """
    if given_texts.is_one(texts):
        raise TypeError(
            f"`texts` must be several strings. Received one: {shown(texts)}. Put it "
            "into a list, or open the file that it names."
        )
    is_empty = True
    for text in given_texts.each(texts):
        text = given_texts.as_str(text)
        for part in _PARTS.findall(_NOT_LEARNED.sub(" ", text)):
            if sentence := white_space.strip(part):
                is_empty = False
                yield sentence
    if is_empty:
        raise ValueError(
            "There is no text to learn a vocabulary from: every line is empty."
        )


def sample(texts: Iterable[str], max_sentences: int) -> list[str]:
    """Return an even sample of the sentences, the same each time."""
    config.check_at_least("max_sentences", max_sentences, 1)
    draw = random.Random(0)
    kept = []
    for number, sentence in enumerate(sentences(texts), start=1):
        if len(kept) < max_sentences:
            kept.append(sentence)
        elif (slot := draw.randrange(number)) < max_sentences:
            kept[slot] = sentence
    return kept


def check_coverage(character_coverage: float) -> None:
    """Raise unless SentencePiece accepts this share."""
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(
            "`character_coverage` must be in [0.98, 1]. "
            f"Received: character_coverage={character_coverage}."
        )
