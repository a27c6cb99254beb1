"""From pairs of sentences to a folder that training can map into memory."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import hashlib
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tqdm

from keras_transformer import config, files
from keras_transformer.data import corpus, metadata
from keras_transformer.data.sources import ParallelSource

# Pairs of sentences that a vocabulary is trained on, drawn from the training split.
SAMPLE_PAIRS = 500_000

# Batch sizes that the share of padding is reported for: a small one, and §5.1's.
REPORTED_TOKENS_PER_BATCH = (4_096, 25_000)

# A sentence with more characters than this for each token of `max_length` is not even
# tokenized: no vocabulary writes text with so few tokens.
_CHARACTERS_PER_TOKEN = 64

# Pairs tokenized at once.
_CHUNK = 4_096


class Drop(enum.IntEnum):
    """Why a pair is not encoded; the names are those in `metadata.json`."""

    KEPT = 0
    INVALID_UTF8 = 1
    BLANK = 2
    DUPLICATE = 3
    TOO_LONG = 4
    LENGTH_RATIO = 5


@dataclasses.dataclass(frozen=True)
class _Filters:
    """The arguments of `prepare` that decide about single pairs."""

    max_length: int
    max_length_ratio: float | None
    drop_duplicates: bool
    drop_invalid_utf8: bool

    def __post_init__(self):
        config.check_at_least("max_length", self.max_length, 2)
        if self.max_length_ratio is not None and self.max_length_ratio < 1:
            raise ValueError(
                "`max_length_ratio` must be at least 1, or None for no limit. "
                f"Received: max_length_ratio={self.max_length_ratio}."
            )


def prepare(
    source: ParallelSource,
    data_dir: str | os.PathLike,
    make_tokenizer: Callable[[Iterable[str]], Any],
    *,
    max_length: int = 256,
    max_length_ratio: float | None = 9.0,
    drop_duplicates: bool = False,
    drop_invalid_utf8: bool = False,
    sample_pairs: int = SAMPLE_PAIRS,
    seed: int = 0,
    overwrite: bool = False,
) -> metadata.DataMetadata:
    """Encode a parallel corpus into a folder, which appears whole or not at all.

    The folder holds `metadata.json`, `tokenizer/`, `train/`, `valid/` and `test/` with
    tokens and offsets, and the raw text of the validation and test pairs as
    `valid.source`, `valid.target`, `test.source`, `test.target`.

    Training pairs are dropped when a side is blank, has more than `max_length` tokens,
    has `max_length_ratio` times more tokens than the other, or when the same pair came
    before. Of validation and test pairs the raw text always holds all; the encoded
    ones, for the loss, leave out the blank and the too long.

    Args:
        source: Where the pairs come from.
        data_dir: The folder to make.
        make_tokenizer: Called with sentences of both sides; returns a tokenizer.
        max_length: Most tokens of a side, EOS included.
        max_length_ratio: Most tokens of the longer side for each of the shorter, EOS
            included; None for no limit.
        drop_duplicates: Whether a training pair is kept only once.
        drop_invalid_utf8: Whether a training pair that is no UTF-8 is dropped (and
            replaced in part by U+FFFD in the others), instead of ending with an error.
        sample_pairs: Training pairs, drawn by `seed`, that `make_tokenizer` may see.
        seed: Of the draw, at least 0.
        overwrite: Whether a corpus that is already in `data_dir` may be replaced.

    Returns:
        What `metadata.json` says.

    Raises:
        ValueError: If the text is empty, its sides differ in length, a line is no
            UTF-8, no training or validation pair is left, or an argument is out of
            range; the message names file and line where there is one.
        FileExistsError: If `data_dir` holds something and may not be replaced.
        OSError: If `data_dir` cannot be written.

    Differs from the paper: §5.1 names no filters; the default ratio of 9 is that of the
    cleaning script usual for these corpora, and 256 tokens that of tensor2tensor.
    """
    filters = _Filters(max_length, max_length_ratio, drop_duplicates, drop_invalid_utf8)
    config.check_at_least("sample_pairs", sample_pairs, 1)
    config.check_at_least("seed", seed, 0)
    _check_free(pathlib.Path(data_dir), overwrite)
    with _naming(data_dir), files.atomic_folder(data_dir) as folder:
        readers = {
            split: _SplitReader(source, split, filters) for split in source.splits
        }
        for reader in readers.values():
            reader.scan()
        train = readers["train"]
        tokenizer = make_tokenizer(train.sample(sample_pairs, seed))
        tokenizer.save(folder / "tokenizer")
        splits = {
            split: reader.encode(folder, tokenizer) for split, reader in readers.items()
        }
        result = metadata.DataMetadata(
            source_language=source.source_language,
            target_language=source.target_language,
            dataset=source.description,
            tokenizer_kind=tokenizer.kind,
            tokenizer_hash=tokenizer.fingerprint,
            vocab_size=int(tokenizer.vocab_size),
            pad_id=int(tokenizer.pad_id),
            unk_id=int(tokenizer.unk_id),
            bos_id=int(tokenizer.bos_id),
            eos_id=int(tokenizer.eos_id),
            max_length=max_length,
            max_length_ratio=max_length_ratio,
            drop_duplicates=drop_duplicates,
            seed=seed,
            splits=splits,
            padding=_padding(folder / "train", seed),
        )
        text = json.dumps(result.to_json(), indent=2, ensure_ascii=False)
        files.atomic_write(folder / metadata.FILE_NAME, text + "\n")
    return result


def report(prepared: metadata.DataMetadata) -> str:
    """Describe a prepared folder to people, in a few lines."""
    lines = [
        f"{prepared.source_language} to {prepared.target_language}, vocabulary of "
        f"{prepared.vocab_size:,} ({prepared.tokenizer_kind})"
    ]
    for name, split in prepared.splits.items():
        dropped = [
            f"{count:,} {reason.replace('_', ' ')}"
            for reason, count in split.dropped.items()
            if count
        ]
        what = "dropped" if name == "train" else "left out of the loss"
        lines.append(
            f"{name}: {split.pairs_read:,} pairs read, {split.pairs:,} encoded, "
            f"{what}: {', '.join(dropped) or 'none'}; {split.source_tokens:,} + "
            f"{split.target_tokens:,} tokens, {split.tokens_per_word:.2f} a word"
        )
    for padding in prepared.padding:
        shapes = " ".join(f"{rows}x{length}" for rows, length in padding.shapes)
        lines.append(
            f"{padding.tokens_per_batch:,} tokens a batch: "
            f"{padding.batches_per_epoch:,} batches an epoch, "
            f"{padding.padding_rate:.1%} padding, shapes {shapes}"
        )
    return "\n".join(lines)


class _SplitReader:
    """Reads one split up to three times: to check it, to sample it, to encode it."""

    def __init__(self, source: ParallelSource, split: str, filters: _Filters):
        self._source, self._split, self._filters = source, split, filters
        self._is_training = split == "train"
        self._reasons = np.zeros(0, np.uint8)

    def scan(self) -> None:
        """Check all pairs and note which are dropped before tokenization."""
        reasons, seen = bytearray(), set()
        for pair in self._progress(self._decoded(), "check"):
            reason = self._reason(pair)
            if reason == Drop.KEPT and self._filters.drop_duplicates:
                reason = self._reason_if_seen(pair, seen)
            reasons.append(reason)
        self._reasons = np.frombuffer(bytes(reasons), np.uint8)
        self._check_some_left(self._reasons)

    def sample(self, num_pairs: int, seed: int) -> Iterator[str]:
        """Yield both sides of up to `num_pairs` kept pairs, drawn evenly."""
        kept = np.flatnonzero(self._reasons == Drop.KEPT)
        if len(kept) > num_pairs:
            random = np.random.Generator(np.random.Philox(seed))
            kept = random.choice(kept, num_pairs, replace=False)
        is_drawn = np.zeros(len(self._reasons), bool)
        is_drawn[kept] = True
        for pair in itertools.compress(self._decoded(), is_drawn):
            yield from pair

    def encode(self, folder: pathlib.Path, tokenizer: Any) -> metadata.SplitMetadata:
        """Write the tokens of the kept pairs and the raw text of held-out ones."""
        reasons = self._reasons.copy()
        kept = np.flatnonzero(reasons == Drop.KEPT)
        pairs = self._progress(self._decoded(), "encode")
        if not self._is_training:
            pairs = _copied(pairs, folder, self._split)
        chunks = _chunks(itertools.compress(pairs, reasons == Drop.KEPT))
        counts = np.zeros(4, np.int64)
        with corpus.CorpusWriter(
            folder / self._split, tokenizer.vocab_size, tokenizer.eos_id
        ) as writer:
            for position, chunk in chunks:
                late = self._encode_chunk(chunk, tokenizer, writer, counts)
                reasons[kept[position : position + len(chunk)]] = late
        self._check_some_left(reasons)
        return self._metadata(reasons, counts)

    def _encode_chunk(self, chunk, tokenizer, writer, counts) -> np.ndarray:
        """Write the good pairs of a chunk, count them, return reasons for the rest."""
        texts = list(zip(*chunk, strict=True))
        tokens = [tokenizer.encode(list(side)) for side in texts]
        reasons = self._late_reasons(*tokens)
        good = np.flatnonzero(reasons == Drop.KEPT)
        tokens = [[side[index] for index in good] for side in tokens]
        writer.append(*tokens)
        counts += [sum(len(ids) + 1 for ids in side) for side in tokens] + [
            sum(len(side[index].split()) for index in good) for side in texts
        ]
        return reasons

    def _metadata(self, reasons, counts) -> metadata.SplitMetadata:
        return metadata.SplitMetadata(
            pairs_read=len(reasons),
            pairs=int(np.sum(reasons == Drop.KEPT)),
            dropped={
                reason.name.lower(): int(np.sum(reasons == reason))
                for reason in Drop
                if reason != Drop.KEPT
            },
            source_tokens=int(counts[0]),
            target_tokens=int(counts[1]),
            source_words=int(counts[2]),
            target_words=int(counts[3]),
        )

    def _decoded(self) -> Iterator[tuple[str, str] | None]:
        """Yield the text of each pair; None for one that is no UTF-8 and is dropped."""
        for index, pair in enumerate(self._source.pairs(self._split)):
            try:
                yield pair[0].decode("utf-8"), pair[1].decode("utf-8")
            except UnicodeDecodeError:
                yield self._repaired(index, pair)

    def _repaired(self, index, pair):
        if self._filters.drop_invalid_utf8:
            if self._is_training:
                return None
            return tuple(side.decode("utf-8", errors="replace") for side in pair)
        errors = {
            side: error
            for side, sentence in zip(corpus.SIDES, pair, strict=True)
            if (error := _utf8_error(sentence))
        }
        side, error = next(iter(errors.items()))
        raise ValueError(
            f"{self._source.locate(self._split, side, index)} is no valid UTF-8: "
            f"{error.reason} at byte {error.start + 1}. Convert it to UTF-8, or drop "
            "such pairs with drop_invalid_utf8."
        )

    def _reason(self, pair) -> Drop:
        if pair is None:
            return Drop.INVALID_UTF8
        if not pair[0].strip() or not pair[1].strip():
            return Drop.BLANK
        most = _CHARACTERS_PER_TOKEN * self._filters.max_length
        if len(pair[0]) > most or len(pair[1]) > most:
            return Drop.TOO_LONG
        return Drop.KEPT

    def _reason_if_seen(self, pair, seen) -> Drop:
        if not self._is_training:
            return Drop.KEPT
        # Eight bytes for each pair instead of its text; two of 36 million pairs share
        # them by chance with a probability of 4e-5.
        digest = hashlib.blake2b("\n".join(pair).encode(), digest_size=8).digest()
        key = int.from_bytes(digest)
        if key in seen:
            return Drop.DUPLICATE
        seen.add(key)
        return Drop.KEPT

    def _late_reasons(self, sources, targets) -> np.ndarray:
        """Return the reasons that only tokens can tell, uint8 `[pairs]`."""
        lengths = np.array(
            [[len(ids) + 1 for ids in side] for side in (sources, targets)], np.int64
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
        return reasons

    def _check_some_left(self, reasons) -> None:
        if np.any(reasons == Drop.KEPT) or self._split == "test":
            return
        counts = ", ".join(
            f"{np.sum(reasons == reason)} {reason.name.lower().replace('_', ' ')}"
            for reason in Drop
            if reason != Drop.KEPT and np.any(reasons == reason)
        )
        raise ValueError(
            f"No pair of the {self._split} split is left: of {len(reasons)} pairs "
            f"{counts or 'none came'}. Give more text, or raise max_length or "
            "max_length_ratio."
        )

    def _progress(self, pairs, verb):
        # Silent where standard error is no terminal.
        return tqdm.tqdm(
            pairs,
            desc=f"{verb} {self._split}",
            total=len(self._reasons) or None,
            unit=" pairs",
            disable=None,
        )


def _utf8_error(sentence: bytes) -> UnicodeDecodeError | None:
    try:
        sentence.decode("utf-8")
    except UnicodeDecodeError as error:
        return error
    return None


def _check_free(data_dir: pathlib.Path, overwrite: bool) -> None:
    """Raise if making `data_dir` would destroy something that was not meant."""
    if data_dir.exists() and not data_dir.is_dir():
        raise FileExistsError(f"`data_dir` {data_dir} is a file; name a folder.")
    if not data_dir.exists() or not any(data_dir.iterdir()):
        return
    if not (data_dir / metadata.FILE_NAME).exists():
        raise FileExistsError(
            f"`data_dir` {data_dir} holds files that are no prepared corpus; they "
            "stay. Name another folder."
        )
    if not overwrite:
        raise FileExistsError(
            f"`data_dir` {data_dir} already holds a prepared corpus. Name another "
            "folder, or replace it with overwrite."
        )


@contextlib.contextmanager
def _naming(data_dir: str | os.PathLike) -> Iterator[None]:
    """Name the folder in errors such as a full disk, which do not name a file."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(data_dir)
        raise


def _chunks(pairs: Iterable) -> Iterator[tuple[int, Sequence]]:
    """Yield pieces of a stream, each with the number of items before it."""
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
