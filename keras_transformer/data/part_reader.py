"""Reads the pairs of one corpus, decides which are dropped, and encodes the others."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TextIO

import numpy as np
import tqdm

from keras_transformer import config, text_files, white_space
from keras_transformer.data import (
    alignments,
    corpus,
    masking,
    metadata,
    unknown_tokens,
)
from keras_transformer.data.sources import ParallelSource
from keras_transformer.spans import Glossary
from keras_transformer.words import num_blank_words, words_of_text

# A sentence with more characters than this per token of `max_length` is dropped without
# tokenizing it, because it has more than `max_length` tokens in any vocabulary.
_CHARACTERS_PER_TOKEN = 64

# Pairs that are tokenized at once.
_CHUNK = 4_096

# Dropped pairs of a corpus that are shown for each reason, and characters of a side.
NUM_EXAMPLES = 10
_SHOWN_CHARACTERS = 200


class Drop(enum.IntEnum):
    """Why a pair is not encoded; `metadata.json` has the names in lower case."""

    KEPT = 0
    INVALID_UTF8 = 1
    BLANK = 2
    DUPLICATE = 3
    TOO_LONG = 4
    LENGTH_RATIO = 5
    UNKNOWN_SYMBOL = 6


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


@dataclasses.dataclass(frozen=True)
class Part:
    """The pairs of one corpus in one split.

    Args:
        source: Where the pairs come from.
        split: The split, of the source and of the folder to write.
        filters: Which pairs are dropped.
        name: Name of the corpus in a mixture; None: the split is all one corpus.
        prefix: What is put before each source, with a space after it; "": nothing.
        glossary: Terms that placeholders of training pairs stand for, too.
    """

    source: ParallelSource
    split: str
    filters: config.PairFilters
    name: str | None = None
    prefix: str = ""
    glossary: Glossary | None = None


class PartReader:
    """Reads the pairs three times: to check them, to sample them, to encode them.

    Args:
        part: What to read.
        encoding: How training pairs are encoded; None: once, as they are.
        random: Draws placeholders and the seeds of random encodings.
    """

    def __init__(
        self,
        part: Part,
        encoding: config.PairEncoding | None = None,
        random: np.random.Generator | None = None,
    ):
        self.part = part
        self._random = random
        self._source, self._split = part.source, part.split
        self._alignments = part.source.alignments(part.split)
        self._filters = part.filters
        self._is_training = part.split == "train"
        self._encoding = config.PairEncoding()
        if self._is_training and encoding is not None:
            self._encoding = encoding
        self._masking = None
        if self._encoding.placeholders:
            self._masking = masking.PairMasking(self._encoding, part.glossary)
        self._reasons = np.zeros(0, np.uint8)
        self._copies = np.zeros(0, np.int64)
        # Lines that show dropped pairs, by reason.
        self._examples: dict[Drop, list[str]] = {
            drop: [] for drop in Drop if drop != Drop.KEPT
        }

    @property
    def num_kept(self) -> int:
        """Pairs that `scan` has not dropped."""
        return int(np.count_nonzero(self._reasons == Drop.KEPT))

    @property
    def max_aligned_length(self) -> int:
        """Most tokens of a side of a pair that has an alignment; 0: none has one."""
        return 0 if self._alignments is None else self._filters.max_length

    def scan(self) -> None:
        """Check all pairs and note which are dropped before tokenization."""
        reasons, keys = bytearray(), bytearray()
        compares = self._is_training and self._filters.drop_duplicates
        pairs = self._decoded()
        if self._alignments is not None:
            pairs = self._alignments.check(pairs)
        for pair in self._progress(pairs, "check"):
            reason = self._reason(pair)
            reasons.append(reason)
            if compares and reason == Drop.KEPT:
                keys += _key(_stripped(pair))
        self._reasons = np.frombuffer(reasons, np.uint8)
        if compares:
            kept = self._reasons == Drop.KEPT
            repeats = _repeats(np.frombuffer(keys, np.uint64))
            self._reasons[kept] = np.where(repeats, Drop.DUPLICATE, Drop.KEPT)
        copies = self._source.copies(self._split)
        self._copies = np.ones(len(reasons), np.uint8) if copies is None else copies
        self._check_some_left(self._reasons)

    def sample(
        self, num_pairs: int, seed: Sequence[int], num_sides: int
    ) -> Iterator[str]:
        """Yield both sides, or the source, of up to `num_pairs` kept pairs."""
        kept = np.flatnonzero(self._reasons == Drop.KEPT)
        if len(kept) > num_pairs:
            random = np.random.Generator(np.random.Philox(seed))
            kept = random.choice(kept, num_pairs, replace=False)
        is_drawn = np.zeros(len(self._reasons), bool)
        is_drawn[kept] = True
        for pair in itertools.compress(self._decoded(), is_drawn):
            yield from _stripped(pair)[:num_sides]

    def encode(
        self,
        tokenizer: Any,
        target: TargetVocabulary | None,
        writer: corpus.CorpusWriter,
        raw: Sequence[TextIO],
    ) -> metadata.SplitMetadata:
        """Write the tokens of the kept pairs, and the raw text of all.

        Args:
            tokenizer: Encodes sources and, without a `target`, targets.
            target: Encodes targets, if their vocabulary is separate.
            writer: Takes the tokens.
            raw: Files for the text of sources and targets; empty: it is not written.
        """
        reasons = self._reasons.copy()
        kept = np.flatnonzero(reasons == Drop.KEPT)
        decoded = self._progress(self._decoded(), "encode")
        links: Iterable = itertools.repeat(())
        if self._alignments is not None:
            decoded, unstripped = itertools.tee(decoded)
            links = map(_moved, unstripped, self._alignments)
        pairs = self._noted(decoded)
        if raw:
            pairs = _copied(pairs, raw)
        aligned = zip(pairs, links, strict=False)
        chunks = _chunks(itertools.compress(aligned, reasons == Drop.KEPT))
        encoders = (tokenizer, tokenizer if target is None else target)
        counts = np.zeros(5, np.int64)
        unknown = _unknown_tokens(tokenizer, target)
        for position, chunk in chunks:
            rows = kept[position : position + len(chunk)]
            reasons[rows] = self._encode_chunk(
                chunk, self._copies[rows], encoders, writer, counts, unknown
            )
            for index in np.flatnonzero(reasons[rows]):
                self._note(reasons[rows[index]], rows[index], chunk[index][0])
        self._check_none_too_long(reasons)
        self._check_some_left(reasons)
        return self._metadata(reasons, counts, unknown)

    def examples(self) -> Iterator[str]:
        """Yield lines with reason, location, source and target of dropped pairs.

        After `encode`; up to `NUM_EXAMPLES` of each reason.
        """
        for lines in self._examples.values():
            yield from lines

    def _noted(self, pairs):
        """Yield pairs as they are encoded, and note some of those that `scan` dropped.

        They have no white space at their ends, and their prefix.
        """
        prefix = self.part.prefix and self.part.prefix + " "
        for index, (pair, reason) in enumerate(
            zip(pairs, self._reasons.tobytes(), strict=True)
        ):
            if reason:
                self._note(reason, index, pair or ("", ""))
            if pair:
                source, target = _stripped(pair)
                pair = (prefix + source if source else "", target)
            yield pair

    def _note(self, reason, index, pair):
        """Keep a line that shows a dropped pair as it is in the corpus."""
        drop, prefix = Drop(reason), self.part.prefix
        if prefix:
            pair = (pair[0].removeprefix(f"{prefix} "), pair[1])
        lines = self._examples[drop]
        if len(lines) < NUM_EXAMPLES:
            place = self._source.locate(self._split, "source", int(index))
            sides = (text_files.one_line(side)[:_SHOWN_CHARACTERS] for side in pair)
            shown = (side.replace("\t", " ") for side in sides)
            lines.append("\t".join([drop.name.lower(), place, *shown]))

    def _encode_chunk(
        self, chunk, copies, encoders, writer, counts, unknown
    ) -> np.ndarray:
        """Write the good pairs of a chunk, count them, return reasons for the rest."""
        pairs, links = zip(*chunk, strict=True)
        texts = list(zip(*pairs, strict=True))
        source, target = encoders
        encode_target = target.encode_target if target is source else target.encode
        tokens = [source.encode(list(texts[0])), encode_target(list(texts[1]))]
        prefix = self.part.prefix
        num_symbols = len(source.encode([prefix])[0]) if prefix else 0
        reasons = self._late_reasons(*tokens, num_symbols)
        good = np.flatnonzero(reasons == Drop.KEPT)
        good = np.repeat(good, copies[good])
        tokens = [[side[index] for index in good] for side in tokens]
        texts = [[side[index] for index in good] for side in texts]
        links = [links[index] for index in good]
        # Symbols stand for the words of the source.
        words = texts if target is source else [texts[0], texts[0]]
        num_words = [sum(len(text.split()) for text in side) for side in words]
        bare = [[text.removeprefix(prefix) for text in texts[0]], texts[1]]
        for written, encoded in self._encodings(source, texts, tokens):
            aligned = []
            if writer.is_aligned:
                kept_links = self._written_links(links, texts, written)
                aligned = alignments.align_tokens(source, kept_links, written, encoded)
            writer.append(*encoded, aligned)
            num_tokens = [sum(len(ids) + 1 for ids in side) for side in encoded]
            counts += [*num_tokens, *num_words, sum(len(each) > 0 for each in aligned)]
            for each, side, ids in zip(unknown, bare, encoded, strict=True):
                each.add(side, ids)
        return reasons

    def _written_links(self, links, texts, written):
        """Return links of the words of pairs as they are written.

        Symbols come before the words of the source, and a pair in which placeholders
        stand for several words has none.
        """
        num_symbols = len(words_of_text(self.part.prefix))
        sizes = [
            [[len(words_of_text(text)) for text in side] for side in sides]
            for sides in (texts, written)
        ]
        is_same = np.all(np.equal(*sizes), axis=0)
        return [
            [(first + num_symbols, second) for first, second in pair] if same else ()
            for pair, same in zip(links, is_same, strict=True)
        ]

    def _encodings(self, tokenizer, texts, tokens):
        """Yield texts and ids of both sides of some pairs, once for each encoding.

        A pair whose encoding is too long has the usual one, from `tokens`.
        """
        if self._encoding.subword_encodings == 1 and self._masking is None:
            yield texts, tokens
            return
        most = self._filters.max_length
        for _ in range(self._encoding.subword_encodings):
            masked = self._masked(texts, tokenizer.markers)
            drawn = self._drawn(tokenizer, masked)
            fits = [max(map(len, pair)) < most for pair in zip(*drawn, strict=True)]
            yield _where(fits, masked, texts), _where(fits, drawn, tokens)

    def _masked(self, texts, markers):
        """Return both sides of some pairs with placeholders."""
        if self._masking is None:
            return texts
        pairs = zip(*texts, strict=True)
        masked = [self._masking.mask(*pair, self._random, markers) for pair in pairs]
        return [[pair[side] for pair in masked] for side in range(len(texts))]

    def _drawn(self, tokenizer, texts):
        """Return the ids of both sides of some pairs, random if there are several."""
        if self._encoding.subword_encodings == 1:
            return [tokenizer.encode(texts[0]), tokenizer.encode_target(texts[1])]
        dropout = self._encoding.subword_dropout
        return [
            tokenizer.sample(side, dropout, int(self._random.integers(2**31)))
            for side in texts
        ]

    def _metadata(self, reasons, counts, unknown) -> metadata.SplitMetadata:
        num_unreadable = self._source.num_unreadable(self._split)
        names = ("source_tokens", "target_tokens", "source_words", "target_words")
        return metadata.SplitMetadata(
            pairs_read=len(reasons) + num_unreadable,
            pairs=int(np.sum(self._copies[reasons == Drop.KEPT]))
            * self._encoding.subword_encodings,
            dropped={**_dropped(reasons), "unreadable": num_unreadable},
            **dict(zip((*names, "aligned_pairs"), counts.tolist(), strict=True)),
            source_unknown=unknown[0].num_tokens,
            target_unknown=unknown[1].num_tokens,
            source_lacking=unknown[0].commonest(),
            target_lacking=unknown[1].commonest(),
        )

    def _decoded(self) -> Iterator[tuple[str, str] | None]:
        """Yield each pair as text, or None if it is not valid UTF-8 and is dropped."""
        for index, pair in enumerate(self._source.pairs(self._split)):
            try:
                yield pair[0].decode("utf-8"), pair[1].decode("utf-8")
            except UnicodeDecodeError:
                yield self._repaired(index, pair)

    def _repaired(self, index, pair):
        """Return a pair that is not valid UTF-8 as the filters want it, or raise."""
        if self._filters.drop_invalid_utf8:
            if self._is_training:
                return None
            return tuple(side.decode("utf-8", errors="replace") for side in pair)
        for side, sentence in zip(corpus.SIDES, pair, strict=True):
            try:
                sentence.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{self._source.locate(self._split, side, index)} is not valid "
                    f"UTF-8: {error.reason} at byte {error.start + 1}. Convert it to "
                    "UTF-8, or drop such pairs with drop_invalid_utf8."
                ) from error
        return None

    def _reason(self, pair) -> Drop:
        if pair is None:
            return Drop.INVALID_UTF8
        if any(map(white_space.is_blank, pair)):
            return Drop.BLANK
        most = _CHARACTERS_PER_TOKEN * self._filters.max_length
        if len(pair[0]) > most or len(pair[1]) > most:
            return Drop.TOO_LONG
        return Drop.KEPT

    def _late_reasons(self, sources, targets, num_symbols) -> np.ndarray:
        """Return the reasons that depend on tokens, uint8 `[pairs]`."""
        is_known = np.array([ids is not None for ids in targets], bool)
        lengths = np.array(
            [
                [1 if ids is None else len(ids) + 1 for ids in side]
                for side in (sources, targets)
            ],
            np.int64,
        )
        reasons = np.where(
            lengths.max(axis=0) > self._filters.max_length, Drop.TOO_LONG, Drop.KEPT
        ).astype(np.uint8)
        ratio = self._filters.max_length_ratio
        if ratio is not None and self._is_training:
            lengths[0] -= num_symbols
            longer, shorter = lengths.max(axis=0), lengths.min(axis=0)
            reasons[(reasons == Drop.KEPT) & (longer > ratio * shorter)] = (
                Drop.LENGTH_RATIO
            )
        reasons[~is_known] = Drop.UNKNOWN_SYMBOL
        return reasons

    def _check_none_too_long(self, reasons) -> None:
        too_long = np.flatnonzero(reasons == Drop.TOO_LONG)
        if self._filters.drop_too_long or not self._is_training or not len(too_long):
            return
        place = self._source.locate(self._split, "source", int(too_long[0]))
        in_mixture = self.part.name is not None
        how = "drop_too_long: true" if in_mixture else "--skip_bad"
        raise ValueError(
            f"{place}: a side has more tokens than `max_length`, "
            f"{self._filters.max_length}. {len(too_long)} of {len(reasons)} pairs of "
            "the training split are too long. Raise --max_length, or leave them out "
            f"with {how}."
        )

    def _check_some_left(self, reasons) -> None:
        if np.any(self._copies[reasons == Drop.KEPT]) or self._split == "test":
            return
        name = self.part.name
        what = f"{self._split} split" if name is None else f"corpus {name!r}"
        raise ValueError(
            f"No pair of the {what} is left. Of {len(reasons)} pairs read, dropped: "
            f"{listed(_dropped(reasons))}. Give more text, or raise max_length or "
            "max_length_ratio."
        )

    def _progress(self, pairs, verb):
        # None: shown only if standard error is a terminal.
        return tqdm.tqdm(
            pairs,
            desc=f"{verb} {self.part.name or self._split}",
            total=len(self._reasons) or None,
            unit=" pairs",
            disable=None,
        )


def _unknown_tokens(tokenizer, target) -> list[unknown_tokens.UnknownTokens]:
    """Return counters for both sides. A separate target vocabulary drops pairs."""
    target_id = tokenizer.target_unk_id if target is None else None
    # All characters are in a vocabulary that can write every target.
    source_id = None if tokenizer.target_unk_id is None else tokenizer.unk_id
    return [
        unknown_tokens.UnknownTokens(tokenizer.encode, source_id),
        unknown_tokens.UnknownTokens(tokenizer.encode_target, target_id),
    ]


def _stripped(pair: tuple[str, str]) -> tuple[str, str]:
    """Return a pair without white space at the ends of its sides."""
    return white_space.strip(pair[0]), white_space.strip(pair[1])


def _moved(pair: tuple[str, str] | None, links: alignments.Links) -> alignments.Links:
    """Return the links of a pair's words as `_stripped` counts them."""
    moved = [num_blank_words(side) for side in pair or ()]
    if not any(moved):
        return links
    each = np.subtract(links, moved).tolist() if links else []
    return [link for link in each if min(link) >= 0]


def _where(fits, new, old):
    """Choose for each pair between two values of both sides."""
    return [
        [first if fit else other for fit, first, other in zip(fits, *side, strict=True)]
        for side in zip(new, old, strict=True)
    ]


def _dropped(reasons: np.ndarray) -> dict[str, int]:
    """Count the pairs that each reason drops, by its name in `metadata.json`."""
    counts = np.bincount(reasons, minlength=len(Drop)).tolist()
    return {drop.name.lower(): counts[drop] for drop in Drop if drop != Drop.KEPT}


def _key(pair: tuple[str, str]) -> bytes:
    """Return a hash of 8 bytes, by which pairs are compared.

    Among 36 million pairs, two different ones have the same hash with probability 4e-5.
    """
    text = f"{len(pair[0])} {pair[0]}{pair[1]}"
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _repeats(keys: np.ndarray) -> np.ndarray:
    """Return which keys are repeats of an earlier one, bool `[pairs]`.

    Sorts a sixteenth of the keys at a time, because sorting needs three times their
    memory.
    """
    repeats = np.zeros(len(keys), bool)
    parts = keys.view(np.uint8)[::8] % 16
    for part in range(16):
        indices = np.flatnonzero(parts == part)
        indices = indices[np.argsort(keys[indices], kind="stable")]
        repeats[indices[1:]] = keys[indices[1:]] == keys[indices[:-1]]
    return repeats


def listed(dropped: dict[str, int]) -> str:
    """Describe the numbers of dropped pairs by reason."""
    parts = [
        f"{count:,} {reason.replace('_', ' ')}"
        for reason, count in dropped.items()
        if count
    ]
    return ", ".join(parts) or "none"


def _chunks(pairs: Iterable) -> Iterator[tuple[int, Sequence]]:
    """Yield chunks of a stream, each with the number of items before it."""
    position, pairs = 0, iter(pairs)
    while chunk := list(itertools.islice(pairs, _CHUNK)):
        yield position, chunk
        position += len(chunk)


def _copied(pairs, files):
    """Yield pairs while writing them to the raw text files of a split."""
    for pair in pairs:
        for file, text in zip(files, pair, strict=True):
            file.write(text + "\n")
        yield pair
