"""Encoding treebanks into a corpus folder for training, §6.3.

The source is the words of a sentence in the treebank's form, joined by spaces. The
target is the symbols of its tree (`parsing.linearise`), one token each.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer import config, data, tasks
from keras_transformer.data.corpora import SPLITS
from keras_transformer.parsing import symbols
from keras_transformer.treebank import linearisation, trees
from keras_transformer.treebank.substitution import Substitution

# Takes the place of the target language's code in `metadata.json`.
TARGET_LANGUAGE = "trees"

# Trees are longer than sentences: 1024 is twice the symbols of the largest tree in the
# Penn Treebank's sample. A training tree over the limit is an error.
OPTIONS = data.PreparationOptions(
    config.PairFilters(max_length=1024, max_length_ratio=None, drop_too_long=False)
)


@dataclasses.dataclass(frozen=True)
class WeightedTrees:
    """A treebank and its weight in training.

    Args:
        path: A file or folder, same as in `trees.read_trees`.
        weight: Average number of times that each tree occurs in an epoch. With 2.25,
            every tree occurs twice, and a random quarter of the trees three times.

    Raises:
        ValueError: If `weight` is not a finite number above 0.
    """

    path: str | os.PathLike
    weight: float = 1.0

    def __post_init__(self):
        config.check_above_zero("weight", self.weight)

    @classmethod
    def from_text(cls, text: str) -> WeightedTrees:
        """Parse "PATH" or "PATH:WEIGHT"; the weight follows the last colon."""
        path, colon, weight = text.rpartition(":")
        if colon and not pathlib.Path(text).exists():
            try:
                return cls(path, float(weight))
            except ValueError as error:
                if not str(error).startswith("could not convert"):
                    raise ValueError(f"{text}: {error}") from error
        return cls(text)


class TreeFiles(data.ParallelSource):
    """Sentences and their cleaned trees, read from treebanks.

    The constructor reads all files, so bad input is found before anything is written.

    Args:
        banks: The treebanks of each split. Only those of "train" may have weights.
        language: Language code of the sentences.
        seed: Seed for the random part of weights that are not integers, and for
            substitutions.
        skip_bad: Whether to continue after a bad tree instead of raising.
        substitutions: Number of variants of each training tree made by `Substitution`
            from all training trees. They follow the trees that were read and have the
            weight of their original.

    Attributes:
        labels: Labels of constituents in the training trees, sorted.
        tags: Tags of words in the training trees, sorted.
        problems: By split, one error message for each bad tree.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If a tree is bad, a split is missing or empty, or a split other than
            "train" has a weight; the message names file and line.
    """

    def __init__(
        self,
        banks: Mapping[str, Sequence[WeightedTrees]],
        *,
        language: str = "en",
        seed: int = 0,
        skip_bad: bool = False,
        substitutions: int = 0,
    ):
        config.check_at_least("substitutions", substitutions, 0)
        for split in ("train", "valid"):
            if not banks.get(split):
                raise ValueError(f"`banks` must have trees for the {split} split.")
        self.source_language, self.target_language = language, TARGET_LANGUAGE
        self.description = " ".join(
            f"{bank.path}" + (f":{bank.weight:g}" if bank.weight != 1 else "")
            for bank in banks["train"]
        )
        if substitutions:
            self.description += f" substitutions={substitutions}"
        self.splits = tuple(name for name in SPLITS if banks.get(name))
        self.problems: dict[str, list[str]] = {}
        self._pairs: dict[str, list[tuple[bytes, bytes]]] = {}
        self._locations: dict[str, list[str]] = {}
        self._copies: dict[str, np.ndarray | None] = dict.fromkeys(self.splits)
        for split in self.splits:
            cleaned, weights = self._read(split, banks[split], skip_bad)
            if split == "train":
                random = np.random.Generator(np.random.Philox(seed))
                weights = np.array(weights * (1 + substitutions))
                self._copies[split] = _drawn_copies(weights, random)
                if substitutions:
                    self._substitute(cleaned, substitutions, random)
                self.labels = _sorted(
                    node.label for tree in cleaned for node in trees.constituents(tree)
                )
                self.tags = _sorted(tag for tree in cleaned for tag in tree.tags)

    def pairs(self, split: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the words, joined by spaces, and the tree's brackets on one line."""
        yield from self._pairs[split]

    def locate(self, split: str, side: str, index: int) -> str:
        """Return the file and the first line of a tree, for messages."""
        return self._locations[split][index]

    def copies(self, split: str) -> np.ndarray | None:
        """Return the number of copies of each training tree."""
        return self._copies[split]

    def num_unreadable(self, split: str) -> int:
        """Return the number of bad trees that were left out."""
        return len(self.problems[split])

    def _read(self, split, banks, skip_bad) -> tuple[list[trees.Tree], list[float]]:
        """Read the treebanks of a split; return the cleaned trees and their weights."""
        found, locations, problems, weights = [], [], [], []
        for bank in banks:
            if split != "train" and bank.weight != 1:
                raise ValueError(
                    f"Only training trees have weights; trees of the {split} split are "
                    f"scored once each. Received: {bank.path}:{bank.weight:g}."
                )
            read = trees.read_trees(bank.path, skip_bad=skip_bad)
            if not read.trees and not read.problems:
                raise ValueError(f"{bank.path} is empty; it needs trees in brackets.")
            problems += read.problems
            for tree, location in zip(read.trees, read.locations, strict=True):
                try:
                    cleaned = trees.clean(tree)
                    linearisation.linearise(cleaned)
                except ValueError as error:
                    problem = f"{location}: {error}"
                    if not skip_bad:
                        raise ValueError(problem) from error
                    problems.append(problem)
                    continue
                found.append(cleaned)
                locations.append(location)
                weights.append(bank.weight)
        if not found:
            raise ValueError(
                f"The {split} split has no correct tree: all {len(problems)} are bad, "
                f"such as {problems[0]}"
            )
        self._pairs[split] = [_encoded(tree) for tree in found]
        self._locations[split] = locations
        self.problems[split] = problems
        return found, weights

    def _substitute(self, bank, times, random):
        """Add variants of the training trees, `times` for each tree."""
        substitution = Substitution(bank)
        for _ in range(times):
            self._pairs["train"] += [
                _encoded(substitution.draw(tree, random)) for tree in bank
            ]
        originals = self._locations["train"]
        variants = [f"{original} (constituents substituted)" for original in originals]
        self._locations["train"] = originals + variants * times


class TreeSymbols:
    """Encodes trees, given as brackets, with a vocabulary of symbols.

    Args:
        vocabulary: The vocabulary of the training trees.
    """

    task = tasks.PARSING.name

    def __init__(self, vocabulary: symbols.SymbolVocabulary):
        self.vocabulary = vocabulary
        self.vocab_size = vocabulary.vocab_size
        self.fingerprint = vocabulary.fingerprint
        first = vocabulary.word_ids.start  # after the special ids
        self._known = frozenset(vocabulary.symbols[first:])

    def encode(self, texts: Sequence[str]) -> list[np.ndarray | None]:
        """Return the ids of each tree; None for a tree with an unknown label."""
        encoded = []
        for text in texts:
            tree = trees.from_string(text)
            written = linearisation.linearise(
                tree, keep_tags=bool(self.vocabulary.tags)
            )
            is_known = self._known.issuperset(written)
            ids = self.vocabulary.encode(written) if is_known else None
            encoded.append(None if ids is None else np.array(ids, np.int32))
        return encoded

    def save(self, data_dir: pathlib.Path) -> None:
        """Write `labels.json`."""
        self.vocabulary.save(data_dir / tasks.LABELS_FILE)


def prepare(
    source: TreeFiles,
    data_dir: str | os.PathLike,
    make_tokenizer: Callable[[Iterable[str]], Any],
    options: data.PreparationOptions = OPTIONS,
    *,
    keep_tags: bool = False,
) -> data.DataMetadata:
    """Encode treebanks into a corpus folder, atomically.

    The folder has the files of `data.prepare` and `labels.json`, the target vocabulary,
    with the labels of the training trees. For scoring, `valid.source` and `test.source`
    contain the words of each sentence, `valid.target` and `test.target` its cleaned
    tree, one per line. They include the trees that the encoded split leaves out because
    they are too long or have a label that no training tree has.

    Args:
        source: The sentences and trees.
        data_dir: The folder to write.
        make_tokenizer: Called with the training sentences; returns the source's
            tokenizer.
        options: Same as in `data.prepare`; `max_length` is the most tokens of a
            sentence and symbols of a tree. Change fields of `OPTIONS`, which drops no
            tree for its length: those of texts are no defaults for trees.
        keep_tags: Whether to write each word as its tag; else as "XX".

    Returns:
        The content of `metadata.json`.

    Raises:
        ValueError: If a training tree is too long, no training or validation tree is
            left, or the tokenizer has other special ids than this package.
        FileExistsError: If `data_dir` is not empty and may not be replaced.
        OSError: If `data_dir` cannot be written.

    Differs from the paper, whose vocabulary has 16,000 words: subwords can also spell
    words that do not occur in the training trees.
    """
    return data.prepare(
        source,
        data_dir,
        make_tokenizer,
        options,
        target=TreeSymbols(
            symbols.SymbolVocabulary(source.labels, source.tags if keep_tags else ())
        ),
    )


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _drawn_copies(weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the number of copies of each tree, int64 `[trees]`."""
    whole = np.floor(weights)
    return (whole + (random.random(len(weights)) < weights - whole)).astype(np.int64)


def _encoded(tree: trees.Tree) -> tuple[bytes, bytes]:
    words = " ".join(trees.escape(word) for word in tree.words)
    return words.encode(), trees.write(tree).encode()
