"""The file of `bin/prepare_data.py --corpora`: the corpora of a mixture.

Imports no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import yaml

from keras_transformer import language_tokens
from keras_transformer.config import TAG, PairFilters

SPLITS = ("train", "valid", "test")

_LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]+)*")
# Tag of YAML's `<<`, which adds the fields of another mapping.
_MERGE = "tag:yaml.org,2002:merge"
# Limits of weights and of the temperature.
_WEIGHTS = (1e-6, 1e6)
_FILTERS = tuple(field.name for field in dataclasses.fields(PairFilters))
_FILES = ("source", "target", "alignments")
# The type of each field of an entry.
_TYPES = {
    **dict.fromkeys(("name", "split", "source", "target", "dataset", "tag"), str),
    "alignments": str,
    **dict.fromkeys(("source_language", "target_language"), str),
    "weight": (int, float),
    "both_directions": bool,
    **dict.fromkeys(("drop_duplicates", "drop_invalid_utf8", "drop_too_long"), bool),
    "max_length": int,
    "max_length_ratio": (int, float, type(None)),
}
_WORDS = {str: "text", bool: "true or false", int: "an integer"}


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Pairs of one origin in one direction; the fields are those of the file.

    An entry with `both_directions` becomes two of these, with half of its weight each.

    Raises:
        FileNotFoundError: If a file is absent.
        ValueError: If a value is wrong, or the pairs have no origin, or two.
    """

    name: str
    source_language: str
    target_language: str
    filters: PairFilters
    split: str = "train"
    source: pathlib.Path | None = None
    target: pathlib.Path | None = None
    # Alignments of the words, and whether those of the target come first in them.
    alignments: pathlib.Path | None = None
    alignments_reversed: bool = False
    dataset: str | None = None
    weight: float | None = None
    tag: str | None = None
    # Whether the target language is put before each source, as in ">>de<<".
    tells_language: bool = False

    def __post_init__(self):
        self._check_origin()
        if self.split not in SPLITS:
            raise ValueError(
                f"`split` must be one of {', '.join(SPLITS)}, not {self.split!r}."
            )
        if self.weight is not None:
            _check_number("weight", self.weight, _WEIGHTS[0])
        for name in ("weight", "alignments"):
            if getattr(self, name) is not None and self.split != "train":
                raise ValueError(f"`{name}` is for split: train. Leave it out.")
        if self.tag is not None and not TAG.fullmatch(self.tag):
            raise ValueError(
                "`tag` must be one word in brackets, such as <news>, and no piece of "
                f"every vocabulary, such as <s>, not {self.tag!r}."
            )
        for name in ("source_language", "target_language"):
            code = getattr(self, name)
            if code is None:
                raise ValueError(
                    f"`{name}` is needed: the vocabulary has several languages. Set "
                    f"it, or give --{name}."
                )
            if not _LANGUAGE.fullmatch(code):
                raise ValueError(
                    f"`{name}` must be a language code such as de or pt-BR, not "
                    f"{code!r}."
                )

    def _check_origin(self):
        files = {name: getattr(self, name) for name in _FILES}
        paths = {name: path for name, path in files.items() if path is not None}
        if self.dataset is not None and paths:
            raise ValueError(
                f"`dataset` and `{[*paths][0]}` exclude each other. Drop one."
            )
        if self.dataset is None and not {"source", "target"} <= paths.keys():
            raise ValueError("give `source` and `target`, two files, or `dataset`.")
        for name, path in paths.items():
            if not path.is_file():
                raise FileNotFoundError(f"no file {path}. Correct `{name}`.")

    @property
    def symbols(self) -> tuple[str, ...]:
        """The pieces that are put before each source."""
        token = ""
        if self.tells_language:
            token = language_tokens.token_of(self.target_language)
        return tuple(symbol for symbol in (token, self.tag) if symbol)

    def both_directions(self) -> list[Corpus]:
        """Return this corpus and its reverse, each with half of the weight."""
        languages = self.source_language, self.target_language
        if languages[0] == languages[1]:
            raise ValueError(
                "`both_directions` needs two languages. Set `source_language` and "
                f"`target_language`. Received: {languages[0]} twice."
            )
        reverse = dataclasses.replace(
            self,
            source_language=languages[1],
            target_language=languages[0],
            source=self.target,
            target=self.source,
            alignments_reversed=True,
        )
        return [
            dataclasses.replace(
                each,
                name=f"{self.name} {each.source_language}-{each.target_language}",
                weight=None if self.weight is None else self.weight / 2,
            )
            for each in (self, reverse)
        ]


@dataclasses.dataclass(frozen=True)
class Corpora:
    """The content of the file.

    Raises:
        ValueError: If the corpora do not fit each other.
    """

    path: pathlib.Path
    corpora: tuple[Corpus, ...]
    temperature: float | None = None

    def __post_init__(self):
        self._check_different()
        train = self.of_split("train")
        for split in ("train", "valid"):
            if not self.of_split(split):
                raise ValueError(
                    f"{self.path}: no corpus has `split: {split}`. Add one; the "
                    "default is train."
                )
        self._check_held_out(train)
        without = [corpus for corpus in train if corpus.weight is None]
        if without and len(without) < len(train):
            problem = "it has no weight, but others do. Give one to all or to none."
            raise self.refuse(without[0], problem)
        if not without and self.temperature is not None:
            problem = "`weight` and `temperature` exclude each other. Drop one."
            raise self.refuse(train[0], problem)

    def _check_different(self):
        names, origins = set(), {}
        for corpus in self.corpora:
            if corpus.name in names:
                raise self.refuse(corpus, "this name occurs twice. Rename one.")
            names.add(corpus.name)
            languages = corpus.source_language, corpus.target_language
            if corpus.dataset is not None:
                origin = corpus.dataset, corpus.split, *languages
            else:
                origin = corpus.source.resolve(), corpus.target.resolve()
            if origin in origins:
                other = origins[origin]
                raise self.refuse(
                    corpus,
                    f"it has the same pairs as {other!r}. Keep one, with a weight.",
                )
            origins[origin] = corpus.name

    def _check_held_out(self, train):
        """Raise unless held-out text has only languages and tags of training text."""
        for name in ("target_language", "tag"):
            known = {getattr(corpus, name) for corpus in train} | {None}
            for corpus in self.corpora:
                value = getattr(corpus, name)
                if value not in known:
                    raise self.refuse(
                        corpus,
                        f"no training corpus has its `{name}`, {value!r}. Correct one.",
                    )

    def of_split(self, split: str) -> tuple[Corpus, ...]:
        """Return the corpora of one split."""
        return tuple(corpus for corpus in self.corpora if corpus.split == split)

    def in_order(self) -> tuple[Corpus, ...]:
        """Return the corpora split after split."""
        return tuple(corpus for split in SPLITS for corpus in self.of_split(split))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The pieces that a vocabulary needs, each once."""
        found = (symbol for corpus in self.corpora for symbol in corpus.symbols)
        return tuple(dict.fromkeys(found))

    def telling_languages(self) -> Corpora:
        """Return the same corpora, each with its target language before the sources."""
        told = (dataclasses.replace(each, tells_language=True) for each in self.corpora)
        return dataclasses.replace(self, corpora=tuple(told))

    def shares(self, sizes: Sequence[int]) -> list[float]:
        """Return the share of each training corpus in the pairs of an epoch.

        Args:
            sizes: Pairs of each training corpus.
        """
        parts = [corpus.weight for corpus in self.of_split("train")]
        if parts[0] is None:
            parts = [size ** (1 / (self.temperature or 1)) for size in sizes]
        total = sum(parts)
        return [part / total for part in parts]

    def refuse(self, corpus: Corpus, problem: str) -> ValueError:
        """Return an error that names the file and a corpus."""
        return ValueError(f"{self.path}: corpus {corpus.name!r}: {problem}")


def read(
    path: str | os.PathLike,
    *,
    source_language: str = "en",
    target_language: str | None = "de",
    filters: PairFilters | None = None,
) -> Corpora:
    """Read a file of corpora.

    Each source begins with its target language if the training corpora have several.

    Args:
        path: A YAML file. Paths in it are relative to its folder.
        source_language: Language of the sources of entries that name none.
        target_language: Language of the targets of entries that name none; None: each
            must name one.
        filters: Filters of entries, where they name no others.

    Raises:
        FileNotFoundError: If a file is absent.
        ValueError: If the content is wrong; the message names the corpus and says what
            to do.
    """
    path = pathlib.Path(path)
    values = _read_yaml(path)
    filters = filters or PairFilters()
    languages = {"source_language": source_language, "target_language": target_language}
    found = []
    for number, entry in enumerate(values["corpora"], start=1):
        name = entry.get("name") if isinstance(entry, dict) else None
        if name is None or name == "":
            raise ValueError(
                f"{path}: entry {number} of `corpora` has no name. Add `name: NAME`."
            )
        if not isinstance(name, str) or not name.isprintable() or name.isspace():
            raise ValueError(
                f"{path}: entry {number} of `corpora`: `name` must be one line of "
                f"text, not {name!r}. Rename it, or put it into quotes."
            )
        try:
            _check_entry(entry)
            found += _corpora_of_entry({**languages, **entry}, filters, path.parent)
        except (ValueError, TypeError, FileNotFoundError) as error:
            raise type(error)(f"{path}: corpus {name!r}: {error}") from error
    corpora = Corpora(path, tuple(found), values.get("temperature"))
    targets = {corpus.target_language for corpus in corpora.of_split("train")}
    return corpora.telling_languages() if len(targets) > 1 else corpora


def _read_yaml(path: pathlib.Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"No file {path}. Check --corpora.")
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not valid YAML: {reason}. Correct it.") from error
    if not isinstance(values, dict) or not isinstance(values.get("corpora"), list):
        raise ValueError(f"{path} has no list `corpora`. Begin it with `corpora:`.")
    if not values["corpora"]:
        raise ValueError(f"{path}: the list `corpora` is empty. Add a corpus.")
    for name in values:
        if name not in ("corpora", "temperature"):
            raise ValueError(
                f"{path}: unknown field `{name}`; known: corpora, temperature."
            )
    if "temperature" in values:
        _check_number("temperature", values["temperature"], 1, f"{path}: ")
    return values


class _Loader(yaml.SafeLoader):
    """Refuses a field that occurs twice, of which YAML keeps the last."""

    def construct_mapping(self, node, deep=False):
        names = [key.value for key, _ in node.value if key.tag != _MERGE]
        for name in names:
            if names.count(name) > 1:
                raise yaml.YAMLError(
                    f"`{name}` occurs twice{node.start_mark}. Keep one"
                )
        return super().construct_mapping(node, deep)


def _corpora_of_entry(
    entry: dict[str, Any], filters: PairFilters, folder: pathlib.Path
) -> list[Corpus]:
    """Return the corpora of one entry: two if it has both directions."""
    has_both = entry.pop("both_directions", False)
    own = {name: entry.pop(name) for name in _FILTERS if name in entry}
    if "max_length_ratio" in own:
        own["max_length_ratio"] = own["max_length_ratio"] or None
    paths = {name: folder / entry[name] for name in _FILES if name in entry}
    corpus = Corpus(**entry | paths, filters=dataclasses.replace(filters, **own))
    return corpus.both_directions() if has_both else [corpus]


def _check_entry(entry: dict[str, Any]) -> None:
    """Raise ValueError unless an entry has known fields of the right types."""
    for name, value in entry.items():
        if name not in _TYPES:
            raise ValueError(f"unknown field `{name}`; known: {', '.join(_TYPES)}.")
        kind = _TYPES[name]
        is_wrong_bool = isinstance(value, bool) and kind is not bool
        if is_wrong_bool or not isinstance(value, kind):
            wanted = _WORDS.get(kind, "a number")
            hint = " Put it into quotes." if kind is str else ""
            raise ValueError(f"`{name}` must be {wanted}, not {value!r}.{hint}")


def _check_number(name: str, value: Any, least: float, place: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{place}`{name}` must be a number, not {value!r}.")
    if not least <= value <= _WEIGHTS[1]:
        raise ValueError(
            f"{place}`{name}` must be a number from {least:g} to {_WEIGHTS[1]:g}, not "
            f"{value!s:.40}. Correct it, or remove `{name}`."
        )
