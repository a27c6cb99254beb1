"""A corpus as token ids on disk, mapped into memory when opened."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_transformer import atomic_files
from keras_transformer.data import batch_plan, metadata, packing

SIDES = ("source", "target")
# Name of the files of alignments, beside those of the sides.
_ALIGNMENT = "alignment"
# Tokens checked at once.
_CHECKED_TOKENS = 1 << 22


class EncodedCorpus:
    """The token ids of one split: pair i of the source and pair i of the target.

    Every sentence ends with EOS. The ids of all sentences are in one flat file; offsets
    say where each sentence begins. The files are mapped into memory, not read.

    Args:
        source: The source side, flat tokens and int64 `[pairs + 1]` offsets.
        target: The target side, likewise.
        pad_id: Id that fills the rows that `rows` returns.
        corpora: The corpora of a mixture, in the order of their pairs.
        links: The alignments of the pairs, if `rows` returns them: flat, the numbers of
            a source token and of a target token for each link, and offsets.

    Examples:
        >>> corpus = kt.data.EncodedCorpus.open("data/my", "train")
        >>> len(corpus)
        2
        >>> source, target = corpus[0]
        >>> tokenizer.decode(source[:-1])
        'A dog runs.'
    """

    def __init__(
        self,
        source: tuple[np.ndarray, np.ndarray],
        target: tuple[np.ndarray, np.ndarray],
        pad_id: int,
        corpora: Sequence[metadata.CorpusMetadata] = (),
        links: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        self._sides = (source, target)
        self._links = links
        self.pad_id = pad_id
        self._corpora = corpora

    @classmethod
    def open(
        cls, data_dir: str | os.PathLike, split: str, *, is_aligned: bool = False
    ) -> EncodedCorpus:
        """Open one split of a folder that `prepare` made.

        Args:
            data_dir: The folder.
            split: "train", "valid" or "test".
            is_aligned: Whether `rows` also returns alignments, which the split must
                have.

        Raises:
            FileNotFoundError: If the folder holds no prepared corpus.
            ValueError: If it has no such split, or its files are damaged.
        """
        description = metadata.read_metadata(data_dir)
        if split not in description.splits:
            raise ValueError(
                f"`split` must be one of {', '.join(description.splits)}: {data_dir} "
                f"holds no other. Received: split={split!r}."
            )
        folder = pathlib.Path(data_dir) / split
        corpora = description.corpora_of(split)
        return cls.from_folder(folder, description.pad_id, corpora, is_aligned)

    @classmethod
    def from_folder(
        cls,
        folder: pathlib.Path,
        pad_id: int,
        corpora: Sequence[metadata.CorpusMetadata] = (),
        is_aligned: bool = False,
    ) -> EncodedCorpus:
        """Open a folder of `CorpusWriter`; ValueError if its files are damaged."""
        names = (*SIDES, _ALIGNMENT) if is_aligned else SIDES
        flat = [_open_flat(folder, name) for name in names]
        if len({len(offsets) for _, offsets in flat}) > 1:
            raise _damaged(folder)
        source, target, *links = flat
        return cls(source, target, pad_id, corpora, *links)

    @property
    def is_aligned(self) -> bool:
        """Whether `rows` returns alignments too."""
        return self._links is not None

    def __len__(self) -> int:
        return len(self._sides[0][1]) - 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of source and target of one pair, EOS at the end of each."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        index %= len(self)
        return tuple(
            tokens[offsets[index] : offsets[index + 1]].astype(np.int32)
            for tokens, offsets in self._sides
        )

    @functools.cached_property
    def source_lengths(self) -> np.ndarray:
        """int32 `[pairs]`, tokens of each source, EOS included."""
        return np.diff(self._sides[0][1]).astype(np.int32)

    @functools.cached_property
    def target_lengths(self) -> np.ndarray:
        """int32 `[pairs]`, tokens of each target, EOS included."""
        return np.diff(self._sides[1][1]).astype(np.int32)

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """int32 `[pairs]`, tokens of the longer side of each pair, EOS included."""
        return np.maximum(self.source_lengths, self.target_lengths)

    def neighbours(self) -> np.ndarray:
        """Return the ids that follow each other, int64 `[pairs, 2]`, each pair once."""
        found = np.zeros(0, np.int64)
        shift = 1 << 32
        for tokens, _ in self._sides:
            for start in range(0, len(tokens), _CHECKED_TOKENS):
                block = tokens[start : start + _CHECKED_TOKENS + 1].astype(np.int64)
                found = np.union1d(found, block[:-1] * shift + block[1:])
        return np.stack(np.divmod(found, shift), axis=1)

    def target_counts(self, vocab_size: int) -> np.ndarray:
        """Count the tokens of the target by id, int64 `[vocab_size]`."""
        counts = np.zeros(vocab_size, np.int64)
        for block in _blocks(self._sides[1][0]):
            counts += np.bincount(block, minlength=vocab_size)
        return counts

    def check_ids(self, source_vocab_size: int, target_vocab_size: int) -> None:
        """Raise ValueError if a token is padding or beyond its vocabulary.

        Reads the whole corpus.
        """
        sizes = (source_vocab_size, target_vocab_size)
        for name, size, side in zip(SIDES, sizes, self._sides, strict=True):
            tokens, offsets = side
            highest = max((int(block.max()) for block in _blocks(tokens)), default=0)
            has_padding = any(np.any(block == self.pad_id) for block in _blocks(tokens))
            is_empty = np.any(np.diff(offsets) < 1)
            if is_empty or highest >= size or has_padding:
                raise ValueError(
                    f"The {name} side of the corpus is damaged: sentences must have 1 "
                    f"token or more, each below {size} and none of them padding "
                    f"({self.pad_id}). Received: ids up to {highest}. Prepare it again."
                )

    def check_segments(self, eos_id: int) -> None:
        """Raise ValueError unless EOS ends every sentence and occurs nowhere else.

        The pairs of a packed row are told apart by it. Reads the whole corpus.
        """
        for name, (tokens, offsets) in zip(SIDES, self._sides, strict=True):
            num_ends = sum(np.count_nonzero(b == eos_id) for b in _blocks(tokens))
            if num_ends != len(self) or np.any(tokens[offsets[1:] - 1] != eos_id):
                raise ValueError(
                    "`pack` tells pairs apart by EOS, which must end every sentence "
                    f"and occur nowhere else. Received: {num_ends:,} EOS ({eos_id}) "
                    f"in {len(self):,} sentences of the {name}. Train without --pack, "
                    "or prepare the corpus again."
                )

    def batch_plan(self, **settings: Any) -> batch_plan.BatchPlan:
        """Plan batches of this corpus; `settings`: other arguments of `BatchPlan`."""
        lengths = self.source_lengths, self.target_lengths
        return batch_plan.BatchPlan(*lengths, corpora=self._corpora, **settings)

    def packed_batch_plan(self, **settings: Any) -> packing.PackedBatchPlan:
        """Plan batches as in `batch_plan`, whose rows hold several pairs each."""
        lengths = self.source_lengths, self.target_lengths
        return packing.PackedBatchPlan(*lengths, corpora=self._corpora, **settings)

    def rows(
        self, indices: np.ndarray, source_length: int, target_length: int
    ) -> tuple[np.ndarray, ...]:
        """Gather pairs into two padded matrices.

        Args:
            indices: int `[rows]`, pairs, or `[rows, pairs]`, the pairs that follow each
                other in a row; a negative index stands for no pair.
            source_length: Columns of the source matrix; the sources of a row must fit.
            target_length: Columns of the target matrix, likewise.

        Returns:
            Source and target tokens, int32 `[rows, source_length]` and
            `[rows, target_length]`. If the corpus is open with alignments, which need
            one pair a row, also which source tokens each target token is aligned with,
            bool `[rows, target_length, source_length]`.
        """
        lengths = (source_length, target_length)
        sides = tuple(
            _gather(tokens, offsets, indices, length, self.pad_id)
            for (tokens, offsets), length in zip(self._sides, lengths, strict=True)
        )
        if not self.is_aligned:
            return sides
        aligned = np.zeros((len(indices), target_length, source_length), bool)
        numbers, offsets = self._links
        positions, sizes = _positions(offsets, np.asarray(indices))
        source, target = numbers[positions].reshape(-1, 2).T
        aligned[np.repeat(np.arange(len(sizes)), sizes // 2), target, source] = True
        return *sides, aligned


def corpus_hash(data_dir: str | os.PathLike) -> str:
    """Return the SHA-256 of what decides the batches of a prepared folder.

    These are the encoded training split and the shares of its corpora.

    It is in `metadata.json`, unless an earlier release prepared the folder.

    Examples:
        >>> len(kt.data.corpus_hash("data/my"))
        64
    """
    return metadata.read_metadata(data_dir).corpus_hash or split_hash(
        pathlib.Path(data_dir) / "train"
    )


def split_hash(folder: pathlib.Path) -> str:
    """Return the SHA-256 of the files that `CorpusWriter` wrote."""
    has_links = _paths(folder, _ALIGNMENT)[0].exists()
    names = (*SIDES, _ALIGNMENT) if has_links else SIDES
    return atomic_files.sha256_of(
        *(path for name in names for path in _paths(folder, name))
    )


class CorpusWriter:
    """Writes one split of an encoded corpus, pair after pair.

    Only the lengths stay in memory. The folder is complete after `close`; before that,
    `EncodedCorpus.open` refuses it.

    Args:
        folder: Folder to write; it is made if absent.
        vocab_size: Number of ids; they are stored in the smallest unsigned type.
        eos_id: Id that is appended to each side of each pair.
        max_length: Most tokens of a side, if pairs have alignments; None: they have
            none.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        vocab_size: int,
        eos_id: int,
        max_length: int | None = None,
    ):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._writers = [
            _FlatWriter(folder, side, vocab_size, [eos_id]) for side in SIDES
        ]
        if max_length is not None:
            self._writers.append(_FlatWriter(folder, _ALIGNMENT, max_length, []))

    @property
    def is_aligned(self) -> bool:
        """Whether pairs have alignments."""
        return len(self._writers) > len(SIDES)

    def append(
        self,
        sources: Sequence[np.ndarray],
        targets: Sequence[np.ndarray],
        alignments: Sequence[np.ndarray] = (),
    ) -> None:
        """Add pairs.

        Args:
            sources: Ids without EOS.
            targets: Ids without EOS.
            alignments: If pairs have alignments, those of each pair: int `[links, 2]`,
                a source token and a target token.
        """
        flat = [links.ravel() for links in alignments]
        for writer, arrays in zip(
            self._writers, (sources, targets, flat), strict=False
        ):
            writer.append(arrays)

    def close(self) -> None:
        """Write headers and offsets, which make the folder readable."""
        for writer in self._writers:
            writer.close()

    def __enter__(self) -> CorpusWriter:
        return self

    def __exit__(self, error_type, error, traceback) -> None:
        if error_type is None:
            self.close()
        else:
            for writer in self._writers:
                writer.abandon()


class _FlatWriter:
    """One flat .npy file of numbers below a limit that grows, and its offsets."""

    def __init__(self, folder, name, limit, end):
        self._numbers_path, self._offsets_path = _paths(folder, name)
        self._dtype = np.min_scalar_type(limit - 1)
        self._end = np.array(end, self._dtype)  # follows each array
        self._lengths = [np.zeros(0, np.int32)]
        self._size = 0
        self._file = open(self._numbers_path, "wb")  # noqa: SIM115 closed in `close`
        self._write_header()

    def append(self, arrays):
        if not len(arrays):
            return
        parts = [part for array in arrays for part in (array, self._end)]
        numbers = np.concatenate(parts).astype(self._dtype)
        self._file.write(numbers.tobytes())
        self._size += len(numbers)
        self._lengths.append(
            np.array([len(array) + len(self._end) for array in arrays], np.int32)
        )

    def close(self):
        self._write_header()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        lengths = np.concatenate(self._lengths)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        np.save(self._offsets_path, offsets)

    def abandon(self):
        self._file.close()

    def _write_header(self):
        # NumPy pads the header, so it can be written again in place when the array has
        # grown.
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(
            self._file,
            {
                "descr": np.lib.format.dtype_to_descr(self._dtype),
                "fortran_order": False,
                "shape": (self._size,),
            },
        )


def _paths(folder: pathlib.Path, name: str) -> tuple[pathlib.Path, pathlib.Path]:
    kind = "links" if name == _ALIGNMENT else "tokens"
    return folder / f"{name}_{kind}.npy", folder / f"{name}_offsets.npy"


def _blocks(tokens: np.ndarray) -> Iterator[np.ndarray]:
    """Yield a side in parts: a corpus may be larger than memory."""
    for start in range(0, len(tokens), _CHECKED_TOKENS):
        yield tokens[start : start + _CHECKED_TOKENS]


def _open_flat(folder: pathlib.Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        # Plain arrays index faster than `np.memmap`.
        numbers, offsets = (
            np.asarray(np.load(path, mmap_mode="r")) for path in _paths(folder, name)
        )
    except (OSError, ValueError) as error:
        raise _damaged(folder) from error
    if not len(offsets) or offsets[-1] != len(numbers):
        raise _damaged(folder)
    return numbers, offsets


def _damaged(folder: pathlib.Path) -> ValueError:
    return ValueError(
        f"The encoded corpus in {folder} is damaged: its tokens and offsets do not "
        "match. Prepare it again with bin/prepare_data.py "
        f"--data_dir={folder.parent} --overwrite."
    )


def _gather(tokens, offsets, indices, length, pad_id):
    indices = np.asarray(indices)
    if indices.ndim == 1:
        indices = indices[:, None]
    positions, lengths = _positions(offsets, indices)
    is_token = np.arange(length) < lengths.sum(axis=1)[:, None]
    matrix = np.full(is_token.shape, pad_id, np.int32)
    matrix[is_token] = tokens[positions]
    return matrix


def _positions(offsets, indices):
    """Return where the numbers of pairs are in a flat file, and how many each has.

    The first are int64 `[numbers]`, in the order in which they fill rows; the second
    has the shape of `indices`, with 0 for a negative index.
    """
    starts = offsets[indices]
    lengths = np.where(indices < 0, 0, offsets[indices + 1] - starts)
    starts, sizes = starts.ravel(), lengths.ravel()
    ends = np.cumsum(sizes)
    positions = np.repeat(starts - (ends - sizes), sizes) + np.arange(sizes.sum())
    return positions, lengths
