"""Lines as SentencePiece's trainer wants them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator

from keras_transformer import config
from keras_transformer.tokenization import tokenizer

# SentencePiece leaves out lines of more bytes than it is told to expect, so longer ones
# are cut, after a space where there is one. UTF-8 takes at most four bytes a character.
_MAX_CHARACTERS = 1000
MAX_BYTES = 4 * _MAX_CHARACTERS
_PARTS = re.compile(rf".{{1,{_MAX_CHARACTERS}}}(?:\s|$)|.{{1,{_MAX_CHARACTERS}}}")

# What the trainer keeps for its own use (it leaves out a line with U+2585), and what is
# no part of a word: control characters, U+2581 and the code point that stands for it.
_NOT_LEARNED = re.compile("[\x00-\x1f\x7f-\x9f\u2581\u2585\ufdd0]")


def sentences(texts: Iterable[str]) -> Iterator[str]:
    """Cut texts into training sentences, without empty ones.

    Raises:
        TypeError: If `texts` is one string.
        ValueError: If there is no text at all.
    """
    tokenizer.check_texts(texts)
    is_empty = True
    for text in texts:
        for part in _PARTS.findall(_NOT_LEARNED.sub(" ", text)):
            if sentence := part.strip():
                is_empty = False
                yield sentence
    if is_empty:
        raise ValueError(
            "There is no text to learn a vocabulary from: every line is empty."
        )


def sample(texts: Iterable[str], max_sentences: int) -> list[str]:
    """Draw sentences evenly, the same ones each time, in memory for `max_sentences`."""
    config.check_at_least("max_sentences", max_sentences, 1)
    draw = random.Random(0)
    kept = []
    for number, sentence in enumerate(sentences(texts), start=1):
        if len(kept) < max_sentences:
            kept.append(sentence)
        elif (place := draw.randrange(number)) < max_sentences:
            kept[place] = sentence
    return kept


def check_coverage(character_coverage: float) -> None:
    """Raise unless the share is one that SentencePiece accepts."""
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(
            "`character_coverage` must be in [0.98, 1]. "
            f"Received: character_coverage={character_coverage}."
        )
