"""The words of a text as alignments count them, and the pieces that spell them.

Imports no TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from keras_transformer import white_space
from keras_transformer.config import SPACE

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def words_of_text(text: str) -> list[str]:
    """Return the words of a text: what U+0020 separates."""
    return [word for word in text.split(" ") if word]


def num_blank_words(text: str) -> int:
    """Return how many words at the beginning of a text are only white space.

    Such as U+00A0. A model reads a text without the white space at its ends.
    """
    outer = text[: len(text) - len(text.lstrip(white_space.SPACES))]
    return len(words_of_text(outer + ".")) - 1


def words_of_pieces(text: str, pieces: Sequence[str]) -> np.ndarray | None:
    """Return the number of the word that each piece of a text belongs to.

    Args:
        text: The text.
        pieces: Its pieces, without EOS; more may come before, such as a language.

    Returns:
        int `[len(pieces)]`, -1 for a piece of no word; None if the text is not what the
        pieces spell and has another number of words than of pieces that begin one.
    """
    words = [_bytes(word) for word in words_of_text(text)]
    letters = [_spelled(piece) for piece in pieces]
    spelled = b"".join(words)
    num_before = _num_before(spelled, letters)
    if num_before is not None:
        lengths = np.array([len(each) for each in letters], int)
        starts = np.cumsum(lengths) - lengths - num_before
        ends = np.cumsum([len(word) for word in words])
        numbers = np.searchsorted(ends, starts, side="right")
        return np.where((starts < 0) | (lengths == 0), -1, numbers)
    if (stripped := white_space.strip(text)) != text:
        numbers = words_of_pieces(stripped, pieces)
        if numbers is None:
            return None
        return np.where(numbers < 0, -1, numbers + num_blank_words(text))
    # Characters that the vocabulary lacks, or that it normalizes.
    begins = np.array([piece.startswith(SPACE) for piece in pieces], bool)
    if begins.sum() == len(words):
        return np.cumsum(begins) - 1
    return None


def _num_before(spelled: bytes, letters: Sequence[bytes]) -> int | None:
    """Return how many bytes the pieces have before those of the text; None: unknown."""
    joined = b"".join(letters)
    if spelled.startswith(joined):  # all of the text, unless it was cut
        return 0
    return len(joined) - len(spelled) if joined.endswith(spelled) else None


def _spelled(piece: str) -> bytes:
    """Return the UTF-8 of a piece, which may be a byte of it such as <0x62>."""
    if byte := _BYTE.fullmatch(piece):
        return bytes([int(byte[1], 16)])
    return _bytes(piece)


def _bytes(text: str) -> bytes:
    """Return the UTF-8 of a text without marks of spaces; surrogates are no error."""
    return text.replace(SPACE, "").encode("utf-8", "surrogatepass")
