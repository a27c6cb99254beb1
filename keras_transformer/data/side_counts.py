"""Counts the tokens and words of texts, and what a vocabulary lacks of them."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence

import numpy as np

# Characters that are reported.
NUM_CHARACTERS = 10


class SideCounts:
    """Counts of one side of a corpus.

    Args:
        encode: Returns the ids of each of some texts.
        unk_id: The id of what the vocabulary lacks; None: it lacks nothing.

    Attributes:
        tokens: Tokens, EOS included.
        words: Words of the texts.
        unknown: Tokens that stand for what the vocabulary lacks.
    """

    def __init__(self, encode: Callable, unk_id: int | None):
        self.tokens = self.words = self.unknown = 0
        self._encode, self._unk_id = encode, unk_id
        self._characters: collections.Counter[str] = collections.Counter()
        self._lacks: dict[str, bool] = {}

    def add(
        self, texts: Sequence[str], rows: Sequence[np.ndarray], num_words: int
    ) -> None:
        """Count texts of `num_words` together, and their ids without EOS."""
        self.words += num_words
        self.tokens += sum(map(len, rows)) + len(rows)
        if self._unk_id is None:
            return
        for text, ids in zip(texts, rows, strict=True):
            if unknown := np.count_nonzero(np.equal(ids, self._unk_id)):
                self.unknown += int(unknown)
                self._characters.update(filter(self._is_lacking, text))

    def lacking(self) -> dict[str, int]:
        """Return the commonest characters that are lacking, and how often they came."""
        return dict(self._characters.most_common(NUM_CHARACTERS))

    def _is_lacking(self, character: str) -> bool:
        if character not in self._lacks:
            [row] = self._encode([character])
            self._lacks[character] = self._unk_id in row
        return self._lacks[character]
