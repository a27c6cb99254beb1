"""Vocabularies of published models: SentencePiece models and a map to ids."""

from __future__ import annotations

import io
import json
import pathlib
import zipfile
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.tokenization import tokenizer

_UNKNOWN = "<unk>"
# A translation model of several target languages reads ">>deu<<" before the text.
_LANGUAGE = r"(?s)^\s*(>>[^<>\s]+<<)?\s*(.*)$"
_SETTINGS, _SOURCE, _TARGET = "settings.json", "source.spm", "target.spm"


class MappedTokenizer(tokenizer.Tokenizer):
    """Two SentencePiece models whose pieces get their ids from a map.

    OPUS-MT and Marian cut sources with one SentencePiece model and join targets with
    another; the ids of both are in one map. A text may begin with a language token of
    the map, ">>deu<<". M2M-100 has one SentencePiece model, and the id of a language
    before each source and each target.

    Args:
        archive: A zip file, from `pack`.
        kind: "mapped".

    """

    vocabulary_name = "vocabulary.zip"

    def __init__(self, archive: bytes, kind: str = "mapped"):
        settings, source, target = _unpack(archive)
        vocabulary = settings["vocabulary"]
        pieces = [""] * settings["vocab_size"]
        for piece, number in vocabulary.items():
            pieces[number] = piece
        unk_id = vocabulary[_UNKNOWN]
        super().__init__(
            kind=kind,
            vocabulary=archive,
            pieces=pieces,
            unk_id=unk_id,
            **settings["special_ids"],
        )
        self.files: tuple[pathlib.Path, ...] = ()
        self.source_prefix_id = settings["source_prefix_id"]
        self.target_prefix_id = settings["target_prefix_id"]
        self._source = tokenizer.sentencepiece_op(source, tf.string)
        self._target = tokenizer.sentencepiece_op(target, tf.string)
        names = list(vocabulary)
        self._ids = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(names),
                tf.constant([vocabulary[n] for n in names], tf.int32),
            ),
            default_value=unk_id,
        )
        never_written = {unk_id, *settings["special_ids"].values()}
        self.languages = settings.get("languages", {})
        never_written |= set(self.languages.values())
        never_written |= {vocabulary[name] for name in names if _is_language(name)}
        self._is_text = tf.constant(
            [i not in never_written for i in range(len(pieces))]
        )

    @classmethod
    def from_files(
        cls,
        *,
        source: pathlib.Path,
        target: pathlib.Path,
        vocabulary: Mapping[str, int],
        files: Sequence[pathlib.Path],
        **settings: Any,
    ) -> MappedTokenizer:
        """Make a tokenizer from the files of a published model.

        Args:
            source: SentencePiece model of sources.
            target: SentencePiece model of targets.
            vocabulary: Ids by piece.
            files: Other files that were read, for the record.
            **settings: Of `pack`.

        Raises:
            FileNotFoundError: If a file is absent.
            ValueError: If the vocabulary does not fit.
        """
        for path in (source, target):
            if not path.is_file():
                raise FileNotFoundError(
                    f"{path} is absent. Copy the whole folder of the model."
                )
        made = cls(
            pack(source.read_bytes(), target.read_bytes(), vocabulary, **settings)
        )
        made.files = (*dict.fromkeys((source, target)), *files)
        return made

    def with_languages(
        self, source_language: str | None, target_language: str | None
    ) -> tokenizer.Tokenizer:
        if not self.languages or source_language is target_language is None:
            return super().with_languages(source_language, target_language)
        settings, source, target = _unpack(self._vocabulary)
        for name, language in (
            ("source", source_language),
            ("target", target_language),
        ):
            if language is not None:
                check_language(f"{name}_language", language, self.languages)
                settings[f"{name}_prefix_id"] = self.languages[language]
        return MappedTokenizer(pack(source, target, **settings))

    def language_ids(self, codes: tf.Tensor) -> tf.Tensor:
        """Look up languages, in the graph.

        Args:
            codes: string `[batch]`.

        Returns:
            int32 `[batch]`; -1 for an unknown language.
        """
        is_code = codes[:, tf.newaxis] == tf.constant([*self.languages])
        ids = tf.constant([*self.languages.values()], tf.int32)
        return tf.reduce_max(tf.where(is_code, ids, -1), axis=1)

    def sentencepiece_models(self) -> tuple[bytes, bytes, dict[str, int]]:
        """Return the files of the published model; see the base class."""
        settings, source, target = _unpack(self._vocabulary)
        return source, target, settings["vocabulary"]

    def _split(self, text):
        language = tf.strings.regex_replace(text, _LANGUAGE, r"\1")
        language = self._ids.lookup(language)
        has_language = (language != self.unk_id) & tf.strings.regex_full_match(
            text, r"(?s)\s*>>[^<>\s]+<<.*"
        )
        rest = tf.strings.regex_replace(text, _LANGUAGE, r"\2")
        pieces = self._source.tokenize(tf.where(has_language, rest, text))
        tokens = pieces.with_flat_values(self._ids.lookup(pieces.flat_values))
        first = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(language, has_language), tf.cast(has_language, tf.int64)
        )
        return tf.concat(
            [*_prefix(text, self.source_prefix_id), first, tf.cast(tokens, tf.int32)],
            axis=1,
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def tokenize_target(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Split target text into ids with the SentencePiece model of targets."""
        pieces = self._target.tokenize(text)
        tokens = pieces.with_flat_values(self._ids.lookup(pieces.flat_values))
        tokens = tf.cast(tokens, tf.int32)
        return tf.concat([*_prefix(text, self.target_prefix_id), tokens], axis=1)

    def encode_target(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Split target texts into ids outside of the graph."""
        return tokenizer.encode(self.tokenize_target, texts)

    def _join(self, tokens):
        is_text = tokens.with_flat_values(tf.gather(self._is_text, tokens.flat_values))
        tokens = tf.ragged.boolean_mask(tokens, is_text)
        pieces = tokens.with_flat_values(tf.gather(self._pieces, tokens.flat_values))
        return self._target.detokenize(pieces)


def _prefix(text: tf.Tensor, number: int | None) -> list[tf.RaggedTensor]:
    """Return the id that each text begins with, int32 `[batch, (1)]`, if any."""
    if number is None:
        return []
    return [tf.RaggedTensor.from_tensor(tf.fill([tf.shape(text)[0], 1], number))]


def pack(
    source: bytes,
    target: bytes,
    vocabulary: Mapping[str, int],
    special_ids: Mapping[str, int],
    source_prefix_id: int | None = None,
    target_prefix_id: int | None = None,
    vocab_size: int | None = None,
    languages: Mapping[str, int] | None = None,
) -> bytes:
    """Join everything that decides ids in one zip file, the same for the same input.

    Args:
        source: A SentencePiece model.
        target: A SentencePiece model.
        vocabulary: Ids by piece.
        special_ids: "pad_id", "bos_id" and "eos_id".
        source_prefix_id: The id that every source begins with, if any.
        target_prefix_id: The id that every target begins with, if any.
        vocab_size: Number of ids; None: the largest of the map + 1.
        languages: Ids of the languages by code, for a model that is told both languages
            by prefixes.

    Raises:
        ValueError: If the map has no "<unk>", or ids outside of [0, vocab_size).
    """
    largest = max(vocabulary.values(), default=-1)
    vocab_size = largest + 1 if vocab_size is None else vocab_size
    if _UNKNOWN not in vocabulary or largest >= vocab_size:
        raise ValueError(
            f"The vocabulary must have {_UNKNOWN} and ids below {vocab_size}. "
            f"Received: {len(vocabulary)} pieces with ids up to {largest}."
        )
    settings = {
        "vocab_size": vocab_size,
        "special_ids": dict(special_ids),
        "source_prefix_id": source_prefix_id,
        "target_prefix_id": target_prefix_id,
        "vocabulary": dict(vocabulary),
        "languages": dict(languages or {}),
    }
    contents = {
        _SETTINGS: json.dumps(settings, ensure_ascii=False).encode(),
        _SOURCE: source,
        _TARGET: target,
    }
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return written.getvalue()


def _unpack(archive: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    """Return the settings and the SentencePiece models of sources and targets."""
    with zipfile.ZipFile(io.BytesIO(archive)) as stored:
        settings = json.loads(stored.read(_SETTINGS))
        return settings, stored.read(_SOURCE), stored.read(_TARGET)


def check_language(name: str, code: str | None, languages: Collection[str]) -> None:
    """Raise unless a model has a language.

    Args:
        name: Name of the argument, for the message.
        code: Code of the language.
        languages: Codes of all languages of the model.

    Raises:
        ValueError: If it has not.
    """
    if code not in languages:
        raise ValueError(
            f"`{name}` must be one of the model's languages "
            f"({', '.join(sorted(languages))}). Received: {code!r}."
        )


def _is_language(piece: str) -> bool:
    return piece.startswith(">>") and piece.endswith("<<")
