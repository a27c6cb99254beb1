"""EVALB's parameter files: which labels and words are ignored or count as equal."""

from __future__ import annotations

import dataclasses
import os

from keras_transformer import config, text_files

# Keywords that take one label, two labels or words, or a number, and their fields.
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
# Controls EVALB's debugging output.
_IGNORED = ("DEBUG",)


@dataclasses.dataclass(frozen=True)
class EvalbParameters:
    """The rules of bracket scoring; the defaults are those of COLLINS.prm (Collins 97).

    Raises:
        ValueError: If `max_errors` or `cutoff_length` is below 1.
    """

    # Words with these tags and constituents with these labels are not scored.
    delete_labels: frozenset[str] = frozenset(
        {"TOP", "-NONE-", ",", ":", "``", "''", "."}
    )
    # Words with these tags do not count towards the length of a sentence.
    delete_labels_for_length: frozenset[str] = frozenset({"-NONE-"})
    # Pairs of labels, and of words, that count as equal.
    equal_labels: frozenset[frozenset[str]] = frozenset({frozenset({"ADVP", "PRT"})})
    equal_words: frozenset[frozenset[str]] = frozenset()
    # Tags that a quotation mark may have; confusing them costs only the tag.
    quote_labels: frozenset[str] = frozenset()
    # Whether constituents must have the same label to match.
    labeled: bool = True
    # In words; the second summary covers sentences up to this length.
    cutoff_length: int = 40
    # Scoring stops at this number of sentences whose words differ from the gold tree's.
    max_errors: int = 10

    def __post_init__(self):
        config.check_at_least("cutoff_length", self.cutoff_length, 1)
        config.check_at_least("max_errors", self.max_errors, 1)

    def same_label(self, left: str, right: str) -> bool:
        """Return whether two labels of constituents, or two tags, count as equal."""
        return left == right or frozenset((left, right)) in self.equal_labels

    def same_word(self, left: str, right: str) -> bool:
        """Return whether two words count as equal."""
        return left == right or frozenset((left, right)) in self.equal_words


COLLINS = EvalbParameters()


def read_parameters(path: str | os.PathLike) -> EvalbParameters:
    """Read a parameter file of EVALB, such as COLLINS.prm.

    Only labels and words that the file lists are deleted or equal. Missing numbers have
    EVALB's defaults: cutoff 40, 10 errors, labeled.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is invalid; the message names file and line.
    """
    found: dict[str, set] = {name: set() for name in (*_SETS, *_PAIRS)}
    numbers: dict[str, int] = {}
    for number, line in enumerate(text_files.read_lines(path), start=1):
        keyword, *values = line.split() or ["#"]
        location = f"{path}, line {number}"
        if keyword.startswith("#") or keyword in _IGNORED:
            continue
        num_values = 2 if keyword in _PAIRS else 1
        if keyword not in (*_SETS, *_PAIRS, *_NUMBERS):
            raise ValueError(
                f"{location}: the keyword must be one of "
                f"{', '.join((*_SETS, *_PAIRS, *_NUMBERS))}. Received: {line!r}."
            )
        if len(values) != num_values:
            raise ValueError(
                f"{location}: {keyword} takes {num_values} value"
                f"{'s' * (num_values > 1)}. Received: {line!r}."
            )
        if keyword in _NUMBERS:
            numbers[_NUMBERS[keyword]] = _number(values[0], keyword, location)
        else:
            found[keyword].add(frozenset(values) if keyword in _PAIRS else values[0])
    if "labeled" in numbers:
        numbers["labeled"] = bool(numbers["labeled"])
    fields = {**_SETS, **_PAIRS}
    collected = {fields[name]: frozenset(values) for name, values in found.items()}
    return EvalbParameters(**collected, **numbers)


def _number(text: str, keyword: str, location: str) -> int:
    # Only LABELED may be 0.
    if not text.isdecimal() or (int(text) < 1 and keyword != "LABELED"):
        raise ValueError(
            f"{location}: {keyword} takes an integer"
            f"{' of at least 1' * (keyword != 'LABELED')}. Received: {text!r}."
        )
    return int(text)
