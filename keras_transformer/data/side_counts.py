"""Counts what a vocabulary cannot write of the text that it encodes."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence

import numpy as np

# Characters that are reported.
NUM_CHARACTERS = 10


class UnknownTokens:
    """Counts unknown tokens of one side, and the characters that they stand for.

    Args:
        encode: Returns the ids of each of some texts.
        unk_id: The id of what the vocabulary lacks; None: it lacks nothing.
    """

    def __init__(self, encode: Callable, unk_id: int | None):
        self.num_tokens = 0
        self._encode, self._unk_id = encode, unk_id
        self._characters: collections.Counter[str] = collections.Counter()
        self._lacks: dict[str, bool] = {}

    def add(self, texts: Sequence[str], ids: Sequence[np.ndarray]) -> None:
        """Count the unknown tokens among the ids of some texts."""
        if self._unk_id is None:
            return
        for text, row in zip(texts, ids, strict=True):
            if found := np.count_nonzero(np.equal(row, self._unk_id)):
                self.num_tokens += int(found)
                self._characters.update(filter(self._is_lacking, text))

    def commonest(self) -> dict[str, int]:
        """Return the commonest characters that are lacking, and how often they came."""
        return dict(self._characters.most_common(NUM_CHARACTERS))

    def _is_lacking(self, character: str) -> bool:
        if character not in self._lacks:
            [row] = self._encode([character])
            self._lacks[character] = self._unk_id in row
        return self._lacks[character]
