"""What every tokenizer offers, and the folder it is saved in."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_transformer import atomic_files

# Rises when a folder written today could no longer be read, or would give other ids.
FORMAT_VERSION = 1
DESCRIPTION_NAME = "tokenizer.json"

# Texts that the host path hands to the graph at once: enough to drown the call, few
# enough that one long line does not pad thousands of short ones.
_TEXTS_PER_CALL = 1024


class Tokenizer(tf.Module):
    """Text to subword ids and back, one vocabulary for source and target (§5.1).

    Everything but `encode`, `decode` and `save` runs in the graph: inside a
    `tf.function`, a tf.data pipeline and a SavedModel of a `tf.Module` that owns the
    tokenizer. A program that loads such a SavedModel imports tensorflow and
    tensorflow_text, nothing else.

    Runs of U+0020 fold into one and vanish at both ends of a text, and invalid UTF-8
    becomes U+FFFD. All else comes back as it went in: every character of every script,
    tabs, line ends, no-break spaces and the NUL character among them. No normalization
    is applied, so "ﬁ", "½" and letters with combining accents stay as they are.

    Attributes:
        kind: "bpe", "sentencepiece" (an own file) or "wordpiece".
        vocab_size: Ids lie in [0, vocab_size).
        pad_id: Fills rows of unequal length; never in the ids of a text.
        unk_id: Stands for what the vocabulary cannot spell.
        bos_id: Begins the decoder's input; never in the ids of a text.
        eos_id: Ends a sequence; never in the ids of a text.
        fingerprint: Hexadecimal SHA-256 of the vocabulary file, the "tokenizer hash".
    """

    # Set by a subclass: the file beside `DESCRIPTION_NAME` that holds the vocabulary.
    vocabulary_name: str

    def __init__(
        self,
        *,
        kind: str,
        vocabulary: bytes,
        pieces: Sequence[str],
        pad_id: int,
        unk_id: int,
        bos_id: int,
        eos_id: int,
    ):
        super().__init__(name=f"{kind}_tokenizer")
        self.kind = kind
        self.vocab_size = len(pieces)
        self.pad_id, self.unk_id = pad_id, unk_id
        self.bos_id, self.eos_id = bos_id, eos_id
        self.fingerprint = fingerprint_of(vocabulary)
        self._vocabulary = vocabulary
        shown = ["" if i == pad_id else piece for i, piece in enumerate(pieces)]
        self._pieces = tf.constant(shown, tf.string)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Split text into ids, in the graph.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            int32 `[batch, (length)]`; no special ids are added.
        """
        return self._split(text)

    def detokenize(self, tokens: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Join ids into text, in the graph.

        Args:
            tokens: integer `[batch, length]`, dense or ragged. A row ends before its
                first `eos_id`; `pad_id` and `bos_id` are passed over.

        Returns:
            string `[batch]`, UTF-8. Bytes that are no UTF-8, which only a model can
            write, become U+FFFD.
        """
        if isinstance(tokens, tf.RaggedTensor):
            tokens = tokens.to_tensor(self.pad_id)
        return self._detokenize(tf.cast(tokens, tf.int32))

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False
    )
    def _detokenize(self, tokens):
        has_ended = tf.cumsum(tf.cast(tokens == self.eos_id, tf.int32), axis=1) > 0
        is_text = ~has_ended & (tokens != self.pad_id) & (tokens != self.bos_id)
        return self._join(tf.ragged.boolean_mask(tokens, is_text))

    def pieces(self, tokens: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Name the vocabulary entry of every id, in the graph.

        Args:
            tokens: integer, any shape, dense or ragged.

        Returns:
            string, same shape; "" for `pad_id`. "▁" stands for the space before a
            piece.
        """
        return tf.gather(self._pieces, tokens)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Split texts into ids, on the host; the same ids as `tokenize`.

        Returns:
            One int32 `[length]` per text.

        Raises:
            TypeError: If `texts` is one string.
            ValueError: If a text holds half of a surrogate pair, which has no UTF-8.
        """
        check_texts(texts)
        encoded = []
        for chunk in _chunks(texts):
            tokens = self.tokenize(tf.constant(chunk, tf.string))
            splits = tokens.row_splits.numpy()[1:-1]
            encoded.extend(np.split(tokens.flat_values.numpy(), splits))
        return encoded

    def encode_rows(self, texts: Sequence[str]) -> np.ndarray:
        """Split texts into the rows that a model trains on.

        Returns:
            int32 `[len(texts), longest]`: the ids of a text, `eos_id`, then `pad_id`.
        """
        ended = [np.append(tokens, self.eos_id) for tokens in self.encode(texts)]
        return _padded(ended, self.pad_id)

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into texts, on the host; the same text as `detokenize`.

        Args:
            tokens: One sequence of ids per text.

        Returns:
            One string per sequence.
        """
        texts = []
        for chunk in _chunks(tokens):
            rows = self._detokenize(tf.constant(_padded(chunk, self.pad_id)))
            texts.extend(row.decode("utf-8", "replace") for row in rows.numpy())
        return texts

    def save(self, directory: str | os.PathLike) -> None:
        """Write `tokenizer.json` and the vocabulary; the folder appears whole or not.

        Raises:
            OSError: If the disk is full or the folder cannot be written.
        """
        description = {
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            "vocabulary_file": self.vocabulary_name,
            "fingerprint": self.fingerprint,
            **self.ids(),
        }
        with atomic_files.atomic_folder(directory) as aside:
            (aside / self.vocabulary_name).write_bytes(self._vocabulary)
            text = json.dumps(description, indent=2) + "\n"
            (aside / DESCRIPTION_NAME).write_text(text, encoding="utf-8")

    def ids(self) -> dict[str, int]:
        """The size of the vocabulary and its special ids, under the config's names."""
        names = ("vocab_size", "pad_id", "unk_id", "bos_id", "eos_id")
        return {name: getattr(self, name) for name in names}

    def _split(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Subclass: string `[batch]` to int32 `[batch, (length)]`."""
        raise NotImplementedError

    def _join(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """Subclass: int32 `[batch, (length)]`, no special ids, to string `[batch]`."""
        raise NotImplementedError


def fingerprint_of(vocabulary: bytes) -> str:
    """The hexadecimal SHA-256 by which a vocabulary is known."""
    return hashlib.sha256(vocabulary).hexdigest()


def check_texts(texts: Sequence[str]) -> None:
    """Raise if one string came where several are wanted: it would be cut to letters."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(
            f"`texts` must be several strings. Received one: {texts[:40]!r}. "
            "Put it into a list."
        )


def too_large_message(vocab_size: int, largest: int) -> str:
    """What to say when the text does not hold as many pieces as asked for."""
    return (
        f"`vocab_size` must be at most {largest}: the text allows no more. "
        f"Received: vocab_size={vocab_size}. Pass --vocab_size={largest} or less, or "
        "give more text."
    )


def _chunks(values: Sequence) -> Iterator[list]:
    for start in range(0, len(values), _TEXTS_PER_CALL):
        yield list(values[start : start + _TEXTS_PER_CALL])


def _padded(rows: Sequence[Sequence[int]], pad_id: int) -> np.ndarray:
    """int32 `[len(rows), longest]`, filled at the end with `pad_id`."""
    longest = max((len(row) for row in rows), default=0)
    padded = np.full((len(rows), longest), pad_id, np.int32)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded
