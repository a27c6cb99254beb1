"""EVALB's parameter files: what bracket scoring leaves out and takes as equal."""

from __future__ import annotations

import dataclasses
import os

from keras_transformer import config, text_files

# Keywords with one label or word, and with two, and the fields that collect them.
_SETS = {
    "DELETE_LABEL": "delete_labels",
    "DELETE_LABEL_FOR_LENGTH": "delete_labels_for_length",
    "QUOTE_LABEL": "quote_labels",
}
_PAIRS = {"EQ_LABEL": "equal_labels", "EQ_WORD": "equal_words"}
_NUMBERS = {
    "CUTOFF_LEN": "cutoff_length",
    "MAX_ERROR": "max_errors",
    "LABELED": "labeled",
}
# Of EVALB's own output while it runs.
_IGNORED = ("DEBUG",)


@dataclasses.dataclass(frozen=True)
class EvalbParameters:
    """The rules of bracket scoring; the defaults are those of COLLINS.prm (Collins 97).

    Raises:
        ValueError: If `max_errors` or `cutoff_length` is below 1.
    """

    # Words with these tags are left out, and constituents with these labels are not
    # counted.
    delete_labels: frozenset[str] = frozenset(
        {"TOP", "-NONE-", ",", ":", "``", "''", "."}
    )
    # Words with these tags do not count in the length of a sentence.
    delete_labels_for_length: frozenset[str] = frozenset({"-NONE-"})
    # Each pair is one label, or word, to the scorer.
    equal_labels: frozenset[frozenset[str]] = frozenset({frozenset({"ADVP", "PRT"})})
    equal_words: frozenset[frozenset[str]] = frozenset()
    # Tags between which a quotation mark may be mistaken.
    quote_labels: frozenset[str] = frozenset()
    # Whether the labels of constituents matter.
    labeled: bool = True
    # In words; sentences no longer have a summary of their own.
    cutoff_length: int = 40
    # Scoring stops at this many sentences whose words differ from the gold tree's.
    max_errors: int = 10

    def __post_init__(self):
        config.check_at_least("cutoff_length", self.cutoff_length, 1)
        config.check_at_least("max_errors", self.max_errors, 1)

    def same_label(self, left: str, right: str) -> bool:
        """Whether two labels of constituents, or two tags, count as equal."""
        return left == right or frozenset((left, right)) in self.equal_labels

    def same_word(self, left: str, right: str) -> bool:
        """Whether two words count as equal."""
        return left == right or frozenset((left, right)) in self.equal_words


def read_parameters(path: str | os.PathLike) -> EvalbParameters:
    """Read a parameter file of EVALB, such as COLLINS.prm.

    Nothing is deleted or equal that the file does not name. Numbers that it does not
    give are EVALB's: cut-off 40, 10 errors, labelled.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is none of EVALB's; the message names file and line.
    """
    found: dict[str, set] = {name: set() for name in (*_SETS, *_PAIRS)}
    numbers: dict[str, int] = {}
    for number, line in enumerate(text_files.read_lines(path), start=1):
        keyword, *values = line.split() or ["#"]
        place = f"{path}, line {number}"
        if keyword.startswith("#") or keyword in _IGNORED:
            continue
        num_values = 2 if keyword in _PAIRS else 1
        if keyword not in (*_SETS, *_PAIRS, *_NUMBERS):
            raise ValueError(
                f"{place}: the keyword must be one of "
                f"{', '.join((*_SETS, *_PAIRS, *_NUMBERS))}. Received: {line!r}."
            )
        if len(values) != num_values:
            raise ValueError(
                f"{place}: {keyword} takes {num_values} value"
                f"{'s' * (num_values > 1)}. Received: {line!r}."
            )
        if keyword in _NUMBERS:
            numbers[_NUMBERS[keyword]] = _number(values[0], keyword, place)
        else:
            found[keyword].add(frozenset(values) if keyword in _PAIRS else values[0])
    if "labeled" in numbers:
        numbers["labeled"] = bool(numbers["labeled"])
    fields = {**_SETS, **_PAIRS}
    collected = {fields[name]: frozenset(values) for name, values in found.items()}
    return EvalbParameters(**collected, **numbers)


def _number(text: str, keyword: str, place: str) -> int:
    # LABELED 0 alone may be below 1.
    if not text.isdecimal() or (int(text) < 1 and keyword != "LABELED"):
        raise ValueError(
            f"{place}: {keyword} takes a whole number"
            f"{' from 1' * (keyword != 'LABELED')}. Received: {text!r}."
        )
    return int(text)
