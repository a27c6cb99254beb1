"""More pieces for a BPE vocabulary: a new domain, a new language, tags.

Byte-pair encoding goes on where it ended: a new piece joins two that stand side by side
in the new text after all merges of the old vocabulary. SentencePiece applies merges in
the order in which they were learned, so text in which no such pieces stand side by side
is split as before.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import itertools
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from keras_transformer.config import SPACE
from keras_transformer.tokenization import sentencepiece_proto, training_text
from keras_transformer.tokenization.sentence_piece import (
    SentencePieceTokenizer,
    is_symbol,
    symbol_piece,
)

# A pair that occurs once is no piece.
_LEAST_COUNT = 2
# Characters of the longest piece that SentencePiece's trainer makes.
_MOST_CHARACTERS = 16
# Characters outside of the vocabulary that stay bytes: the rarest, with this share.
_UNCOVERED = 1e-5


@dataclasses.dataclass(frozen=True)
class Extension:
    """A vocabulary with more pieces; the ids of the old ones stay."""

    tokenizer: SentencePieceTokenizer
    # New pieces in the order of their ids, which follow the old ones.
    symbols: tuple[str, ...]
    characters: tuple[str, ...]
    merges: tuple[str, ...]
    # The old ids that each new piece stands for.
    replaced: tuple[tuple[int, ...], ...]


def extend(
    tokenizer: SentencePieceTokenizer,
    texts: Iterable[str],
    num_pieces: int,
    *,
    symbols: Sequence[str] = (),
    neighbours: np.ndarray | None = None,
) -> Extension:
    """Add pieces that shorten a text.

    Args:
        tokenizer: A vocabulary of `train_bpe`.
        texts: Lines of the new domain or language, sources and targets together.
        num_pieces: Most pieces to add, beside the symbols: first characters that the
            vocabulary lacks, then the most frequent pairs of pieces.
        symbols: Same as in `train_bpe`.
        neighbours: Ids that follow each other in text that must be split as before,
            int `[pairs, 2]`; None: there is no such text.

    Raises:
        ValueError: If the vocabulary is of another kind or has a symbol, or there is
            nothing to add.
    """
    _check(tokenizer, symbols)
    names = _names(tokenizer)
    ids = {name: number for number, name in enumerate(names)}
    pairs = set() if neighbours is None else set(map(tuple, neighbours.tolist()))
    sentences = list(training_text.sentences(texts)) if num_pieces else []

    used = set(itertools.chain.from_iterable(pairs))
    characters = {}
    for character in _uncovered(sentences, ids)[:num_pieces]:
        parts = tuple(ids[f"<0x{byte:02X}>"] for byte in character.encode())
        if used.issuperset(parts) and pairs.issuperset(itertools.pairwise(parts)):
            continue  # the old text may have it
        characters[character] = parts
    with_characters = _appended(tokenizer, (), characters)
    merges = _merges(
        _words(with_characters, sentences),
        num_pieces - len(characters),
        taken={*names, *characters}
        | {names[first] + names[second] for first, second in pairs},
        splits_digits=_proto(tokenizer).trainer_spec.split_digits,
    )
    replaced = {
        **{
            symbol: tuple(tokenizer.encode_target([symbol])[0].tolist())
            for symbol in symbols
        },
        **characters,
    }
    for first, second in merges:
        replaced[first + second] = sum(
            (replaced.get(part) or (ids[part],) for part in (first, second)), ()
        )
    if not replaced:
        raise ValueError(
            "No piece could be added: no two pieces occur side by side in the text "
            f"{_LEAST_COUNT} times, or they do so in the old text too. Give more text, "
            "or --resplit to let new pieces shorten the old text."
        )
    joined = tuple(map("".join, merges))
    return Extension(
        tokenizer=_appended(tokenizer, symbols, [*characters, *joined]),
        symbols=tuple(symbols),
        characters=tuple(characters),
        merges=joined,
        replaced=tuple(replaced.values()),
    )


def _check(tokenizer: SentencePieceTokenizer, symbols: Sequence[str]) -> None:
    if tokenizer.kind != "bpe":
        raise ValueError(
            f"A vocabulary of the kind {tokenizer.kind} has no known merges to go on "
            "from. Only vocabularies that bin/prepare_data.py --tokenizer=bpe trained "
            "can be extended."
        )
    for symbol in symbols:
        if not is_symbol(symbol):
            raise ValueError(
                "`symbols` must be tags such as <bt>, or languages such as >>de<<. "
                f"Received: {symbol!r}."
            )
        if tokenizer.has_symbol(symbol) or list(symbols).count(symbol) > 1:
            raise ValueError(f"The vocabulary has {symbol} already. Leave it out.")


def _names(tokenizer: SentencePieceTokenizer) -> list[str]:
    pieces = tokenizer.pieces(np.arange(tokenizer.vocab_size)).numpy()
    return [piece.decode() for piece in pieces]


def _proto(tokenizer: SentencePieceTokenizer) -> Any:
    proto, _, _ = tokenizer.sentencepiece_models()
    return sentencepiece_proto.ModelProto.FromString(proto)


def _appended(
    tokenizer: SentencePieceTokenizer, symbols: Iterable[str], pieces: Iterable[str]
) -> SentencePieceTokenizer:
    """Return the vocabulary with more pieces, the first of which is merged first."""
    model = _proto(tokenizer)
    for symbol in symbols:
        model.pieces.add(
            piece=symbol_piece(symbol), type=sentencepiece_proto.USER_DEFINED
        )
    score = min(piece.score for piece in model.pieces)
    for number, piece in enumerate(pieces, start=1):
        model.pieces.add(piece=piece, score=score - number)
    return SentencePieceTokenizer(
        model.SerializeToString(deterministic=True), tokenizer.kind
    )


def _uncovered(sentences: Sequence[str], ids: Collection[str]) -> list[str]:
    """Return the characters that have no piece of their own, frequent first."""
    counts = collections.Counter()
    for sentence in sentences:
        counts.update(sentence)
    rare = _UNCOVERED * counts.total()
    found = [(-count, letter) for letter, count in counts.items() if letter not in ids]
    kept = []
    for count, letter in sorted(found, reverse=True):
        rare += count
        if rare < 0 and not letter.isspace():
            kept.append((count, letter))
    return [letter for _, letter in sorted(kept)]


def _words(
    tokenizer: SentencePieceTokenizer, sentences: Sequence[str]
) -> collections.Counter[tuple[str, ...]]:
    """Count the words, each as its pieces."""
    words = collections.Counter()
    rows = tokenizer.encode_target(sentences)
    names = _names(tokenizer)
    for row in rows:
        word = ()
        for piece in map(names.__getitem__, row.tolist()):
            if piece.startswith(SPACE):
                words[word] += 1
                word = ()
            word += (piece,)
        words[word] += 1
    return words


def _merges(
    words: collections.Counter[tuple[str, ...]],
    num_merges: int,
    taken: set[str],
    splits_digits: bool,
) -> list[tuple[str, str]]:
    """Learn merges as byte-pair encoding does, the most frequent pair first.

    Args:
        words: How often each word occurs, as its pieces.
        num_merges: Most merges to learn.
        taken: Texts that no merge may give.
        splits_digits: Whether every digit is a separate piece.
    """
    rows = [list(word) for word in words]
    amounts = list(words.values())
    counts = collections.Counter()
    places = collections.defaultdict(set)

    def count(number: int, sign: int) -> list[tuple[str, str]]:
        pairs = list(itertools.pairwise(rows[number]))
        for pair in pairs:
            counts[pair] += sign * amounts[number]
            places[pair].add(number)
        return pairs

    for number in range(len(rows)):
        count(number, 1)
    queue = [(-amount, pair) for pair, amount in counts.items()]
    heapq.heapify(queue)
    merges, taken = [], set(taken)
    while queue and len(merges) < num_merges:
        amount, pair = heapq.heappop(queue)
        if -amount != counts[pair] or -amount < _LEAST_COUNT:
            continue  # an amount from before a merge, or too small
        joined = "".join(pair)
        if joined in taken or not _may_be_piece(joined, splits_digits):
            continue
        taken.add(joined)
        merges.append(pair)
        changed = set()
        for number in places.pop(pair):
            changed.update(count(number, -1))
            rows[number] = _merged(rows[number], pair)
            changed.update(count(number, 1))
        for other in changed:
            if counts[other] >= _LEAST_COUNT:
                heapq.heappush(queue, (-counts[other], other))
    return merges


def _may_be_piece(text: str, splits_digits: bool) -> bool:
    """Return whether a piece may have this text, as in SentencePiece's trainer.

    Letters, digits and other characters are not mixed; that keeps bytes, "<0x41>", and
    symbols apart too.
    """
    kinds = {_kind(character) for character in text.removeprefix(SPACE)}
    is_digits = kinds == {"N"} and len(text.removeprefix(SPACE)) > 1
    fits = len(kinds) == 1 and len(text) <= _MOST_CHARACTERS
    return fits and not (splits_digits and is_digits)


def _kind(character: str) -> str:
    """Return "L" for letters and their marks, "N" for digits, else ""."""
    category = unicodedata.category(character)[0]
    return {"L": "L", "M": "L", "N": "N"}.get(category, "")


def _merged(row: list[str], pair: tuple[str, str]) -> list[str]:
    """Join each occurrence of a pair, from the left."""
    merged = []
    for piece in row:
        if merged and (merged[-1], piece) == pair:
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged
