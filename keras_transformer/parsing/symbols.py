"""The decoder's vocabulary for parsing: "XX" or tags, and two symbols per label.

Ids 0 to 3 are the special ids of `config`. Then come "XX", or one id per tag in sorted
order, and for each label, in sorted order, an opening and a closing symbol.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from keras_transformer import config, json_files
from keras_transformer.treebank.linearisation import WORD

FORMAT_VERSION = 1
_FIRST_ID = config.EOS_ID + 1


class SymbolVocabulary:
    """The ids of the symbols that `linearise` writes.

    Args:
        labels: Labels of constituents, without brackets; duplicates are ignored.
        tags: Tags of words, if each word is written as its tag; empty: as "XX".

    Attributes:
        labels: Sorted labels.
        tags: Sorted tags.
        word_symbols: The symbols that stand for a word: "XX", or the tags.
        vocab_size: Number of ids, including the special ones.
        fingerprint: Hexadecimal SHA-256 of labels and tags.

    Raises:
        ValueError: If there are no labels.
    """

    def __init__(self, labels: Iterable[str], tags: Iterable[str] = ()):
        self.labels = tuple(sorted(set(labels)))
        if not self.labels:
            raise ValueError("`labels` must have at least one label.")
        self.tags = tuple(sorted(set(tags)))
        self.word_symbols = self.tags or (WORD,)
        pairs = [f"{bracket}{label}" for label in self.labels for bracket in "()"]
        # By id; the special symbols do not occur in trees.
        self.symbols = ("<pad>", "<unk>", "<s>", "</s>", *self.word_symbols, *pairs)
        self.vocab_size = len(self.symbols)
        content = "\n".join(self.labels)
        if self.tags:
            content = "\n\n".join((content, "\n".join(self.tags)))
        self.fingerprint = hashlib.sha256(content.encode()).hexdigest()
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols)}

    @property
    def word_ids(self) -> range:
        """Ids of the symbols that stand for a word."""
        return range(_FIRST_ID, _FIRST_ID + len(self.word_symbols))

    @property
    def is_word(self) -> np.ndarray:
        """Whether each id stands for a word, bool `[vocab_size]`."""
        return np.isin(np.arange(self.vocab_size), self.word_ids)

    @property
    def opening_ids(self) -> range:
        """Ids of opening symbols; each is followed by the id of its closing symbol."""
        return range(self.word_ids.stop, self.vocab_size, 2)

    @property
    def closing_ids(self) -> range:
        """Ids of closing symbols."""
        return range(self.word_ids.stop + 1, self.vocab_size, 2)

    def encode(self, symbols: Sequence[str]) -> list[int]:
        """Return the ids of symbols, without EOS.

        Raises:
            ValueError: If a label or a tag is unknown.
        """
        for symbol in symbols:
            if self._ids.get(symbol, 0) < _FIRST_ID:
                tags = f" and tags {', '.join(self.tags)}" if self.tags else ""
                raise ValueError(
                    f"{symbol!r} is not a symbol of this vocabulary, whose labels are "
                    f"{', '.join(self.labels)}{tags}. Leave the tree out, or add it to "
                    "the training trees and prepare the corpus again."
                )
        return [self._ids[symbol] for symbol in symbols]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the symbols up to the first EOS or padding, without BOS."""
        symbols = []
        for number in ids:
            if number in (config.EOS_ID, config.PAD_ID):
                break
            if number != config.BOS_ID:
                symbols.append(self.symbols[number])
        return symbols

    def save(self, path: str | os.PathLike) -> None:
        """Save labels and tags to a file."""
        content = {
            "format_version": FORMAT_VERSION,
            "labels": self.labels,
            "tags": self.tags,
        }
        json_files.write(path, content)


def load(path: str | os.PathLike) -> SymbolVocabulary:
    """Load a vocabulary that `SymbolVocabulary.save` wrote.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If it is damaged or has another format version.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"No labels at {path}. bin/prepare_data.py --task=parsing writes them."
        )
    return json_files.read(
        path,
        FORMAT_VERSION,
        "prepare the data again",
        lambda content: SymbolVocabulary(content["labels"], content.get("tags", ())),
    )
