"""The interface of every tokenizer, and the folder it is saved in."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sentencepiece
import tensorflow as tf
from tensorflow_text.python.ops.sentencepiece_tokenizer import (
    gen_sentencepiece_tokenizer as sentencepiece_ops,
)

from keras_transformer import atomic_files, config, given_texts, language_tokens
from keras_transformer.tokenization import sentencepiece_proto
from keras_transformer.wording import shown
from keras_transformer.words import words_of_pieces

# Increases when older folders can no longer be read, or would give other ids.
FORMAT_VERSION = 1
DESCRIPTION_NAME = "tokenizer.json"

# Texts that `encode` and `decode` pass to the graph at once: enough for a small
# overhead per text, few enough that one long line does not pad thousands of short ones.
_TEXTS_PER_CALL = 1024
_SPACES = language_tokens.SPACES

# Arguments of SentencePiece's operations: no special ids, and no random ids.
_PLAIN = {"add_bos": False, "add_eos": False, "reverse": False}
_NO_SAMPLING = {**_PLAIN, "nbest_size": 0, "alpha": 1.0, "return_nbest": False}

# The piece of a placeholder or a tag, which needs no space before it.
PLACEHOLDER = re.compile(
    "|".join(
        re.escape(form).replace(r"\{\}", "[1-9][0-9]*")
        for form in (config.PLACEHOLDER, config.OPENING_TAG, config.CLOSING_TAG)
    )
)


class Tokenizer(tf.Module):
    """Text to subword ids and back, one vocabulary for source and target (§5.1).

    Everything except `encode`, `decode` and `save` runs in the graph: in a
    `tf.function`, a tf.data pipeline, or a SavedModel of a `tf.Module` that owns the
    tokenizer. A program that loads such a SavedModel needs only tensorflow and
    tensorflow_text. Copies and pickles have the vocabulary and make the rest again.

    One text is a string, bytes in UTF-8 or a scalar tensor, and has one answer; several
    texts have as many.

    Encoding and decoding a text changes only this: runs of U+0020 become one space and
    are removed at both ends, and invalid UTF-8 becomes U+FFFD. All other characters
    are preserved, including tabs, line ends, no-break spaces and NUL. There is no
    normalization: "ﬁ", "½" and letters with combining accents stay the same.

    Attributes:
        kind: "bpe", "sentencepiece" (a file made elsewhere) or "wordpiece".
        vocab_size: Number of ids; they are in [0, vocab_size).
        pad_id: Id of padding; never in the ids of a text.
        unk_id: Id of characters that the vocabulary cannot encode.
        bos_id: First id of the decoder's input; never in the ids of a text.
        eos_id: Last id of a sequence; never in the ids of a text.
        fingerprint: Hexadecimal SHA-256 of the vocabulary file, the "tokenizer hash".

    Examples:
        >>> tokenizer.encode("one two").dtype.name
        'int32'
        >>> tokenizer.decode(tokenizer.encode(["one two", "Zürich"]))
        ['one two', 'Zürich']
        >>> tokenizer.tokenize(["one two", "two"]).shape.as_list()  # also in a graph
        [2, None]
    """

    # Ids that every source and every target begins with, such as their languages; None:
    # there is none.
    source_prefix_id: int | None = None
    target_prefix_id: int | None = None
    # Number of ids of targets, if they have a vocabulary of their own; None: they share
    # that of sources. Padding and EOS have the same ids in both.
    target_vocab_size: int | None = None
    # Ids of the languages by code: what sources and targets begin with, or the target
    # languages that a source may begin with.
    languages: Mapping[str, int] = types.MappingProxyType({})

    # Ids of the placeholders and tags by name: pieces such as "<ph1>".
    placeholders: Mapping[str, int] = types.MappingProxyType({})

    # Symbols that a source may begin with and that are no text: languages such as
    # ">>de<<", and tags such as "<news>".
    markers: Sequence[str] = ()

    # Set by a subclass: the vocabulary's file name, beside `DESCRIPTION_NAME`.
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

    def __reduce__(self):
        # Graphs and resources are made again.
        names = ("source_prefix_id", "target_prefix_id")
        state = {name: getattr(self, name) for name in names}
        return type(self), (self._vocabulary, self.kind), state

    def __call__(self, text: Any) -> tf.Tensor | tf.RaggedTensor:
        """Same as `tokenize`."""
        return self.tokenize(text)

    def tokenize(self, text: Any) -> tf.Tensor | tf.RaggedTensor:
        """Split text into ids, in the graph.

        Args:
            text: Strings, UTF-8, of any shape: one text, a list or an array, a tensor,
                dense or ragged.

        Returns:
            int32 `[length]` for one text, `[batch, (length)]` for `[batch]`; no special
            ids are added. The first id of a text that begins with one of
            `language_tokens` is that language, or else `source_prefix_id`. A text that
            begins with a language that the vocabulary does not have has no other ids.

        Raises:
            TypeError: If `text` is no strings.
        """
        return _of_any_shape(self._tokenize, text)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tokenize(self, text):
        if self.source_prefix_id is None and not self.language_tokens:
            return self._split(text)
        prefix_id = -1 if self.source_prefix_id is None else self.source_prefix_id
        return self.tokenize_told(text, tf.fill(tf.shape(text), prefix_id))

    def tokenize_told(self, text: tf.Tensor, prefix_ids: tf.Tensor) -> tf.RaggedTensor:
        """Split sources that are told their languages.

        Args:
            text: string `[batch]`, UTF-8.
            prefix_ids: int32 `[batch]`: what each source begins with, unless it has one
                of `language_tokens`; -1: nothing.
        """
        ids, rest = self._told(text, prefix_ids)
        has_id = ids >= 0
        first = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(ids, has_id), tf.cast(has_id, tf.int64)
        )
        return tf.concat([first, self._split(rest)], axis=1)

    def source_words(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Return the number of the word of each id of `tokenize`, in the graph.

        Args:
            text: string `[batch]`, UTF-8.

        Returns:
            int32 `[batch, (length)]`: from 0, of the words that U+0020 separates; -1
            for a space, and for a language that is not in the text.
        """
        own = -1 if self.source_prefix_id is None else self.source_prefix_id
        ids, rest = self._told(text, tf.fill(tf.shape(text), own))
        length, of_rest = _num_bytes(text), _num_bytes(rest)
        token = f"(?s)^{_SPACES}{language_tokens.TOKEN}"
        after = _num_bytes(tf.strings.regex_replace(text, token, ""))
        # The last byte of a language in the text; none of one that is not.
        last = tf.where(of_rest < length, length - after - 1, length)
        first = tf.RaggedTensor.from_tensor(last[:, None])
        first = tf.ragged.boolean_mask(first, (ids >= 0)[:, None])
        starts, ends = self._offsets(rest)
        shift = (length - of_rest)[:, None]
        return _words_at(
            text,
            tf.concat([first, starts + shift], axis=1),
            tf.concat([first + 1, ends + shift], axis=1),
        )

    def tokenize_target(self, text: Any) -> tf.Tensor | tf.RaggedTensor:
        """Split target text into ids, which never begin with a `language_tokens`.

        Arguments, result and errors are those of `tokenize`.
        """
        return _of_any_shape(self._tokenize_target, text)

    def _tokenize_target(self, text: tf.Tensor) -> tf.RaggedTensor:
        if self.source_prefix_id is None and not self.language_tokens:
            return self._tokenize(text)
        return self._split(text)

    @property
    def language_tokens(self) -> tuple[str, ...]:
        """What a source may begin with to tell its target language, as ">>de<<".

        Empty for models of one pair, and for those that are told both languages by the
        prefixes of sources and targets.
        """
        if self.target_prefix_id is not None:
            return ()
        return tuple(map(language_tokens.token_of, self.languages))

    @property
    def default_language(self) -> str | None:
        """The target language of sources that do not tell theirs; None: any."""
        prefix_id = self.target_prefix_id
        if prefix_id is None:
            prefix_id = self.source_prefix_id
        codes = {number: code for code, number in self.languages.items()}
        return codes.get(prefix_id)

    @property
    def target_unk_id(self) -> int | None:
        """The id of what targets cannot write; None: they can write all characters."""
        return self.unk_id

    @property
    def is_multilingual(self) -> bool:
        """Whether the model writes several languages."""
        return len(self.languages) > 1

    def with_languages(
        self, source_language: str | None, target_language: str | None
    ) -> Tokenizer:
        """Return a multilingual model's tokenizer for another pair of languages.

        A model that is told only the target language, by the beginning of a source,
        accepts any source language. The token of the target language is put before
        each source that does not begin with one.

        Args:
            source_language: Code of the language of sources; None: as it is.
            target_language: Code of the language of targets; None: as it is.

        Raises:
            ValueError: If the model has no such language.
        """
        if source_language is target_language is None:
            return self
        if not (self.is_multilingual or target_language in self.languages):
            raise ValueError(
                "`source_language` and `target_language` are for multilingual models; "
                "this model translates one pair of languages."
            )
        if not self.language_tokens:
            return self._with_prefixes(source_language, target_language)
        if target_language is None:
            return self
        language_tokens.check("target_language", target_language, self.languages)
        chosen = type(self)(self._vocabulary, self.kind)
        chosen.source_prefix_id = self.languages[target_language]
        return chosen

    def _with_prefixes(
        self, source_language: str | None, target_language: str | None
    ) -> Tokenizer:
        """Override this if sources and targets begin with languages."""
        raise NotImplementedError

    def _told(
        self, text: tf.Tensor, prefix_ids: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the id that each source begins with, -1 for none, and the rest."""
        if not (tokens := self.language_tokens):
            return prefix_ids, text
        leading = f"(?s)^{_SPACES}({language_tokens.TOKEN}){_SPACES}(.*)$"
        is_token = tf.strings.regex_replace(text, leading, r"\1")[:, None] == tokens
        ids = tf.where(is_token, [*self.languages.values()], -1)
        ids = tf.reduce_max(ids, axis=1)
        is_known = ids >= 0
        is_unknown = ~is_known & tf.strings.regex_full_match(
            text, f"(?s){_SPACES}{language_tokens.LIKELY_TOKEN}.*"
        )
        rest = tf.strings.regex_replace(text, leading, r"\2")
        rest = tf.where(is_known, rest, tf.where(is_unknown, "", text))
        return tf.where(is_known, ids, prefix_ids), rest

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

    def detokenize(self, tokens: Any) -> tf.Tensor | tf.RaggedTensor:
        """Join ids into text, in the graph.

        Args:
            tokens: integer `[length]`, `[batch, length]` or with more axes: lists, an
                array, a tensor, dense or ragged. A row ends before its first `eos_id`;
                `pad_id` and `bos_id` are skipped.

        Returns:
            string, UTF-8, without the last axis of `tokens`. Invalid UTF-8, which only
            a model can produce, becomes U+FFFD.

        Raises:
            TypeError: If `tokens` are no integers.
            ValueError: If `tokens` is a single id, or an id is not in the vocabulary.
        """
        tokens = self._checked_ids(tokens)
        if tokens.shape.rank == 1:
            return self._detokenize(tokens[tf.newaxis])[0]
        is_ragged = isinstance(tokens, tf.RaggedTensor)
        if tokens.shape.rank > 2:
            if not is_ragged:
                tokens = tf.RaggedTensor.from_tensor(tokens)
            return tokens.with_values(self.detokenize(tokens.values))
        return self._detokenize(tokens.to_tensor(self.pad_id) if is_ragged else tokens)

    def _checked_ids(self, tokens: Any) -> tf.Tensor | tf.RaggedTensor:
        """Return ids of targets as int32, checked where their values are known."""
        tokens = _tensor("tokens", tokens, tf.int32)
        if not tokens.shape.rank:
            raise ValueError(
                "`tokens` must be the ids of a text or of several. Received: "
                f"{shown(tokens)}."
            )
        size = self.target_vocab_size or self.vocab_size
        flat = tokens.flat_values if isinstance(tokens, tf.RaggedTensor) else tokens
        ids = flat.numpy() if tf.executing_eagerly() else np.zeros(0)
        if len(wrong := ids[(ids < 0) | (ids >= size)]):
            raise ValueError(
                f"`tokens` must be ids in [0, {size:,}). Received: {wrong[0]:,}."
            )
        return tf.cast(tokens, tf.int32)

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False
    )
    def _detokenize(self, tokens):
        has_ended = tf.cumsum(tf.cast(tokens == self.eos_id, tf.int32), axis=1) > 0
        is_text = ~has_ended & (tokens != self.pad_id) & (tokens != self.bos_id)
        return self._join(tf.ragged.boolean_mask(tokens, is_text))

    def pieces(self, tokens: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Return the vocabulary entry of every id, in the graph.

        Args:
            tokens: integer, any shape, dense or ragged.

        Returns:
            string, same shape; "" for `pad_id`. "▁" stands for the space before a
            piece.
        """
        return tf.gather(self._pieces, tokens)

    def target_pieces(self, tokens: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Return the vocabulary entry of every id of a target; see `pieces`."""
        return self.pieces(tokens)

    def words_of_tokens(
        self,
        texts: Sequence[str],
        tokens: Sequence[np.ndarray],
        is_target: bool = False,
    ) -> list[np.ndarray | None]:
        """Return the number of the word that each token of some texts belongs to.

        Args:
            texts: Sources or targets.
            tokens: The ids of each text, such as those of `encode` or `sample`.
            is_target: Whether the texts are targets.

        Returns:
            As `words_of_pieces` returns it for each text.
        """
        pieces_of = self.target_pieces if is_target else self.pieces
        flat = iter(pieces_of(np.concatenate([*tokens, np.zeros(0, np.int32)])).numpy())
        return [
            words_of_pieces(
                text,
                [
                    piece.decode("utf-8", "replace")
                    for piece in itertools.islice(flat, len(ids))
                ],
            )
            for text, ids in zip(texts, tokens, strict=True)
        ]

    def encode(self, texts: Any) -> np.ndarray | list[np.ndarray]:
        """Split texts into ids outside of the graph; the same ids as `tokenize`.

        Args:
            texts: One text, or what yields several, such as a list or a dataset.

        Returns:
            int32 `[length]` for one text; a list of as many for several.

        Raises:
            TypeError: If a text is no string.
            ValueError: If a text has half of a surrogate pair, which has no UTF-8.
        """
        return _one_or_all(self._encode, texts)

    def _encode(self, texts: list[str | bytes]) -> list[np.ndarray]:
        return in_chunks(self._tokenize, texts)

    def has_symbol(self, symbol: str) -> bool:
        """Return whether a tag or language such as "<news>" is one piece."""
        pieces = self.pieces(self.encode(symbol)[-1:]).numpy()
        return len(pieces) > 0 and pieces[0].decode().lstrip("\u2581") == symbol

    def encode_target(self, texts: Any) -> np.ndarray | list[np.ndarray]:
        """Split target texts into ids; the same as `encode` in shared vocabularies."""
        return _one_or_all(self._encode_target, texts)

    def _encode_target(self, texts: list[str | bytes]) -> list[np.ndarray]:
        return self._encode(texts)

    def sample(
        self, texts: Sequence[str], dropout: float, seed: int
    ) -> list[np.ndarray]:
        """Split texts into random ids that decode to the same texts.

        Args:
            texts: Sources or targets.
            dropout: Probability that BPE leaves out a merge.
            seed: The same seed gives the same ids within a process, in another process
                others: SentencePiece salts it. In [0, 2 ** 31).

        Raises:
            ValueError: If the vocabulary is not one of BPE that was trained here.
        """
        raise ValueError(
            f"A vocabulary of the kind {self.kind} has no known merges to leave out. "
            "Use --subword_encodings=1, or a vocabulary that --tokenizer=bpe trained."
        )

    def encode_rows(self, texts: Any, is_target: bool = False) -> np.ndarray:
        """Split texts into padded rows of ids for a model.

        Returns:
            int32 `[num_texts, longest]`, one row for one text: the ids of a text,
            `eos_id`, then `pad_id`.
        """
        encode = self._encode_target if is_target else self._encode
        rows = encode(given_texts.as_list(texts))
        ended = [np.append(tokens, self.eos_id) for tokens in rows]
        return _padded(ended, self.pad_id)

    def decode(self, tokens: Any) -> str | list[str]:
        """Join ids into texts outside of the graph; the same text as `detokenize`.

        Args:
            tokens: The ids of one text, or one sequence of ids per text.

        Returns:
            A string for one text; a list of strings, one per sequence, for several.

        Raises:
            TypeError: If `tokens` are no integers.
            ValueError: If an id is not in the vocabulary.
        """
        tokens = self._checked_ids(tokens)
        if tokens.shape.rank == 1 and 0 not in tokens.shape:
            return self.decode(tokens[tf.newaxis])[0]
        rows = [
            row
            for start in range(0, tokens.shape[0], _TEXTS_PER_CALL)
            for row in self.detokenize(tokens[start : start + _TEXTS_PER_CALL]).numpy()
        ]
        return [row.decode("utf-8", "replace") for row in rows]

    def save(self, directory: str | os.PathLike) -> None:
        """Write `tokenizer.json` and the vocabulary atomically.

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

    def sentencepiece_models(self) -> tuple[bytes, bytes, dict[str, int]]:
        """Return the tokenizer in the form of Marian.

        Returns:
            The SentencePiece models of sources and of targets, and the id of each
            piece. Padding is called "<pad>", EOS "</s>" and unknown text "<unk>".

        Raises:
            ValueError: If it has no SentencePiece models, or two ids have one piece.
        """
        raise ValueError(
            f"A vocabulary of the kind {self.kind} has no SentencePiece model. Use a "
            "model that was trained with bin/prepare_data.py --tokenizer=bpe."
        )

    def ids(self) -> dict[str, int]:
        """Return the sizes of the vocabularies and the special ids."""
        names = ["vocab_size", "pad_id", "unk_id", "bos_id", "eos_id"]
        if self.target_vocab_size is not None:
            names.append("target_vocab_size")
        return {name: getattr(self, name) for name in names}

    def _split(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Override this: string `[batch]` to int32 `[batch, (length)]`."""
        raise NotImplementedError

    def _offsets(self, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Override this: the first byte of each id of `_split`, and that after it."""
        raise NotImplementedError

    def _join(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """Override this: int32 `[batch, (length)]` without special ids to `[batch]`."""
        raise NotImplementedError


def _num_bytes(text: tf.Tensor) -> tf.Tensor:
    """Return the length of each text in bytes, int64."""
    return tf.cast(tf.strings.length(text), tf.int64)


def _words_at(
    text: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> tf.RaggedTensor:
    """Return the word of the last byte of each range, -1 for spaces and the end.

    A range without bytes is the beginning of a character, such as a byte of it, and is
    that of the character.

    Args:
        text: string `[batch]`.
        starts: int64 `[batch, (length)]`, the first byte of each range.
        ends: The byte after each range.
    """
    row_bytes = tf.strings.bytes_split(text).to_tensor(" ")
    is_letter = tf.pad(row_bytes != " ", [[0, 0], [1, 0]])
    begins = is_letter[:, 1:] & ~is_letter[:, :-1]
    # By position: letters and words that begin before it.
    letters = tf.cumsum(tf.cast(is_letter, tf.int32), axis=1)
    words = tf.cumsum(tf.cast(tf.pad(begins, [[0, 0], [1, 0]]), tf.int32), axis=1)
    last = tf.shape(letters, tf.int64)[1] - 1
    rows = starts.value_rowids()
    first = tf.minimum(starts.flat_values, last)
    after = tf.minimum(tf.maximum(ends.flat_values, first + 1), last)
    before, here = (
        tf.gather_nd(letters, tf.stack([rows, place], axis=1))
        for place in (first, after)
    )
    number = tf.gather_nd(words, tf.stack([rows, after], axis=1)) - 1
    return starts.with_flat_values(tf.where(here > before, number, -1))


class SentencePieceInGraph(tf.saved_model.experimental.TrackableResource):
    """A SentencePiece model that runs in the graph and outlives cleared sessions.

    The model of a `tensorflow_text.SentencepieceTokenizer` 2.21 belongs to the kernel
    that makes it, with which `keras.utils.set_random_seed` and `clear_session` destroy
    it. One with a name stays until the process ends. The name tells its content,
    because loaded SavedModels share resources by name.

    Args:
        model: The bytes of a SentencePiece model file.
        out_type: tf.int32 for ids, tf.string for pieces.
    """

    def __init__(self, model: bytes, out_type: tf.DType):
        super().__init__()
        self._model = model
        self._out_type = out_type
        _ = self.resource_handle  # makes it

    def _create_resource(self):
        name = f"sentencepiece_{fingerprint_of(self._model)[:16]}"
        with tf.name_scope(name):
            return sentencepiece_ops.sentencepiece_op(
                model=self._model, shared_name=name
            )

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Split string `[batch]` into ids or pieces, `[batch, (length)]`."""
        values, splits = sentencepiece_ops.sentencepiece_tokenize_op(
            self.resource_handle, text, **_NO_SAMPLING, out_type=self._out_type
        )
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

    def offsets(self, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Return the first byte of each piece of `tokenize`, and that after it."""
        _, splits, *offsets = sentencepiece_ops.sentencepiece_tokenize_with_offsets_op(
            self.resource_handle, text, **_NO_SAMPLING, out_type=self._out_type
        )
        starts, ends = (
            tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            for values in offsets
        )
        return starts, ends

    def detokenize(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """Join ids or pieces, `[batch, (length)]`, into string `[batch]`."""
        return sentencepiece_ops.sentencepiece_detokenize_op(
            self.resource_handle, tokens.values, tokens.row_splits, **_PLAIN
        )


def sentencepiece_processor(proto: bytes) -> sentencepiece.SentencePieceProcessor:
    """Return a SentencePiece model outside of the graph.

    Raises:
        ValueError: If `proto` is not a SentencePiece model.
    """
    try:
        if proto:  # SentencePiece accepts an empty one and has no model then
            return sentencepiece.SentencePieceProcessor(model_proto=proto)
    except RuntimeError as error:
        raise ValueError(f"not a SentencePiece model ({error}).") from error
    raise ValueError("not a SentencePiece model (it is empty).")


def has_byte_fallback(model: sentencepiece.SentencePieceProcessor) -> bool:
    """Return whether a SentencePiece model writes every character, by its bytes."""
    return model.is_byte(model.piece_to_id("<0x00>"))


def placeholders_of(
    models: Sequence[bytes], vocabularies: Sequence[Mapping[str, int]]
) -> dict[str, int]:
    """Return the ids of the placeholders and tags that texts can have, by name.

    Args:
        models: SentencePiece models of sources and of targets.
        vocabularies: The ids of their pieces, which must be the same in both.
    """
    first, *others = vocabularies
    found = {
        piece: number
        for piece, number in first.items()
        if PLACEHOLDER.fullmatch(piece)
        and all(other.get(piece) == number for other in others)
    }
    for model in models if found else ():
        symbols = sentencepiece_proto.symbols_of(model)
        found = {piece: found[piece] for piece in found if piece in symbols}
    return found


def fingerprint_of(vocabulary: bytes) -> str:
    """Return the hexadecimal SHA-256 that identifies a vocabulary."""
    return hashlib.sha256(vocabulary).hexdigest()


def too_large_message(vocab_size: int, largest: int) -> str:
    """Return the message for a `vocab_size` that the text is too small for."""
    return (
        f"`vocab_size` must be at most {largest}: the text allows no more. "
        f"Received: vocab_size={vocab_size}. Pass --vocab_size={largest} or less, or "
        "give more text."
    )


def _one_or_all(
    encode: Callable[[list[str | bytes]], list[np.ndarray]], texts: Any
) -> np.ndarray | list[np.ndarray]:
    """Return the ids of one text, or a list of those of several."""
    rows = encode(given_texts.as_list(texts))
    return rows[0] if given_texts.is_one(texts) else rows


def in_chunks(
    tokenize: Callable[[tf.Tensor], tf.RaggedTensor], texts: Sequence[str | bytes]
) -> list[np.ndarray]:
    """Split texts into ids in chunks; returns int32 `[length]` for each."""
    encoded = []
    for start in range(0, len(texts), _TEXTS_PER_CALL):
        chunk = texts[start : start + _TEXTS_PER_CALL]
        tokens = tokenize(tf.constant(chunk, tf.string))
        splits = tokens.row_splits.numpy()[1:-1]
        encoded.extend(np.split(tokens.flat_values.numpy(), splits))
    return encoded


def _of_any_shape(split: Callable[[tf.Tensor], tf.RaggedTensor], text: Any) -> Any:
    """Apply a function of string `[batch]` to strings of any shape."""
    text = _tensor("text", text, tf.string)
    if isinstance(text, tf.RaggedTensor):
        return text.with_flat_values(_of_any_shape(split, text.flat_values))
    rank = text.shape.rank
    if rank == 0:
        return split(text[tf.newaxis]).values
    if rank == 1:
        return split(text)
    rows = tf.RaggedTensor.from_tensor(text, ragged_rank=rank - 1)
    return _of_any_shape(split, rows)


def _tensor(name: str, values: Any, dtype: tf.DType) -> tf.Tensor | tf.RaggedTensor:
    """Return an argument as a tensor of strings or of integers.

    Args:
        name: Name of the argument, for the message.
        values: A tensor, dense or ragged, an array or nested lists.
        dtype: tf.string, or tf.int32 for all integers.

    Raises:
        TypeError: If the values are others, or the number of axes is unknown.
    """
    tensor = values
    if not isinstance(values, tf.Tensor | tf.RaggedTensor):
        tensor = _converted(values)
    is_right = tensor is not None and tensor.shape.rank is not None
    if is_right and tensor.dtype != dtype:
        if 0 in getattr(tensor, "flat_values", tensor).shape.as_list():
            # Lists without items are floats.
            return tf.ragged.map_flat_values(tf.zeros_like, tensor, dtype)
        is_right = dtype.is_integer and tensor.dtype.is_integer
    if not is_right:
        needed = "integers" if dtype.is_integer else "strings"
        raise TypeError(f"`{name}` must be {needed}. Received: {shown(values)}.")
    return tensor


def _converted(values: Any) -> tf.Tensor | tf.RaggedTensor | None:
    """Return values as a tensor, ragged if need be; None if they are not possible.

    Of rows such as [[], [5]], `tf.convert_to_tensor` makes empty ones, and
    `tf.ragged.constant` too if they are arrays.
    """
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = values.tolist()
    is_nested = isinstance(values, list | tuple)
    convert = tf.ragged.constant if is_nested else tf.convert_to_tensor
    try:
        return convert(_as_lists(values))
    except (TypeError, ValueError):
        return None


def _as_lists(values: Any) -> Any:
    """Return nested lists without arrays and tensors."""
    if isinstance(values, list | tuple):
        return [*map(_as_lists, values)]
    if hasattr(values, "numpy"):
        values = values.numpy()
    return values.tolist() if isinstance(values, np.ndarray) else values


def _padded(rows: Sequence[Sequence[int]], pad_id: int) -> np.ndarray:
    """Return int32 `[len(rows), longest]`, padded at the end with `pad_id`."""
    longest = max((len(row) for row in rows), default=0)
    padded = np.full((len(rows), longest), pad_id, np.int32)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded
