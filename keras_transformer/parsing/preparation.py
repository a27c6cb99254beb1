"""From treebanks to a folder that training can map into memory, §6.3.

The source is the words of a sentence, joined by spaces, in the treebank's form; the
target is the symbols of its tree (`parsing.linearise`), each of which is one token.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer import config, data
from keras_transformer.data import metadata
from keras_transformer.parsing import symbols
from keras_transformer.treebank import linearisation, trees
from keras_transformer.treebank.substitution import Substitution

TASK = "parsing"

# Named in `metadata.json` where a translation has the code of a language.
TARGET_LANGUAGE = "trees"

# Twice the most symbols of a tree of the Penn Treebank's sample.
MAX_LENGTH = 1024


@dataclasses.dataclass(frozen=True)
class WeightedTrees:
    """A treebank, and how often its trees occur in an epoch.

    Args:
        path: A file or folder, as of `trees.read_trees`.
        weight: Times that each tree occurs in an epoch on average: 2.25 stands for two
            times, and for a quarter of the trees, drawn once by the seed, a third.

    Raises:
        ValueError: If `weight` is not a finite number above 0.
    """

    path: str | os.PathLike
    weight: float = 1.0

    def __post_init__(self):
        config.check_above_zero("weight", self.weight)

    @classmethod
    def from_text(cls, text: str) -> WeightedTrees:
        """Read "PATH" or "PATH:WEIGHT"; a path with a colon takes a weight after it."""
        path, colon, weight = text.rpartition(":")
        if colon and not pathlib.Path(text).exists():
            try:
                return cls(path, float(weight))
            except ValueError as error:
                if not str(error).startswith("could not convert"):
                    raise ValueError(f"{text}: {error}") from error
        return cls(text)


class TreeFiles(data.ParallelSource):
    """Sentences and their cleaned trees, from treebanks.

    Everything is read at once, so bad input is found before anything is made.

    Args:
        banks: For each split its treebanks. Only those of "train" may have weights.
        language: Language code of the sentences.
        seed: Draws which trees occur once more where a weight is no whole number, and
            what is substituted.
        skip_bad: Whether to go on after a bad tree; else it is an error.
        substitutions: Trees made from each training tree by `Substitution`, out of
            all training trees whatever their weight; they follow those that were read
            and have the weight of the tree that they are made from.

    Attributes:
        labels: Of the training trees' constituents, sorted.
        tags: Of the training trees' words, sorted.
        problems: By split, what was wrong with each bad tree.

    Raises:
        FileNotFoundError: If a file is absent.
        ValueError: If a tree is bad, a split has no trees or is missing, or a weight
            stands where there can be none; the message names file and line.
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
        self.splits = tuple(name for name in metadata.SPLITS if banks.get(name))
        self.problems: dict[str, list[str]] = {}
        self._pairs: dict[str, list[tuple[bytes, bytes]]] = {}
        self._places: dict[str, list[str]] = {}
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
        """Name the file and the line where the tree begins."""
        return self._places[split][index]

    def copies(self, split: str) -> np.ndarray | None:
        """How often each training tree is encoded."""
        return self._copies[split]

    def num_unreadable(self, split: str) -> int:
        """Bad trees that were left out."""
        return len(self.problems[split])

    def _read(self, split, banks, skip_bad) -> tuple[list[trees.Tree], list[float]]:
        """Read the treebanks of a split; return the cleaned trees and their weights."""
        found, places, problems, weights = [], [], [], []
        for bank in banks:
            if split != "train" and bank.weight != 1:
                raise ValueError(
                    f"Only training trees have weights; those of the {split} split are "
                    f"scored once each. Received: {bank.path}:{bank.weight:g}."
                )
            read = trees.read_trees(bank.path, skip_bad=skip_bad)
            if not read.trees and not read.problems:
                raise ValueError(f"{bank.path} is empty; it needs trees in brackets.")
            problems += read.problems
            for tree, place in zip(read.trees, read.locations, strict=True):
                try:
                    cleaned = trees.clean(tree)
                    linearisation.linearise(cleaned)
                except ValueError as error:
                    problem = f"{place}: {error}"
                    if not skip_bad:
                        raise ValueError(problem) from error
                    problems.append(problem)
                    continue
                found.append(cleaned)
                places.append(place)
                weights.append(bank.weight)
        if not found:
            raise ValueError(
                f"No tree of the {split} split is left: all {len(problems)} are bad, "
                f"such as {problems[0]}"
            )
        self._pairs[split] = [_encoded(tree) for tree in found]
        self._places[split] = places
        self.problems[split] = problems
        return found, weights

    def _substitute(self, bank, times, random):
        """Add the trees that are made from the training trees."""
        substitution = Substitution(bank)
        for _ in range(times):
            self._pairs["train"] += [
                _encoded(substitution.draw(tree, random)) for tree in bank
            ]
        places = self._places["train"]
        made = [f"{place} (with constituents substituted)" for place in places]
        self._places["train"] = places + made * times


class TreeSymbols:
    """Encodes trees, written as brackets, by the symbols of a vocabulary.

    Args:
        vocabulary: Of the training trees' labels.
    """

    task = TASK

    def __init__(self, vocabulary: symbols.SymbolVocabulary):
        self.vocabulary = vocabulary
        self.vocab_size = vocabulary.vocab_size
        self.fingerprint = vocabulary.fingerprint
        first = vocabulary.word_ids.start  # after those that mean nothing in a tree
        self._known = frozenset(vocabulary.symbols[first:])

    def encode(self, texts: Sequence[str]) -> list[np.ndarray | None]:
        """Return the ids of each tree; None for one with an unknown label."""
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
        self.vocabulary.save(data_dir / symbols.FILE_NAME)


def prepare(
    source: TreeFiles,
    data_dir: str | os.PathLike,
    make_tokenizer: Callable[[Iterable[str]], Any],
    *,
    max_length: int = MAX_LENGTH,
    drop_duplicates: bool = False,
    drop_too_long: bool = False,
    keep_tags: bool = False,
    seed: int = 0,
    overwrite: bool = False,
) -> data.DataMetadata:
    """Encode treebanks into a folder, which appears whole or not at all.

    The folder is that of `data.prepare` with `labels.json`, the vocabulary of the
    target: the labels of the training trees. `valid.source` and `test.source` hold the
    words of each sentence, `valid.target` and `test.target` its cleaned tree, a line
    each, for scoring: all of them, also those that the encoded split leaves out because
    they are too long or have a label that no training tree has.

    Args:
        source: Trees.
        data_dir: The folder to make.
        make_tokenizer: Called with the training sentences; returns the source's
            tokenizer.
        max_length: Most tokens of a sentence and most symbols of a tree, EOS included.
        drop_duplicates: Whether a training tree that came before is left out.
        drop_too_long: Whether training trees with more are left out; else they are an
            error.
        keep_tags: Whether each word's symbol is its tag; else it is "XX", whatever the
            tag.
        seed: As of `data.prepare`.
        overwrite: Whether a corpus that is already in `data_dir` may be replaced.

    Returns:
        What `metadata.json` says.

    Raises:
        ValueError: If a training tree is too long, no training or validation tree is
            left, or the tokenizer has other special ids than ours.
        FileExistsError: If `data_dir` holds something and may not be replaced.
        OSError: If `data_dir` cannot be written.

    Differs from the paper: it has 16,000 words in the vocabulary; ours has sub-words,
    which also spell words that no training tree has.
    """
    return data.prepare(
        source,
        data_dir,
        make_tokenizer,
        target=TreeSymbols(
            symbols.SymbolVocabulary(source.labels, source.tags if keep_tags else ())
        ),
        max_length=max_length,
        max_length_ratio=None,
        drop_duplicates=drop_duplicates,
        drop_too_long=drop_too_long,
        seed=seed,
        overwrite=overwrite,
    )


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _drawn_copies(weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return how often each tree occurs, int64 `[trees]`."""
    whole = np.floor(weights)
    return (whole + (random.random(len(weights)) < weights - whole)).astype(np.int64)


def _encoded(tree: trees.Tree) -> tuple[bytes, bytes]:
    words = " ".join(trees.escape(word) for word in tree.words)
    return words.encode(), trees.write(tree).encode()
