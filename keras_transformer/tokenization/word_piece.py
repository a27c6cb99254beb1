"""Word pieces (the paper's EN-FR vocabulary, §5.1), applied by keras_nlp."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator

import sentencepiece
import tensorflow as tf

from keras_transformer import config
from keras_transformer.config import SPACE
from keras_transformer.tokenization import (
    sentence_piece,
    tokenizer,
    training_text,
    units,
)

_SPECIAL_PIECES = ("[PAD]", "[UNK]", "[BOS]", "[EOS]")
_CONTINUATION = "##"
# Text of an unknown piece, which only a model can produce.
_UNKNOWN = " \u2047 "

# The space mark has another meaning in SentencePiece's trainer.
_SPACE_IN_TRAINING = "\ue000"
_SENTENCES_PER_CALL = 4096


class WordPieceTokenizer(tokenizer.Tokenizer):
    """Greedy longest-match word pieces, with marked spaces so that text is restored.

    A text is split into units: a word, or one other character, with "▁" in front if a
    space was there. Pieces inside a unit begin with "##", as usual. A character that is
    not in the vocabulary is written as its code point, so `unk_id` never occurs.

    Args:
        vocabulary: One piece per line, UTF-8, the four special pieces first.
        kind: "wordpiece".

    Raises:
        ValueError: If the vocabulary is not of this form.

    Examples:
        >>> tokenizer = kt.tokenization.train_wordpiece(["one two"] * 9, vocab_size=50)
        >>> isinstance(tokenizer, kt.tokenization.WordPieceTokenizer)
        True
    """

    vocabulary_name = "vocabulary.txt"

    def __init__(self, vocabulary: bytes, kind: str = "wordpiece"):
        import keras_nlp  # the import takes a second; only word pieces need it

        pieces = _parsed(vocabulary)
        super().__init__(
            kind=kind,
            vocabulary=vocabulary,
            pieces=pieces,
            pad_id=config.PAD_ID,
            unk_id=config.UNK_ID,
            bos_id=config.BOS_ID,
            eos_id=config.EOS_ID,
        )
        self._splitter = units.UnitSplitter(_spelled_by(pieces))
        self._surfaces = tf.constant([_surface(piece) for piece in pieces], tf.string)
        self._in_graph = keras_nlp.tokenizers.WordPieceTokenizer(
            vocabulary=pieces,
            split=False,
            lowercase=False,
            strip_accents=False,
            suffix_indicator=_CONTINUATION,
            oov_token=_SPECIAL_PIECES[config.UNK_ID],
        )

    def source_words(self, text):
        tokens = self.tokenize(text)
        pieces = self.pieces(tokens.flat_values)
        begins = tf.strings.regex_full_match(pieces, f"(?s){SPACE}.*")
        # Each text begins with a word.
        numbers = tf.cumsum(tf.cast(begins, tf.int32))
        first = tf.gather(
            numbers, tf.gather(tokens.row_starts(), tokens.value_rowids())
        )
        return tokens.with_flat_values(numbers - first)

    @property
    def target_unk_id(self) -> None:
        return None

    def _split(self, text):
        return self._in_graph.tokenize(self._splitter.split(text))

    def _join(self, tokens):
        surfaces = tf.ragged.map_flat_values(
            lambda ids: tf.gather(self._surfaces, ids), tokens
        )
        return units.join(surfaces)


def train_wordpiece(
    texts: Iterable[str],
    vocab_size: int,
    *,
    character_coverage: float = 0.99999,
    max_sentences: int = 2_000_000,
) -> WordPieceTokenizer:
    """Learn a shared word-piece vocabulary; the same texts give the same fingerprint.

    Args:
        texts: Source and target lines together, read once.
        vocab_size: Total number of ids, including 4 special ids (§5.1: 32,000 for
            EN-FR).
        character_coverage: Share of the text's characters that get their own pieces, in
            [0.98, 1]; the rarest are written as code points.
        max_sentences: Most lines used for training, sampled evenly if there are more.

    Raises:
        ValueError: If the texts are empty, or `vocab_size` is larger than they allow or
            smaller than their characters need; the message has the bound.

    Differs from the paper: the pieces are merges of SentencePiece's BPE trainer within
    units, not those that increase the likelihood most. The trainer of tensorflow-text,
    which keras_nlp uses, took over two minutes for 29,000 different words (Multi30k,
    8,000 pieces), this one seconds; that one may miss the size by 5 %.

    Examples:
        >>> tokenizer = kt.tokenization.train_wordpiece(["one two"] * 9, vocab_size=50)
        >>> tokenizer.decode(tokenizer.encode("two one"))
        'two one'
    """
    config.check_at_least("vocab_size", vocab_size, 1)
    training_text.check_coverage(character_coverage)
    sentences = training_text.sample(texts, max_sentences)
    alphabet = _alphabet(sentences, character_coverage)
    counts = _count_units(sentences, alphabet)
    pieces = dict.fromkeys(itertools.chain(_SPECIAL_PIECES, _spelling(alphabet)))
    if vocab_size < len(pieces):
        raise ValueError(
            f"`vocab_size` must be at least {len(pieces)}: the {len(alphabet)} "
            "characters of the text, each at the start of a word and within one, and "
            f"the special pieces need as many. Received: vocab_size={vocab_size}."
        )
    for piece in _merges(counts, vocab_size):
        if len(pieces) < vocab_size:
            pieces.setdefault(piece)
    if len(pieces) < vocab_size:
        raise ValueError(tokenizer.too_large_message(vocab_size, len(pieces)))
    return WordPieceTokenizer("".join(f"{piece}\n" for piece in pieces).encode())


def _alphabet(sentences: list[str], character_coverage: float) -> set[str]:
    """Return the most frequent characters that cover the given share of the text."""
    counts = collections.Counter()
    for sentence in sentences:
        counts.update(sentence)
    counts = {c: n for c, n in counts.items() if units.can_be_spelled(c)}
    uncovered = sum(counts.values())
    allowed = (1 - character_coverage) * uncovered
    alphabet = set(units.ALWAYS_SPELLED)
    # Equal counts are ordered by character, not by position in the text.
    for character, number in sorted(counts.items(), key=lambda x: (-x[1], x[0])):
        if uncovered <= allowed:
            break
        alphabet.add(character)
        uncovered -= number
    return alphabet


def _count_units(sentences: list[str], alphabet: set[str]) -> collections.Counter[str]:
    """Count the units of all sentences, split by the same ops as at run time."""
    splitter = units.UnitSplitter(alphabet)
    counts = collections.Counter()
    for start in range(0, len(sentences), _SENTENCES_PER_CALL):
        chunk = sentences[start : start + _SENTENCES_PER_CALL]
        found = splitter.split(tf.constant(chunk))
        counts.update(found.flat_values.numpy())
    return collections.Counter({unit.decode(): n for unit, n in counts.items()})


def _spelling(alphabet: set[str]) -> Iterator[str]:
    """Yield the pieces that can spell any unit."""
    yield SPACE
    for character in sorted(alphabet | {units.ESCAPE}):
        yield character
        yield _CONTINUATION + character


def _merges(counts: collections.Counter[str], vocab_size: int) -> Iterator[str]:
    """Yield longer pieces, the most useful first, from SentencePiece's BPE trainer."""
    rows = (
        f"{unit.replace(SPACE, _SPACE_IN_TRAINING)}\t{number}"
        for unit, number in sorted(counts.items())
    )
    proto = sentence_piece.run_trainer(
        rows,
        input_format="tsv",
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="identity",
        split_by_unicode_script=False,
        split_by_number=False,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    for index in range(processor.vocab_size()):
        piece = processor.id_to_piece(index)
        # A row is one unit; the trainer adds U+2581 at its beginning.
        starts_unit = piece.startswith("\u2581")
        piece = piece.removeprefix("\u2581")
        within = piece.removeprefix(_SPACE_IN_TRAINING) if starts_unit else piece
        if not piece or processor.is_control(index) or processor.is_unknown(index):
            continue
        if _SPACE_IN_TRAINING not in within:
            marked = piece.replace(_SPACE_IN_TRAINING, SPACE)
            yield marked if starts_unit else _CONTINUATION + marked


def _parsed(vocabulary: bytes) -> list[str]:
    """Return the lines of a vocabulary file after checking them."""
    try:
        pieces = vocabulary.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"not a word-piece vocabulary ({error}).") from error
    if pieces.pop() != "" or tuple(pieces[:4]) != _SPECIAL_PIECES:
        raise ValueError(
            "not a word-piece vocabulary (its first lines must be "
            f"{', '.join(_SPECIAL_PIECES)}, and its last must end)."
        )
    missing = set(_spelling(set(units.ALWAYS_SPELLED))).difference(pieces)
    if missing or len(set(pieces)) < len(pieces):
        raise ValueError(
            f"not a word-piece vocabulary (pieces missing: {sorted(missing)}; "
            f"pieces given twice: {len(pieces) - len(set(pieces))})."
        )
    return pieces


def _spelled_by(pieces: list[str]) -> list[str]:
    """Return the characters with pieces for any position in a unit, sorted."""
    known = set(pieces)
    characters = sorted(piece for piece in known if len(piece) == 1)
    return [
        character
        for character in characters
        if _CONTINUATION + character in known and units.can_be_spelled(character)
    ]


def _surface(piece: str) -> str:
    """Return the text of a piece, its space still marked."""
    if piece in _SPECIAL_PIECES:
        return _UNKNOWN if piece == _SPECIAL_PIECES[config.UNK_ID] else ""
    return piece.removeprefix(_CONTINUATION) if len(piece) > 2 else piece
