"""Encodes pairs of sentences into a folder that training maps into memory."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import tqdm

from keras_transformer import atomic_files, config, json_files, wording
from keras_transformer.data import corpus, metadata
from keras_transformer.data.sources import ParallelSource

# Most training pairs that a vocabulary is trained on.
SAMPLE_PAIRS = 500_000

# Batch sizes whose share of padding is reported: a small one, and that of §5.1.
REPORTED_TOKENS_PER_BATCH = (4_096, 25_000)

# A sentence with more characters than this per token of `max_length` is dropped without
# tokenizing it, because it has more than `max_length` tokens in any vocabulary.
_CHARACTERS_PER_TOKEN = 64

# Pairs that are tokenized at once.
_CHUNK = 4_096


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


def prepare(
    source: ParallelSource,
    data_dir: str | os.PathLike,
    make_tokenizer: Callable[[Iterable[str]], Any],
    *,
    target: TargetVocabulary | None = None,
    sample_pairs: int = SAMPLE_PAIRS,
    seed: int = 0,
    overwrite: bool = False,
    **filters: Any,
) -> metadata.DataMetadata:
    """Encode a parallel corpus into a folder, which appears complete or not at all.

    The folder holds `metadata.json`, `tokenizer/`, `train/`, `valid/` and `test/` with
    tokens and offsets, and the raw text of the validation and test pairs as
    `valid.source`, `valid.target`, `test.source`, `test.target`.

    Training pairs are dropped if a side is blank or has more than `max_length` tokens,
    if one side has `max_length_ratio` times more tokens than the other, or (optionally)
    if the same pair came before. The raw text of the validation and test splits always
    has all pairs. Their encoded pairs, which the loss is measured on, leave out pairs
    that are blank or too long, or whose target the target vocabulary cannot encode.

    Args:
        source: Where the pairs come from.
        data_dir: The folder to make.
        make_tokenizer: Called with sentences of both sides, or only of the source if
            there is a `target`; returns a tokenizer.
        target: Encodes the target side; None: the tokenizer encodes both sides.
        sample_pairs: Most training pairs that `make_tokenizer` sees, drawn by `seed`.
        seed: Seed of that sample, at least 0.
        overwrite: Whether to replace a corpus that is already in `data_dir`.
        **filters: Fields of `config.PairFilters`, such as `max_length`.

    Returns:
        The content of `metadata.json`.

    Raises:
        ValueError: If the text is empty, its sides differ in length, a line is not
            valid UTF-8, no training or validation pair is left, the tokenizer has other
            special ids than `target`, or an argument is out of range. The message names
            file and line where there is one.
        FileExistsError: If `data_dir` is not empty and may not be replaced.
        OSError: If `data_dir` cannot be written.
    """
    pair_filters = config.PairFilters(**filters)
    config.check_at_least("sample_pairs", sample_pairs, 1)
    config.check_at_least("seed", seed, 0)
    _check_free(pathlib.Path(data_dir), overwrite)
    with atomic_files.naming(data_dir), atomic_files.atomic_folder(data_dir) as folder:
        readers = {
            split: _SplitReader(source, split, pair_filters) for split in source.splits
        }
        for reader in readers.values():
            reader.scan()
        num_sides = 2 if target is None else 1
        tokenizer = make_tokenizer(
            readers["train"].sample(sample_pairs, seed, num_sides)
        )
        tokenizer.save(folder / "tokenizer")
        vocabulary = tokenizer.ids()
        if target is not None:
            _check_special_ids(tokenizer)
            target.save(folder)
            vocabulary |= {
                "task": target.task,
                "target_vocab_size": target.vocab_size,
                "labels_hash": target.fingerprint,
            }
        result = metadata.DataMetadata(
            source_language=source.source_language,
            target_language=source.target_language,
            dataset=source.description,
            tokenizer_kind=tokenizer.kind,
            tokenizer_hash=tokenizer.fingerprint,
            max_length=pair_filters.max_length,
            max_length_ratio=pair_filters.max_length_ratio,
            drop_duplicates=pair_filters.drop_duplicates,
            seed=seed,
            splits={
                split: reader.encode(folder, tokenizer, target)
                for split, reader in readers.items()
            },
            padding=_padding(folder / "train", seed),
            corpus_hash=corpus.split_hash(folder / "train"),
            **vocabulary,
        )
        json_files.write(
            folder / metadata.FILE_NAME, result.to_json(), ascii_only=False
        )
    return result


def report(prepared: metadata.DataMetadata) -> str:
    """Describe a prepared folder in a few lines."""
    own = prepared.target_vocab_size
    lines = [
        f"{prepared.source_language} to {prepared.target_language}, vocabulary of "
        f"{prepared.vocab_size:,} ({prepared.tokenizer_kind})"
        + (f" and {own:,} symbols" if own else "")
    ]
    for name, split in prepared.splits.items():
        what = "dropped" if name == "train" else "left out of the loss"
        lines.append(
            f"{name}: {wording.count(split.pairs_read, 'pair')} read, "
            f"{split.pairs:,} encoded, "
            f"{what}: {_listed(split.dropped)}; {split.source_tokens:,} + "
            f"{split.target_tokens:,} tokens, {_tokens_a_word(split, bool(own))}"
        )
    for padding in prepared.padding:
        shapes = " ".join(
            f"{rows}x({source}+{target})" for rows, source, target in padding.shapes
        )
        lines.append(
            f"{padding.tokens_per_batch:,} tokens a batch: "
            f"{wording.count(padding.batches_per_epoch, 'batch', 'batches')} an epoch, "
            f"{padding.padding_rate:.1%} padding, shapes {shapes}"
        )
    return "\n".join(lines)


def _listed(dropped: dict[str, int]) -> str:
    parts = [
        f"{count:,} {reason.replace('_', ' ')}"
        for reason, count in dropped.items()
        if count
    ]
    return ", ".join(parts) or "none"


def _tokens_a_word(split: metadata.SplitMetadata, sides_differ: bool) -> str:
    if not sides_differ:
        return f"{split.tokens_per_word:.2f} a word"
    words = max(1, split.source_words)
    source = (split.source_tokens - split.pairs) / words
    target = (split.target_tokens - split.pairs) / words
    return f"{source:.2f} + {target:.2f} a word"


class _SplitReader:
    """Reads one split three times: to check it, to sample it, to encode it."""

    def __init__(self, source: ParallelSource, split: str, filters: config.PairFilters):
        self._source, self._split, self._filters = source, split, filters
        self._is_training = split == "train"
        self._reasons = np.zeros(0, np.uint8)
        self._copies = np.zeros(0, np.int64)

    def scan(self) -> None:
        """Check all pairs and note which are dropped before tokenization."""
        reasons, keys = bytearray(), bytearray()
        compares = self._is_training and self._filters.drop_duplicates
        for pair in self._progress(self._decoded(), "check"):
            reason = self._reason(pair)
            reasons.append(reason)
            if compares and reason == Drop.KEPT:
                keys += _key(pair)
        self._reasons = np.frombuffer(reasons, np.uint8)
        if compares:
            kept = self._reasons == Drop.KEPT
            repeats = _repeats(np.frombuffer(keys, np.uint64))
            self._reasons[kept] = np.where(repeats, Drop.DUPLICATE, Drop.KEPT)
        copies = self._source.copies(self._split)
        self._copies = np.ones(len(reasons), np.uint8) if copies is None else copies
        self._check_some_left(self._reasons)

    def sample(self, num_pairs: int, seed: int, num_sides: int) -> Iterator[str]:
        """Yield both sides, or the source, of up to `num_pairs` kept pairs."""
        kept = np.flatnonzero(self._reasons == Drop.KEPT)
        if len(kept) > num_pairs:
            random = np.random.Generator(np.random.Philox(seed))
            kept = random.choice(kept, num_pairs, replace=False)
        is_drawn = np.zeros(len(self._reasons), bool)
        is_drawn[kept] = True
        for pair in itertools.compress(self._decoded(), is_drawn):
            yield from pair[:num_sides]

    def encode(
        self, folder: pathlib.Path, tokenizer: Any, target: TargetVocabulary | None
    ) -> metadata.SplitMetadata:
        """Write the tokens of the kept pairs and the raw text of held-out ones."""
        reasons = self._reasons.copy()
        kept = np.flatnonzero(reasons == Drop.KEPT)
        pairs = self._progress(self._decoded(), "encode")
        if not self._is_training:
            pairs = _copied(pairs, folder, self._split)
        chunks = _chunks(itertools.compress(pairs, reasons == Drop.KEPT))
        encoders = (tokenizer, tokenizer if target is None else target)
        counts = np.zeros(4, np.int64)
        with corpus.CorpusWriter(
            folder / self._split,
            max(encoder.vocab_size for encoder in encoders),
            tokenizer.eos_id,
        ) as writer:
            for position, chunk in chunks:
                rows = kept[position : position + len(chunk)]
                reasons[rows] = self._encode_chunk(
                    chunk, self._copies[rows], encoders, writer, counts
                )
        self._check_none_too_long(reasons)
        self._check_some_left(reasons)
        return self._metadata(reasons, counts)

    def _encode_chunk(self, chunk, copies, encoders, writer, counts) -> np.ndarray:
        """Write the good pairs of a chunk, count them, return reasons for the rest."""
        texts = list(zip(*chunk, strict=True))
        source, target = encoders
        encode_target = target.encode_target if target is source else target.encode
        tokens = [source.encode(list(texts[0])), encode_target(list(texts[1]))]
        reasons = self._late_reasons(*tokens)
        good = np.flatnonzero(reasons == Drop.KEPT)
        good = np.repeat(good, copies[good])
        tokens = [[side[index] for index in good] for side in tokens]
        writer.append(*tokens)
        if encoders[0] is not encoders[1]:
            texts[1] = texts[0]  # symbols stand for the words of the source
        counts += [sum(len(ids) + 1 for ids in side) for side in tokens] + [
            sum(len(side[index].split()) for index in good) for side in texts
        ]
        return reasons

    def _metadata(self, reasons, counts) -> metadata.SplitMetadata:
        num_unreadable = self._source.num_unreadable(self._split)
        source_tokens, target_tokens, source_words, target_words = counts.tolist()
        return metadata.SplitMetadata(
            pairs_read=len(reasons) + num_unreadable,
            pairs=int(np.sum(self._copies[reasons == Drop.KEPT])),
            dropped={**_dropped(reasons), "unreadable": num_unreadable},
            source_tokens=source_tokens,
            target_tokens=target_tokens,
            source_words=source_words,
            target_words=target_words,
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
        if not pair[0].strip() or not pair[1].strip():
            return Drop.BLANK
        most = _CHARACTERS_PER_TOKEN * self._filters.max_length
        if len(pair[0]) > most or len(pair[1]) > most:
            return Drop.TOO_LONG
        return Drop.KEPT

    def _late_reasons(self, sources, targets) -> np.ndarray:
        """Return the reasons that depend on tokens, uint8 `[pairs]`."""
        is_known = np.array([ids is not None for ids in targets], bool)
        lengths = np.array(
            [
                [1 if ids is None else len(ids) + 1 for ids in side]
                for side in (sources, targets)
            ],
            np.int64,
        )
        longer, shorter = lengths.max(axis=0), lengths.min(axis=0)
        reasons = np.where(
            longer > self._filters.max_length, Drop.TOO_LONG, Drop.KEPT
        ).astype(np.uint8)
        ratio = self._filters.max_length_ratio
        if ratio is not None and self._is_training:
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
        raise ValueError(
            f"{place}: a side has more tokens than `max_length`, "
            f"{self._filters.max_length}. {len(too_long)} of {len(reasons)} pairs of "
            "the training split are too long. Raise --max_length, or leave them out "
            "with --skip_bad."
        )

    def _check_some_left(self, reasons) -> None:
        if np.any(self._copies[reasons == Drop.KEPT]) or self._split == "test":
            return
        raise ValueError(
            f"No pair of the {self._split} split is left. Of {len(reasons)} pairs "
            f"read, dropped: {_listed(_dropped(reasons))}. Give more text, or raise "
            "max_length or max_length_ratio."
        )

    def _progress(self, pairs, verb):
        # None: shown only if standard error is a terminal.
        return tqdm.tqdm(
            pairs,
            desc=f"{verb} {self._split}",
            total=len(self._reasons) or None,
            unit=" pairs",
            disable=None,
        )


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


def _check_free(data_dir: pathlib.Path, overwrite: bool) -> None:
    """Raise if making `data_dir` would replace something unintentionally."""
    if data_dir.exists() and not data_dir.is_dir():
        raise FileExistsError(f"`data_dir` {data_dir} is a file; name a folder.")
    if not data_dir.exists() or not any(data_dir.iterdir()):
        return
    if not (data_dir / metadata.FILE_NAME).exists():
        raise FileExistsError(
            f"`data_dir` {data_dir} holds files that are not a prepared corpus. They "
            "are left as they are; name another folder."
        )
    if not overwrite:
        raise FileExistsError(
            f"`data_dir` {data_dir} already holds a prepared corpus. Name another "
            "folder, or replace it with overwrite."
        )


def _check_special_ids(tokenizer: Any) -> None:
    """Raise unless the special ids are those of tokenizers that this package trains."""
    for name in ("pad_id", "bos_id", "eos_id"):
        found, needed = getattr(tokenizer, name), getattr(config, name.upper())
        if found != needed:
            raise ValueError(
                f"The tokenizer's `{name}` must be {needed}, as in the target "
                f"vocabulary. Received: {name}={found}. Let bin/prepare_data.py train "
                "a tokenizer, or give a SentencePiece model with that id."
            )


def _chunks(pairs: Iterable) -> Iterator[tuple[int, Sequence]]:
    """Yield chunks of a stream, each with the number of items before it."""
    position, pairs = 0, iter(pairs)
    while chunk := list(itertools.islice(pairs, _CHUNK)):
        yield position, chunk
        position += len(chunk)


def _copied(pairs, folder, split):
    """Yield pairs while writing them to the raw text files of a split."""
    with contextlib.ExitStack() as stack:
        sides = [
            stack.enter_context(
                open(folder / f"{split}.{side}", "w", encoding="utf-8", newline="\n")
            )
            for side in corpus.SIDES
        ]
        for pair in pairs:
            for file, text in zip(sides, pair, strict=True):
                file.write(text + "\n")
            yield pair


def _padding(folder: pathlib.Path, seed: int) -> tuple[metadata.PaddingMetadata, ...]:
    train = corpus.EncodedCorpus.from_folder(folder, pad_id=0)
    plans = []
    for tokens_per_batch in REPORTED_TOKENS_PER_BATCH:
        if train.lengths.max() > tokens_per_batch:
            continue
        plan = train.batch_plan(tokens_per_batch=tokens_per_batch, seed=seed)
        plans.append(
            metadata.PaddingMetadata(
                tokens_per_batch=tokens_per_batch,
                padding_rate=round(plan.padding_rate, 4),
                batches_per_epoch=plan.batches_per_epoch,
                shapes=plan.shapes,
            )
        )
    return tuple(plans)
