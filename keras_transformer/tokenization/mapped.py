"""Vocabularies of published models: SentencePiece models and a map to ids."""

from __future__ import annotations

import io
import json
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from keras_transformer import language_tokens
from keras_transformer.tokenization import tokenizer

_UNKNOWN = "<unk>"
_SETTINGS, _SOURCE, _TARGET = "settings.json", "source.spm", "target.spm"


class MappedTokenizer(tokenizer.Tokenizer):
    """Two SentencePiece models whose pieces get their ids from a map.

    OPUS-MT and Marian cut sources with one SentencePiece model and join targets with
    another; the ids of both are in one map, or each has a map of its own. A text may
    begin with a language token of the map, ">>deu<<". M2M-100 has one
    SentencePiece model, and the id of a language before each source and each target.

    Args:
        archive: A zip file, from `pack`.
        kind: "mapped".

    """

    vocabulary_name = "vocabulary.zip"

    def __init__(self, archive: bytes, kind: str = "mapped"):
        settings, source, target = _unpack(archive)
        vocabulary = settings["vocabulary"]
        super().__init__(
            kind=kind,
            vocabulary=archive,
            pieces=_in_order(vocabulary, settings["vocab_size"]),
            unk_id=vocabulary[_UNKNOWN],
            **settings["special_ids"],
        )
        self.files: tuple[pathlib.Path, ...] = ()
        self.source_prefix_id = settings["source_prefix_id"]
        self.target_prefix_id = settings["target_prefix_id"]
        self._source = tokenizer.SentencePieceInGraph(source, tf.string)
        self._target = tokenizer.SentencePieceInGraph(target, tf.string)
        self._ids = self._target_ids = _lookup_table(vocabulary)
        self._target_pieces = self._pieces
        target_vocabulary = settings.get("target_vocabulary") or vocabulary
        if target_vocabulary is not vocabulary:
            self.target_vocab_size = settings["target_vocab_size"]
            self._target_ids = _lookup_table(target_vocabulary)
            ordered = _in_order(target_vocabulary, self.target_vocab_size)
            self._target_pieces = tf.constant(ordered)
        self.placeholders = tokenizer.placeholders_of(
            [source, target], [vocabulary, target_vocabulary]
        )
        self.languages = settings.get("languages") or _languages(vocabulary)
        self.markers = tuple(filter(language_tokens.code_of, vocabulary))
        self._target_unk_id = target_vocabulary[_UNKNOWN]
        never_written = {
            self._target_unk_id,
            *settings["special_ids"].values(),
            *settings.get("languages", {}).values(),
            *_languages(target_vocabulary).values(),
        }
        self._is_text = tf.constant(
            [i not in never_written for i in range(len(self._target_pieces))]
        )

    @classmethod
    def from_files(
        cls,
        *,
        source: pathlib.Path,
        target: pathlib.Path,
        vocabularies: Sequence[Mapping[str, int]],
        files: Sequence[pathlib.Path],
        **settings: Any,
    ) -> MappedTokenizer:
        """Make a tokenizer from the files of a published model.

        Args:
            source: SentencePiece model of sources.
            target: SentencePiece model of targets.
            vocabularies: Ids by piece: of both sides, or of sources and of targets.
            files: Other files that were read, for the record.
            **settings: Of `pack`.

        Raises:
            FileNotFoundError: If a file is absent.
            ValueError: If the vocabulary does not fit.
        """
        models = [_read_model(path) for path in (source, target)]
        made = cls(pack(*models, vocabularies, **settings))
        made.files = (*dict.fromkeys((source, target)), *files)
        return made

    def _with_prefixes(
        self, source_language: str | None, target_language: str | None
    ) -> tokenizer.Tokenizer:
        settings, source, target = _unpack(self._vocabulary)
        for name, language in (
            ("source", source_language),
            ("target", target_language),
        ):
            if language is not None:
                language_tokens.check(f"{name}_language", language, self.languages)
                settings[f"{name}_prefix_id"] = self.languages[language]
        vocabularies = [settings.pop("vocabulary")]
        return MappedTokenizer(pack(source, target, vocabularies, **settings))

    @property
    def target_unk_id(self) -> int:
        return self._target_unk_id

    def target_pieces(self, tokens: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        return tf.gather(self._target_pieces, tokens)

    def sentencepiece_models(self) -> tuple[bytes, bytes, dict[str, int]]:
        """Return the files of the published model; see the base class."""
        settings, source, target = _unpack(self._vocabulary)
        return source, target, settings["vocabulary"]

    def _split(self, text):
        pieces = self._source.tokenize(text)
        ids = tf.cast(self._ids.lookup(pieces.flat_values), tf.int32)
        return pieces.with_flat_values(ids)

    def _offsets(self, text):
        return self._source.offsets(text)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tokenize_target(self, text):
        """Split target text into ids with the SentencePiece model of targets."""
        pieces = self._target.tokenize(text)
        tokens = pieces.with_flat_values(self._target_ids.lookup(pieces.flat_values))
        tokens = tf.cast(tokens, tf.int32)
        return tf.concat([*_prefix(text, self.target_prefix_id), tokens], axis=1)

    def _encode_target(self, texts):
        return tokenizer.in_chunks(self._tokenize_target, texts)

    def _join(self, tokens):
        is_text = tokens.with_flat_values(tf.gather(self._is_text, tokens.flat_values))
        tokens = tf.ragged.boolean_mask(tokens, is_text)
        pieces = tokens.with_flat_values(self.target_pieces(tokens.flat_values))
        return self._target.detokenize(pieces)


def pieces_of(path: pathlib.Path) -> list[str]:
    """Return the pieces of a SentencePiece model in the order of their ids.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is damaged; the message names the file.
    """
    model = tokenizer.sentencepiece_processor(_read_model(path))
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]


def _read_model(path: pathlib.Path) -> bytes:
    """Read and check a SentencePiece model; errors as in `pieces_of`."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is absent. Copy the whole folder of the model."
        )
    model = path.read_bytes()
    try:
        tokenizer.sentencepiece_processor(model)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return model


def _lookup_table(vocabulary: Mapping[str, int]) -> tf.lookup.StaticHashTable:
    """Return a table of the ids by piece, with that of unknown text as default."""
    pieces, ids = tf.constant([*vocabulary]), tf.constant([*vocabulary.values()])
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(pieces, tf.cast(ids, tf.int32)),
        default_value=vocabulary[_UNKNOWN],
    )


def _in_order(vocabulary: Mapping[str, int], size: int) -> list[str]:
    """Return the piece of each id; "" where there is none."""
    pieces = [""] * size
    for piece, number in vocabulary.items():
        pieces[number] = piece
    return pieces


def _prefix(text: tf.Tensor, number: int | None) -> list[tf.RaggedTensor]:
    """Return the id that each text begins with, int32 `[batch, (1)]`, if any."""
    if number is None:
        return []
    return [tf.RaggedTensor.from_tensor(tf.fill([tf.shape(text)[0], 1], number))]


def pack(
    source: bytes,
    target: bytes,
    vocabularies: Sequence[Mapping[str, int]],
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
        vocabularies: Ids by piece: of both sides, or of sources and of targets.
        special_ids: "pad_id", "bos_id" and "eos_id".
        source_prefix_id: The id that every source begins with, if any.
        target_prefix_id: The id that every target begins with, if any.
        vocab_size: Number of ids of sources; None: the largest of the map + 1.
        languages: Ids of the languages by code, for a model that is told both languages
            by prefixes.

    Raises:
        ValueError: If a map has no "<unk>", an id twice, or ids outside of
            [0, vocab_size).
    """
    vocabulary, *others = vocabularies
    settings = {
        "vocab_size": _check_map(vocabulary, vocab_size),
        "special_ids": dict(special_ids),
        "source_prefix_id": source_prefix_id,
        "target_prefix_id": target_prefix_id,
        "vocabulary": dict(vocabulary),
        "languages": dict(languages or {}),
    }
    for target_vocabulary in others:
        settings["target_vocab_size"] = _check_map(target_vocabulary)
        settings["target_vocabulary"] = dict(target_vocabulary)
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


def _check_map(vocabulary: Mapping[str, int], size: int | None = None) -> int:
    """Return the number of ids, `size` or one more than the largest; see `pack`."""
    largest = max(vocabulary.values(), default=-1)
    size = largest + 1 if size is None else size
    if _UNKNOWN not in vocabulary or largest >= size:
        raise ValueError(
            f"The vocabulary must have {_UNKNOWN} and ids below {size}. "
            f"Received: {len(vocabulary)} pieces with ids up to {largest}."
        )
    if len(set(vocabulary.values())) < len(vocabulary):
        raise ValueError("Two pieces have the same id in the vocabulary.")
    return size


def _unpack(archive: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    """Return the settings and the SentencePiece models of sources and targets."""
    with zipfile.ZipFile(io.BytesIO(archive)) as stored:
        settings = json.loads(stored.read(_SETTINGS))
        return settings, stored.read(_SOURCE), stored.read(_TARGET)


def _languages(vocabulary: Mapping[str, int]) -> dict[str, int]:
    """Return the ids of the languages that texts of a vocabulary may begin with."""
    codes = [(language_tokens.code_of(piece), i) for piece, i in vocabulary.items()]
    return {code: number for code, number in codes if code}
