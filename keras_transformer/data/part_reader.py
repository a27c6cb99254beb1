"""Reads the pairs of one corpus in three passes: to check, to sample, to encode them.

`scan` selects the pairs that are not dropped; `sample` and `encode` read those.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

import numpy as np
import tqdm

from keras_transformer import config, text_files, white_space
from keras_transformer.data import alignments, corpus, metadata
from keras_transformer.data.pair_encoder import EncodedPair, PairEncoder
from keras_transformer.data.sources import ParallelSource
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


@dataclasses.dataclass(frozen=True)
class Part:
    """The pairs of one corpus in one split."""

    source: ParallelSource
    split: str
    filters: config.PairFilters
    # Name of the corpus in a mixture; None: the split is all one corpus.
    name: str | None = None
    # What is put before each source, with a space after it; "": nothing.
    prefix: str = ""

    @property
    def is_training(self) -> bool:
        """Whether all filters apply, and encodings may be random."""
        return self.split == "train"

    @property
    def alignments(self) -> alignments.WordAlignments | None:
        """The alignment of the words of each pair; None: not known."""
        return self.source.alignments(self.split)

    @property
    def max_aligned_length(self) -> int:
        """Most tokens of a side of a pair that has an alignment; 0: none has one."""
        return 0 if self.alignments is None else self.filters.max_length

    def locate(self, side: str, index: int) -> str:
        """Describe the location of a sentence; `side` is "source" or "target"."""
        return self.source.locate(self.split, side, index)

    def with_prefix(self, source: str) -> str:
        """Return a source as it is encoded; a blank one has no prefix."""
        return f"{self.prefix} {source}" if self.prefix and source else source

    def pairs(self) -> Iterator[tuple[str, str] | None]:
        """Yield each pair as text, or None if it is not valid UTF-8 and is dropped."""
        numbered = enumerate(self.source.pairs(self.split))
        yield from itertools.starmap(self._decoded, numbered)

    def _decoded(self, index, pair):
        texts = []
        for side, sentence in zip(corpus.SIDES, pair, strict=True):
            try:
                texts.append(sentence.decode("utf-8"))
            except UnicodeDecodeError as error:
                if not self.filters.drop_invalid_utf8:
                    raise ValueError(
                        f"{self.locate(side, index)} is not valid UTF-8: "
                        f"{error.reason} at byte {error.start + 1}. Convert it to "
                        "UTF-8, or drop such pairs with drop_invalid_utf8."
                    ) from error
                if self.is_training:
                    return None
                texts.append(sentence.decode("utf-8", errors="replace"))
        return tuple(texts)


@dataclasses.dataclass(frozen=True)
class Selection:
    """Which pairs of a part are not dropped."""

    part: Part
    # `Drop` of each pair, uint8 `[pairs]`.
    reasons: np.ndarray
    # How often each pair is encoded, int `[pairs]`.
    copies: np.ndarray

    @property
    def kept(self) -> np.ndarray:
        """Indices of the pairs that are not dropped, ascending, int64."""
        return np.flatnonzero(self.reasons == Drop.KEPT)

    def dropped(self) -> dict[str, int]:
        """Count the dropped pairs by reason, by its name in `metadata.json`."""
        counts = np.bincount(self.reasons, minlength=len(Drop)).tolist()
        return {drop.name.lower(): counts[drop] for drop in Drop if drop != Drop.KEPT}

    def check_some_left(self) -> None:
        """Raise ValueError if a split that needs pairs has none."""
        part = self.part
        if np.any(self.copies[self.kept]) or part.split == "test":
            return
        what = f"{part.split} split" if part.name is None else f"corpus {part.name!r}"
        raise ValueError(
            f"No pair of the {what} is left. Of {len(self.reasons)} pairs read, "
            f"dropped: {listed(self.dropped())}. Give more text, or raise max_length "
            "or max_length_ratio."
        )

    def check_none_too_long(self) -> None:
        """Raise ValueError if a pair is too long that may not be dropped."""
        part = self.part
        too_long = np.flatnonzero(self.reasons == Drop.TOO_LONG)
        if part.filters.drop_too_long or not part.is_training or not len(too_long):
            return
        how = "--skip_bad" if part.name is None else "drop_too_long: true"
        raise ValueError(
            f"{part.locate('source', int(too_long[0]))}: a side has more tokens than "
            f"`max_length`, {part.filters.max_length}. {len(too_long)} of "
            f"{len(self.reasons)} pairs of the training split are too long. Raise "
            f"--max_length, or leave them out with {how}."
        )


@dataclasses.dataclass(frozen=True)
class EncodedPart:
    """What is known of a part when it is encoded."""

    part: Part
    counts: metadata.SplitMetadata
    # Lines with reason, location, source and target of dropped pairs, up to
    # `NUM_EXAMPLES` of each reason.
    examples: list[str]


def scan(part: Part) -> Selection:
    """Check all pairs and select those that are not dropped before tokenization."""
    reasons, keys = bytearray(), bytearray()
    compares = part.is_training and part.filters.drop_duplicates
    pairs = part.pairs()
    if part.alignments is not None:
        pairs = part.alignments.check(pairs)
    for pair in _progress(part, pairs, "check"):
        reason = _early_reason(pair, part.filters.max_length)
        reasons.append(reason)
        if compares and reason == Drop.KEPT:
            keys += _key(_stripped(pair))
    reasons = np.frombuffer(reasons, np.uint8)
    if compares:
        repeats = _repeats(np.frombuffer(keys, np.uint64))
        reasons[reasons == Drop.KEPT] = np.where(repeats, Drop.DUPLICATE, Drop.KEPT)
    copies = part.source.copies(part.split)
    if copies is None:
        copies = np.ones(len(reasons), np.uint8)
    selection = Selection(part, reasons, copies)
    selection.check_some_left()
    return selection


def sample(
    selection: Selection, num_pairs: int, seed: Sequence[int], num_sides: int
) -> Iterator[str]:
    """Yield both sides, or the source, of up to `num_pairs` selected pairs."""
    kept = selection.kept
    if len(kept) > num_pairs:
        random = np.random.Generator(np.random.Philox(seed))
        kept = random.choice(kept, num_pairs, replace=False)
    is_drawn = np.zeros(len(selection.reasons), bool)
    is_drawn[kept] = True
    for pair in itertools.compress(selection.part.pairs(), is_drawn):
        yield from _stripped(pair)[:num_sides]


def encode(
    selection: Selection,
    encoder: PairEncoder,
    writer: corpus.CorpusWriter,
    raw: Sequence[TextIO],
) -> EncodedPart:
    """Write the tokens of the selected pairs, and the raw text of all.

    Args:
        selection: The pairs; those with too many tokens are dropped here.
        encoder: Returns their tokens.
        writer: Takes the tokens.
        raw: Files for the text of sources and targets; empty: it is not written.
    """
    part = selection.part
    final = dataclasses.replace(selection, reasons=selection.reasons.copy())
    examples = _Examples(part)
    part_writer = _PartWriter(part, encoder, writer)
    num_symbols = len(encoder.tokenizer.encode([part.prefix])[0]) if part.prefix else 0
    for chunk in _chunks(_selected_pairs(selection, raw, examples)):
        encoded = encoder.encode(
            [(part.with_prefix(source), target) for _, (source, target), _ in chunk]
        )
        good = []
        for (index, texts, links), pair in zip(chunk, encoded, strict=True):
            reason = _late_reason(part, pair, num_symbols)
            if reason == Drop.KEPT:
                good += [(pair, links)] * int(selection.copies[index])
            else:
                final.reasons[index] = reason
                examples.add(reason, index, texts)
        part_writer.write([pair for pair, _ in good], [links for _, links in good])
    final.check_none_too_long()
    final.check_some_left()
    return EncodedPart(part, part_writer.counts(final), examples.lines())


def _selected_pairs(selection, raw, examples):
    """Yield index, texts and alignment of each selected pair, and note the others.

    The text of all pairs is written to the files `raw`.
    """
    part = selection.part
    pairs = _progress(part, part.pairs(), "encode", len(selection.reasons))
    with_reasons = zip(pairs, selection.reasons.tobytes(), strict=True)
    links = itertools.repeat(()) if part.alignments is None else part.alignments
    for index, ((pair, reason), pair_links) in enumerate(
        zip(with_reasons, links, strict=False)
    ):
        if raw:
            source, target = _stripped(pair)
            for file, text in zip(raw, (part.with_prefix(source), target), strict=True):
                file.write(text + "\n")
        if reason == Drop.KEPT:
            yield index, _stripped(pair), _moved(pair, pair_links)
        else:
            examples.add(reason, index, pair or ("", ""))


class _Examples:
    """Lines that show dropped pairs as they are in the corpus."""

    def __init__(self, part: Part):
        self._part = part
        self._lines: dict[Drop, list[str]] = {drop: [] for drop in Drop}

    def add(self, reason: int, index: int, pair: tuple[str, str]) -> None:
        drop = Drop(reason)
        if len(self._lines[drop]) < NUM_EXAMPLES:
            place = self._part.locate("source", index)
            sides = (text_files.one_line(side)[:_SHOWN_CHARACTERS] for side in pair)
            shown = (side.replace("\t", " ") for side in sides)
            self._lines[drop].append("\t".join([drop.name.lower(), place, *shown]))

    def lines(self) -> list[str]:
        return [*itertools.chain.from_iterable(self._lines.values())]


class _PartWriter:
    """Writes pairs of a part in all their encodings, and counts what it writes."""

    def __init__(self, part: Part, encoder: PairEncoder, writer: corpus.CorpusWriter):
        self._part, self._encoder, self._writer = part, encoder, writer
        self._source, self._target = encoder.new_counts()
        self._pairs = self._aligned_pairs = 0

    def write(
        self, pairs: Sequence[EncodedPair], links: Sequence[alignments.Links]
    ) -> None:
        """Write pairs whose sources have their prefix, and whose ids are the usual."""
        prefix, encodings = self._part.prefix, [pairs]
        if self._part.is_training:
            most = self._part.filters.max_length
            encodings = self._encoder.training_encodings(pairs, most)
        bare = [pair.source.removeprefix(prefix) for pair in pairs]
        targets = [pair.target for pair in pairs]
        source_words = sum(len(pair.source.split()) for pair in pairs)
        # Symbols of a separate vocabulary stand for the words of the source.
        target_words = source_words
        if self._encoder.target is None:
            target_words = sum(len(target.split()) for target in targets)
        for written in encodings:
            texts = [pair.source for pair in written], [pair.target for pair in written]
            ids = (
                [pair.source_ids for pair in written],
                [pair.target_ids for pair in written],
            )
            aligned = []
            if self._writer.is_aligned:
                num_symbols = itertools.repeat(len(words_of_text(prefix)))
                written_links = map(_written_links, links, pairs, written, num_symbols)
                aligned = alignments.align_tokens(
                    self._encoder.tokenizer, written_links, texts, ids
                )
            self._writer.append(*ids, aligned)
            self._pairs += len(written)
            self._aligned_pairs += sum(len(each) > 0 for each in aligned)
            self._source.add(bare, ids[0], source_words)
            self._target.add(targets, ids[1], target_words)

    def counts(self, selection: Selection) -> metadata.SplitMetadata:
        """Return the counts, with those of the pairs that are dropped in the end."""
        num_unreadable = self._part.source.num_unreadable(self._part.split)
        return metadata.SplitMetadata(
            pairs_read=len(selection.reasons) + num_unreadable,
            pairs=self._pairs,
            dropped={**selection.dropped(), "unreadable": num_unreadable},
            source_tokens=self._source.tokens,
            target_tokens=self._target.tokens,
            source_words=self._source.words,
            target_words=self._target.words,
            aligned_pairs=self._aligned_pairs,
            source_unknown=self._source.unknown,
            target_unknown=self._target.unknown,
            source_lacking=self._source.lacking(),
            target_lacking=self._target.lacking(),
        )


def _written_links(links, usual, written, num_symbols):
    """Return links of the words of a pair as it is written.

    Symbols come before the words of the source, and a pair in which placeholders stand
    for several words has none.
    """
    for text, written_text in zip(usual[:2], written[:2], strict=True):
        if len(words_of_text(text)) != len(words_of_text(written_text)):
            return ()
    return [(first + num_symbols, second) for first, second in links]


def _early_reason(pair: tuple[str, str] | None, max_length: int) -> Drop:
    if pair is None:
        return Drop.INVALID_UTF8
    if any(map(white_space.is_blank, pair)):
        return Drop.BLANK
    most = _CHARACTERS_PER_TOKEN * max_length
    if len(pair[0]) > most or len(pair[1]) > most:
        return Drop.TOO_LONG
    return Drop.KEPT


def _late_reason(part: Part, pair: EncodedPair, num_symbols: int) -> Drop:
    """Return the reason that depends on tokens.

    The length ratio does not count the symbols before sources, `num_symbols` tokens.
    """
    if pair.target_ids is None:
        return Drop.UNKNOWN_SYMBOL
    source_length, target_length = len(pair.source_ids) + 1, len(pair.target_ids) + 1
    if max(source_length, target_length) > part.filters.max_length:
        return Drop.TOO_LONG
    ratio = part.filters.max_length_ratio
    if ratio is not None and part.is_training:
        lengths = source_length - num_symbols, target_length
        if max(lengths) > ratio * min(lengths):
            return Drop.LENGTH_RATIO
    return Drop.KEPT


def _progress(part: Part, pairs: Iterable, verb: str, total: int | None = None):
    # None: shown only if standard error is a terminal.
    name = part.name or part.split
    return tqdm.tqdm(
        pairs, desc=f"{verb} {name}", total=total, unit=" pairs", disable=None
    )


def _stripped(pair: tuple[str, str]) -> tuple[str, str]:
    """Return a pair without white space at the ends of its sides."""
    return white_space.strip(pair[0]), white_space.strip(pair[1])


def _moved(pair: tuple[str, str], links: alignments.Links) -> alignments.Links:
    """Return the links of a pair's words as `_stripped` counts them."""
    blank = [num_blank_words(side) for side in pair]
    if not links or not any(blank):
        return links
    return [link for link in np.subtract(links, blank).tolist() if min(link) >= 0]


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


def _chunks(pairs: Iterator) -> Iterator[list]:
    while chunk := list(itertools.islice(pairs, _CHUNK)):
        yield chunk
