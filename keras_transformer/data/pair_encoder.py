"""Turns the texts of pairs into token ids: the usual ones, or random ones."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from keras_transformer import config
from keras_transformer.data import masking, side_counts
from keras_transformer.spans import Glossary


class TargetVocabulary(Protocol):
    """Encodes targets whose vocabulary is separate from that of the source."""

    # The fields of `metadata.json`.
    task: str
    vocab_size: int
    fingerprint: str

    def encode(self, texts: Sequence[str]) -> list[np.ndarray | None]:
        """Return the ids of each text without EOS; None if it cannot be encoded."""

    def save(self, data_dir: pathlib.Path) -> None:
        """Write the vocabulary into the prepared folder."""


class EncodedPair(NamedTuple):
    """A pair and its ids without EOS; None: the target cannot be encoded."""

    source: str
    target: str
    source_ids: np.ndarray
    target_ids: np.ndarray | None


class PairEncoder:
    """Encodes pairs with the vocabularies of a prepared folder.

    Args:
        tokenizer: Encodes sources and, without a `target`, targets.
        target: Encodes targets, if their vocabulary is separate.
        encoding: How training pairs are encoded.
        glossary: Terms that placeholders of training pairs stand for, too.
        seed: Seed of placeholders.
    """

    def __init__(
        self,
        tokenizer: Any,
        target: TargetVocabulary | None,
        encoding: config.PairEncoding,
        glossary: Glossary | None,
        seed: int,
    ):
        self.tokenizer, self.target = tokenizer, target
        self._encoding = encoding
        self._random = np.random.Generator(np.random.Philox(seed))
        self._masking = None
        if encoding.placeholders:
            self._masking = masking.PairMasking(encoding, glossary)

    @property
    def vocab_size(self) -> int:
        """Number of ids of the larger vocabulary."""
        own = 0 if self.target is None else self.target.vocab_size
        return max(self.tokenizer.vocab_size, own)

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[EncodedPair]:
        """Return pairs with their usual ids."""
        encode = self.tokenizer.encode_target
        if self.target is not None:
            encode = self.target.encode
        return _encoded(pairs, self.tokenizer.encode, encode)

    def training_encodings(
        self, pairs: Sequence[EncodedPair], max_length: int
    ) -> Iterator[Sequence[EncodedPair]]:
        """Yield training pairs once for each encoding.

        Args:
            pairs: The pairs with their usual ids, which remain where others are too
                long.
            max_length: Most tokens of a side, EOS included.
        """
        if self._encoding.subword_encodings == 1 and self._masking is None:
            yield pairs
            return
        for _ in range(self._encoding.subword_encodings):
            drawn = self._drawn([self._masked(pair) for pair in pairs])
            yield [
                pair if max(map(len, pair[2:])) < max_length else usual
                for pair, usual in zip(drawn, pairs, strict=True)
            ]

    def new_counts(self) -> tuple[side_counts.SideCounts, side_counts.SideCounts]:
        """Return counts for both sides. A separate target vocabulary drops pairs."""
        tokenizer = self.tokenizer
        target_id = tokenizer.target_unk_id if self.target is None else None
        # All characters are in a vocabulary that can write every target.
        source_id = None if tokenizer.target_unk_id is None else tokenizer.unk_id
        return (
            side_counts.SideCounts(tokenizer.encode, source_id),
            side_counts.SideCounts(tokenizer.encode_target, target_id),
        )

    def _masked(self, pair: EncodedPair) -> tuple[str, str]:
        texts = pair.source, pair.target
        if self._masking is None:
            return texts
        return self._masking.mask(*texts, self._random, self.tokenizer.markers)

    def _drawn(self, pairs: Sequence[tuple[str, str]]) -> list[EncodedPair]:
        """Return pairs with ids, random ones if there are several encodings."""
        if self._encoding.subword_encodings == 1:
            return self.encode(pairs)

        def encode(texts):
            seed = int(self._random.integers(2**31))
            return self.tokenizer.sample(texts, self._encoding.subword_dropout, seed)

        return _encoded(pairs, encode, encode)


def _encoded(pairs, encode_sources, encode_targets) -> list[EncodedPair]:
    sources, targets = ([pair[side] for pair in pairs] for side in range(2))
    ids = encode_sources(sources), encode_targets(targets)
    return [EncodedPair(*row) for row in zip(sources, targets, *ids, strict=True)]
