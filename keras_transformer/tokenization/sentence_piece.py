"""Byte-pair encoding through SentencePiece (the paper's EN-DE vocabulary, §5.1)."""

from __future__ import annotations

import io
import os
import pathlib
import re
import tempfile
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import sentencepiece
import tensorflow as tf

from keras_transformer import config, given_texts, language_tokens
from keras_transformer.tokenization import (
    sentencepiece_proto,
    tokenizer,
    training_text,
)

# SentencePiece represents a space by U+2581, so a U+2581 in the text would be decoded
# as a space. These rules, which the model file contains, replace it by U+FDD0 and "1",
# and U+FDD0 (which Unicode reserves for internal use) by U+FDD0 and "0".
_NORMALIZATION_RULES = "2581\tFDD0 31\nFDD0\tFDD0 30\n"
_DENORMALIZATION_RULES = "FDD0 31\t2581\nFDD0 30\tFDD0\n"

_SPACE = "\u2581"
# Byte fallback has one id for each byte, so that any character can be encoded.
_NUM_BYTES = 256
_NUM_SPECIAL_IDS = 4
_KEEP = "surrogateescape"


class SentencePieceTokenizer(tokenizer.Tokenizer):
    """A SentencePiece model, trained by `train_bpe` or loaded from any file.

    A file made elsewhere has its own normalization and may lack byte fallback: unknown
    characters then become `unk_id`. Missing ids for padding, BOS and EOS are appended
    to its vocabulary in this order.

    Args:
        proto: The bytes of a SentencePiece model file.
        kind: "bpe" if `train_bpe` made it, else "sentencepiece".

    Raises:
        ValueError: If `proto` is not a SentencePiece model.

    Examples:
        >>> with open("spiece.model", "rb") as file:
        ...     tokenizer = kt.tokenization.SentencePieceTokenizer(file.read())
        ...
        >>> tokenizer.vocab_size
        100
    """

    vocabulary_name = "sentencepiece.model"

    def __init__(self, proto: bytes, kind: str = "sentencepiece"):
        self._processor = tokenizer.sentencepiece_processor(proto)
        names = self._processor.id_to_piece(list(range(len(self._processor))))
        special_ids = {"unk_id": self._processor.unk_id()}
        for name, shown in (("pad_id", "<pad>"), ("bos_id", "<s>"), ("eos_id", "</s>")):
            special_ids[name] = getattr(self._processor, name)()
            if special_ids[name] < 0:
                special_ids[name] = len(names)
                names.append(shown)
        super().__init__(kind=kind, vocabulary=proto, pieces=names, **special_ids)
        codes = [(language_tokens.code_of(name), i) for i, name in enumerate(names)]
        self.languages = {code: number for code, number in codes if code}
        ids = {name: number for number, name in enumerate(names)}
        self.placeholders = tokenizer.placeholders_of([proto], [ids])
        self.markers = _markers(proto)
        self._in_graph = tokenizer.SentencePieceInGraph(proto, tf.int32)

    @property
    def target_unk_id(self) -> int | None:
        return None if tokenizer.has_byte_fallback(self._processor) else self.unk_id

    def _encode(self, texts):
        """Split texts into ids with SentencePiece's threads; see the base class."""
        tokens = frozenset(self.language_tokens)
        told = [self._divided(text, tokens) for text in texts]
        rows = self._encode_target([rest for _, rest in told])
        return [
            row if number is None else np.insert(row, 0, number)
            for row, (number, _) in zip(rows, told, strict=True)
        ]

    def _divided(
        self, text: str | bytes, tokens: Collection[str]
    ) -> tuple[int | None, str | bytes]:
        """Return the id that a source begins with, if any, and the rest; as `_told`."""
        if isinstance(text, bytes):  # with surrogates for what is not valid UTF-8
            number, rest = self._divided(text.decode(errors=_KEEP), tokens)
            return number, rest.encode(errors=_KEEP)
        token, rest = language_tokens.divide(text, tokens)
        if token:
            return self.languages[language_tokens.code_of(token)], rest
        is_unknown = language_tokens.unknown(text, tokens)
        return self.source_prefix_id, "" if is_unknown else text

    def _encode_target(self, texts):
        """Split texts into ids, without a language before them."""
        rows = self._processor.encode(texts, num_threads=os.cpu_count() or 1)
        return [np.array(row, np.int32) for row in rows]

    def sample(
        self, texts: Sequence[str], dropout: float, seed: int
    ) -> list[np.ndarray]:
        """Split texts into random ids by BPE-dropout; see the base class."""
        if self.kind != "bpe":
            return super().sample(texts, dropout, seed)
        # Every call has a new thread, whose random numbers begin with this seed.
        sentencepiece.set_random_generator_seed(seed)
        rows = self._processor.encode(
            given_texts.as_list(texts),
            enable_sampling=True,
            alpha=dropout,
            nbest_size=-1,
            num_threads=1,
        )
        return [np.array(row, np.int32) for row in rows]

    def sentencepiece_models(self) -> tuple[bytes, bytes, dict[str, int]]:
        """Return the model twice, and the id of each piece; see the base class."""
        pieces = [piece.decode("utf-8") for piece in self._pieces.numpy()]
        pieces[self.pad_id], pieces[self.eos_id] = "<pad>", "</s>"
        pieces[self.unk_id] = "<unk>"
        for code, number in self.languages.items():
            # Marian looks languages up without a space.
            pieces[number] = language_tokens.token_of(code)
        ids = {piece: number for number, piece in enumerate(pieces)}
        if len(ids) < len(pieces):
            raise ValueError(
                "Every id needs a piece of its own. Received: "
                f"{len(pieces) - len(ids)} duplicates among {len(pieces)} pieces."
            )
        return self._vocabulary, self._vocabulary, ids

    def _split(self, text):
        return self._in_graph.tokenize(text)

    def _offsets(self, text):
        return self._in_graph.offsets(text)

    def _join(self, tokens):
        return self._in_graph.detokenize(tokens)


def from_sentencepiece_file(path: str | os.PathLike) -> SentencePieceTokenizer:
    """Make a tokenizer from a SentencePiece model file of any model type.

    Raises:
        FileNotFoundError: If the file is absent.
        ValueError: If it is not a SentencePiece model.

    Examples:
        >>> tokenizer = kt.tokenization.from_sentencepiece_file("spiece.model")
        >>> tokenizer.decode(tokenizer.encode("one two"))
        'one two'
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"No SentencePiece model at {path}. Name the .model file that "
            "spm_train wrote."
        )
    try:
        return SentencePieceTokenizer(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    *,
    character_coverage: float = 0.99999,
    split_digits: bool = False,
    symbols: Sequence[str] = (),
    max_sentences: int = 2_000_000,
) -> SentencePieceTokenizer:
    """Learn a shared BPE vocabulary; the same texts give the same fingerprint.

    Args:
        texts: Source and target lines together, read once.
        vocab_size: Total number of ids, including 4 special ids and 256 bytes (§5.1:
            about 37,000 for EN-DE).
        character_coverage: Share of the text's characters that get their own id, in
            [0.98, 1]; the rarest are encoded as bytes.
        split_digits: Whether every digit is a separate piece, so that unseen numbers
            are encoded like others.
        symbols: Words such as "<news>", ">>de<<" or "<ph1>" that get a piece of their
            own; they have no spaces. They are never split, after a space and at the
            beginning of a text, and those of `config.PairEncoding.symbols` anywhere.
        max_sentences: Most lines used for training, sampled evenly if there are more.
            It bounds time and memory.

    Raises:
        ValueError: If the texts are empty, or `vocab_size` is larger than they allow or
            smaller than their characters need; the message has the bound.

    Examples:
        >>> tokenizer = kt.tokenization.train_bpe(
        ...     ["one two", "eins zwei"] * 9, vocab_size=280
        ... )
        >>> tokenizer.decode(tokenizer.encode("two one"))
        'two one'
    """
    config.check_at_least("vocab_size", vocab_size, 1)
    training_text.check_coverage(character_coverage)
    sentences = training_text.sample(texts, max_sentences)
    with tempfile.TemporaryDirectory() as folder:
        proto = run_trainer(
            sentences,
            vocab_size=vocab_size,
            character_coverage=character_coverage,
            split_digits=split_digits,
            byte_fallback=True,
            pad_id=config.PAD_ID,
            unk_id=config.UNK_ID,
            bos_id=config.BOS_ID,
            eos_id=config.EOS_ID,
            user_defined_symbols=[symbol_piece(symbol) for symbol in symbols],
            **_rule_files(pathlib.Path(folder)),
        )
    return SentencePieceTokenizer(_without_paths(proto), kind="bpe")


def is_symbol(word: str) -> bool:
    """Return whether a word is a tag, a target language or a placeholder."""
    forms = (config.TAG, tokenizer.PLACEHOLDER)
    return bool(
        language_tokens.code_of(word) or any(form.fullmatch(word) for form in forms)
    )


def _markers(proto: bytes) -> tuple[str, ...]:
    """Return the languages and tags that a vocabulary was trained with."""
    model = sentencepiece_proto.ModelProto.FromString(proto)
    given = (
        each.piece.removeprefix(_SPACE)
        for each in model.pieces
        if each.type == sentencepiece_proto.USER_DEFINED
        and each.piece.startswith(_SPACE)
    )
    return tuple(filter(is_symbol, given))


def symbol_piece(symbol: str) -> str:
    """Return the piece of a symbol."""
    if tokenizer.PLACEHOLDER.fullmatch(symbol):
        return symbol
    # With the space before it, a symbol is one token instead of two.
    return _SPACE + symbol


def run_trainer(sentences: Iterable[str], *, vocab_size: int, **options) -> bytes:
    """Run SentencePiece's BPE trainer silently and translate its errors.

    Args:
        sentences: Lines from `training_text.sentences`.
        vocab_size: As in `train_bpe`.
        **options: Passed on to `sentencepiece.SentencePieceTrainer.train`.

    Returns:
        The bytes of the model.

    Raises:
        ValueError: If the sentences do not allow `vocab_size`.
    """
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=written,
            model_type="bpe",
            vocab_size=vocab_size,
            max_sentence_length=training_text.MAX_BYTES,
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        raise _translated(error, vocab_size) from error
    return written.getvalue()


def _translated(error: RuntimeError, vocab_size: int) -> Exception:
    """Translate an error of SentencePiece, which reports bad input as failed checks."""
    if largest := re.search(r"set it to a value <= (\d+)", str(error)):
        return ValueError(tokenizer.too_large_message(vocab_size, int(largest[1])))
    if smallest := re.search(r"smaller than required_chars. \d+ vs (\d+)", str(error)):
        return ValueError(
            f"`vocab_size` must be at least {smallest[1]}: the characters of the text, "
            f"{_NUM_BYTES} bytes, {_NUM_SPECIAL_IDS} special ids, tags, languages and "
            f"placeholders need as many. Received: vocab_size={vocab_size}."
        )
    return error


def _rule_files(folder: pathlib.Path) -> dict[str, str]:
    """Write the rules to files, the only form in which SentencePiece takes them."""
    paths = {}
    for name, rules in (
        ("normalization_rule_tsv", _NORMALIZATION_RULES),
        ("denormalization_rule_tsv", _DENORMALIZATION_RULES),
    ):
        path = folder / f"{name}.tsv"
        path.write_text(rules, encoding="utf-8")
        paths[name] = str(path)
    return paths


def _without_paths(proto: bytes) -> bytes:
    """Remove the temporary paths of the rule files, which change the fingerprint."""
    model = sentencepiece_proto.ModelProto.FromString(proto)
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    model.denormalizer_spec.ClearField("normalization_rule_tsv")
    return model.SerializeToString(deterministic=True)
