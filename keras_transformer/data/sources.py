"""Where pairs of sentences come from: text files or TensorFlow Datasets.

A source yields the same pairs in the same order each time it is read. Pairs are raw
bytes, so that the reader decides what to do with invalid UTF-8.
"""

from __future__ import annotations

import abc
import difflib
import itertools
import os
import pathlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from keras_transformer import text_files
from keras_transformer.data.alignments import WordAlignments
from keras_transformer.data.corpora import SPLITS

# Names of the splits in TensorFlow Datasets.
_TFDS_SPLITS = {"train": "train", "valid": "validation", "test": "test"}

# Pairs that are read from TensorFlow Datasets at once.
_TFDS_BATCH = 1024


class ParallelSource(abc.ABC):
    """Pairs of sentences in two languages, in up to three splits.

    Attributes:
        source_language: Language code of the source.
        target_language: Language code of the target.
        description: Where the pairs come from, in words.
        splits: Which of "train", "valid" and "test" there are.

    Examples:
        >>> paths = {name: (f"{name}.en", f"{name}.de") for name in ("train", "valid")}
        >>> source = kt.data.TextFiles(paths, "en", "de")
        >>> isinstance(source, kt.data.ParallelSource), source.splits
        (True, ('train', 'valid'))
    """

    source_language: str
    target_language: str
    description: str
    splits: tuple[str, ...]

    @abc.abstractmethod
    def pairs(self, split: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield source and target of each pair, UTF-8 without line ends."""

    @abc.abstractmethod
    def locate(self, split: str, side: str, index: int) -> str:
        """Describe the location of a sentence; `side` is "source" or "target"."""

    def copies(self, split: str) -> np.ndarray | None:
        """How often each pair is encoded, int `[pairs]`; None: once."""
        return None

    def alignments(self, split: str) -> WordAlignments | None:
        """The alignment of the words of each pair; None: not known."""
        return None

    def num_unreadable(self, split: str) -> int:
        """Entries without a pair because they could not be read."""
        return 0


class TextFiles(ParallelSource):
    """Plain text, one sentence a line; line n of both files is pair n.

    Args:
        paths: For each split the source's and the target's file; a name that ends in
            `.gz` is read through gzip.
        source_language: Language code of the source.
        target_language: Language code of the target.
        train_alignments: The alignments of the training pairs; None: there are none.

    Raises:
        FileNotFoundError: If a file is absent.

    Examples:
        >>> paths = {name: (f"{name}.en", f"{name}.de") for name in ("train", "valid")}
        >>> source = kt.data.TextFiles(paths, "en", "de")
        >>> source_text, target_text = next(source.pairs("train"))
        >>> source_text
        b'A dog runs.'
    """

    def __init__(
        self,
        paths: Mapping[str, tuple[str | os.PathLike, str | os.PathLike]],
        source_language: str,
        target_language: str,
        train_alignments: WordAlignments | None = None,
    ):
        self._train_alignments = train_alignments
        self.source_language = source_language
        self.target_language = target_language
        self.splits = _ordered_splits(paths)
        self._paths = {
            split: dict(zip(("source", "target"), map(pathlib.Path, pair), strict=True))
            for split, pair in paths.items()
        }
        for split, sides in self._paths.items():
            for side, path in sides.items():
                if not path.is_file():
                    raise FileNotFoundError(f"No file {path}. Check {split}_{side}.")
        self.description = " ".join(map(str, self._paths[self.splits[0]].values()))

    def pairs(self, split: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the lines of both files.

        Raises:
            ValueError: If a file is empty or not valid gzip, or the files differ in
                their number of lines.
        """
        source, target = self._paths[split].values()
        counts = [0, 0]
        lines = map(text_files.iterate_lines, (source, target))
        for pair in itertools.zip_longest(*lines):
            counts[0] += pair[0] is not None
            counts[1] += pair[1] is not None
            if counts[0] == counts[1]:
                yield pair
        for path, count in zip((source, target), counts, strict=True):
            if not count:
                raise ValueError(f"{path} is empty; it needs one sentence a line.")
        if counts[0] != counts[1]:
            raise ValueError(
                f"{source} has {counts[0]} lines and {target} has {counts[1]}; line n "
                "of one must translate line n of the other, so give files of equal "
                "length."
            )

    def alignments(self, split: str) -> WordAlignments | None:
        return self._train_alignments if split == "train" else None

    def locate(self, split: str, side: str, index: int) -> str:
        """Name the file and the line, counted from 1."""
        return f"{self._paths[split][side]} line {index + 1}"


class TfdsSource(ParallelSource):
    """A translation set of TensorFlow Datasets.

    The set is downloaded and prepared if needed. Its own order of the two languages
    does not matter (wmt14 is named "de-en"): the arguments decide which side is the
    source.

    Args:
        builder: A builder whose examples map language codes to sentences.
        source_language: Language code of the source.
        target_language: Language code of the target.
        description: Where the pairs come from, in words.

    Raises:
        ValueError: If the set has no such languages.
    """

    def __init__(
        self,
        builder: Any,
        source_language: str,
        target_language: str,
        description: str,
    ):
        features = getattr(builder.info.features, "keys", tuple)()
        for name, language in (
            ("source_language", source_language),
            ("target_language", target_language),
        ):
            if language not in features:
                raise ValueError(
                    f"`{name}` must be a language of {description}, which has "
                    f"{', '.join(sorted(features))}. Received: {name}={language!r}."
                )
        self.source_language = source_language
        self.target_language = target_language
        self.description = description
        self._builder = builder
        _download_and_prepare(builder, description)
        # A set that TFDS mocks without having prepared it knows no splits.
        known = set(builder.info.splits) or set(_TFDS_SPLITS.values())
        self.splits = _ordered_splits(
            [ours for ours, theirs in _TFDS_SPLITS.items() if theirs in known]
        )

    def pairs(self, split: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs of a split in the order of its files."""
        dataset = self._builder.as_dataset(
            split=_TFDS_SPLITS[split], shuffle_files=False
        )
        for batch in dataset.batch(_TFDS_BATCH).as_numpy_iterator():
            yield from zip(
                map(text_files.one_line, batch[self.source_language]),
                map(text_files.one_line, batch[self.target_language]),
                strict=True,
            )

    def locate(self, split: str, side: str, index: int) -> str:
        """Name the split, the language and the example, counted from 1."""
        language = getattr(self, f"{side}_language")
        return (
            f"{self.description} split {_TFDS_SPLITS[split]!r} example {index + 1} "
            f"({language})"
        )


def open_dataset(
    name: str,
    source_language: str,
    target_language: str,
    tfds_data_dir: str | os.PathLike | None = None,
) -> ParallelSource:
    """Open a source by name.

    Args:
        name: "tfds:NAME/CONFIG", such as "tfds:wmt14_translate/de-en".
        source_language: Language code of the source.
        target_language: Language code of the target.
        tfds_data_dir: Folder of prepared sets; None: the default of TensorFlow
            Datasets.

    Raises:
        ValueError: If there is no such source, or it lacks one of the languages.

    Examples:
        >>> kt.data.open_dataset("wmt14_translate/de-en", "en", "de")
        Traceback (most recent call last):
            ...
        ValueError: `dataset` must be 'tfds:NAME/CONFIG' such as...
    """
    if not name.startswith("tfds:") or name == "tfds:":
        raise ValueError(
            "`dataset` must be 'tfds:NAME/CONFIG' such as "
            f"'tfds:wmt14_translate/de-en'. Received: {name!r}."
        )
    builder = _tfds_builder(name.removeprefix("tfds:"), tfds_data_dir)
    return TfdsSource(builder, source_language, target_language, name)


def _tfds_builder(name, tfds_data_dir):
    # The import takes seconds, which text files do not need.
    import tensorflow_datasets as tfds

    data_dir = None if tfds_data_dir is None else os.fspath(tfds_data_dir)
    set_name, _, configuration = name.partition("/")
    try:
        return tfds.builder(name, data_dir=data_dir)
    except tfds.core.registered.DatasetNotFoundError as error:
        near = difflib.get_close_matches(set_name, tfds.list_builders(), n=1)
        hint = f" Did you mean 'tfds:{near[0]}'?" if near else ""
        raise ValueError(
            f"`dataset`: TensorFlow Datasets has no set {set_name!r}, nor has "
            f"tfds_data_dir={data_dir!r}.{hint}"
        ) from error
    except ValueError as error:
        known = ", ".join(tfds.builder_cls(set_name).builder_configs)
        raise ValueError(
            f"`dataset`: the set {set_name!r} of TensorFlow Datasets has no "
            f"configuration {configuration!r}; it has {known or 'none'}."
        ) from error


def _download_and_prepare(builder, description):
    try:
        builder.download_and_prepare()
    except Exception as error:  # downloads raise errors of many kinds
        raise OSError(
            f"{description} could not be downloaded and prepared "
            f"({type(error).__name__}: {' '.join(str(error).split())[:300]}). Prepare "
            "it on a machine with network access, and give its folder as "
            "tfds_data_dir."
        ) from error


def _ordered_splits(names: Collection[str]) -> tuple[str, ...]:
    return tuple(split for split in SPLITS if split in names)
