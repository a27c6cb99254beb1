"""Drawing the corpus: which sentences exist, and to which split each belongs.

* A sentence with values (numbers, times, dates, prices) belongs to the split of its
  values; one whose values are of different splits is never drawn. `values.py` assigns
  each value to one split, whatever the sentence.
* A sentence without values belongs to the split that the hash of its pattern and its
  fillers gives: the combination is held out, while pattern and fillers are trained.
* A held-out sentence is dropped if a word of it is missing from the training split. So
  every word of the held-out splits is met in training, words as in `words_of`.

Neither assignment depends on the seed, so no seed's training split holds another seed's
held-out sentences.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from examples.phrasebook import grammar, lexicon, numbers, templates, values
from keras_transformer.config import check_at_least, check_choice

DEFAULT_SIZES = {values.TRAIN: 24_000, values.VALIDATION: 500, values.TEST: 500}

# Failures in a row after which a pattern counts as used up.
_MAX_FAILURES = 100

# Held-out sentences refused in a row after which the training split is too small.
_MAX_REFUSED = 5000

# Letters, with an apostrophe inside ("o'clock"), or one digit.
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d")


@dataclasses.dataclass(frozen=True)
class Example:
    """A sentence pair and what it was made of.

    Attributes:
        english: The English sentence.
        german: Its translation.
        pattern: The name of its pattern.
        fillers: The filler or the value in each slot that was drawn.
    """

    english: str
    german: str
    pattern: str
    fillers: Mapping[str, Any]

    @property
    def pair(self) -> tuple[str, str]:
        return self.english, self.german


def words_of(sentence: str, language: str) -> list[str]:
    """Split a sentence into the words that count for the vocabulary.

    A word is a run of letters, so hyphens separate ("twenty-one" is two words); an
    apostrophe inside belongs to it. In numerals each digit is a word. A German compound
    number counts as its parts: "einundzwanzig" is "ein", "und", "zwanzig". Punctuation
    is left out and case is kept.

    Args:
        sentence: Any text.
        language: "en" or "de".
    """
    words = _WORD.findall(sentence)
    if language == grammar.GERMAN:
        return [part for word in words for part in numbers.german_parts(word)]
    return words


def build(
    sizes: Mapping[str, int] | None = None, seed: int = 0
) -> dict[str, list[Example]]:
    """Draw the splits of a corpus.

    The training pairs are a prefix of those of a larger training split with the same
    seed; held-out pairs likewise, if the training split is the same.

    Args:
        sizes: Pairs by the name of the split; `DEFAULT_SIZES` where a name is absent.
        seed: Selects the sample. The same seed gives the same pairs on every machine.

    Returns:
        The examples of "train", "validation" and "test". No English sentence appears
        twice in the corpus, no German sentence in two splits.

    Raises:
        TypeError: If a size is no integer.
        ValueError: If a split's name is unknown, a size is negative, or the grammar
            does not have that many sentences for a split.
    """
    sizes = _checked_sizes(sizes or {})
    taken = _Taken()
    return {split: _take(split, sizes[split], seed, taken) for split in values.SPLITS}


def generate(
    split: str, count: int | None = None, seed: int = 0
) -> Iterator[tuple[str, str]]:
    """Give the sentence pairs of a split.

    Args:
        split: "train", "validation" or "test".
        count: How many; the default is 24,000 for training and 500 for the others. The
            other splits have their default size.
        seed: Selects the sample.

    Returns:
        Pairs of an English sentence and its German translation.

    Raises:
        TypeError: If `count` is no integer.
        ValueError: If `split` is unknown, or `count` is negative or more than the
            grammar has.
    """
    check_choice("split", split, values.SPLITS)
    sizes = _checked_sizes({} if count is None else {split: count})
    taken = _Taken()
    # Held-out sentences depend on the splits drawn before them.
    for name in values.SPLITS[: values.SPLITS.index(split) + 1]:
        examples = _take(name, sizes[name], seed, taken)
    return (example.pair for example in examples)


def render(pattern: templates.Pattern, fillers: Mapping[str, Any]) -> Example:
    """Make an example of a pattern and the fillers of its slots."""
    named = {**lexicon.CONSTANTS, **fillers}
    return Example(
        english=grammar.render(pattern.english, named, grammar.ENGLISH),
        german=grammar.render(pattern.german, named, grammar.GERMAN),
        pattern=pattern.name,
        fillers=dict(fillers),
    )


def split_of(pattern: templates.Pattern, fillers: Mapping[str, Any]) -> str | None:
    """Return the split of a sentence; None if its values are of different splits."""
    if pattern.value_slots:
        splits = {fillers[slot].split for slot in pattern.value_slots}
        return splits.pop() if len(splits) == 1 else None
    keys = (f"{slot}={fillers[slot].key}" for slot in pattern.slots)
    return values.split_of_key("; ".join([pattern.name, *keys]))


@dataclasses.dataclass
class _Taken:
    """What the splits drawn so far hold."""

    # A held-out sentence may not be in another split, in either language.
    english: set[str] = dataclasses.field(default_factory=set)
    german: set[str] = dataclasses.field(default_factory=set)
    # (language, word) of the training split.
    vocabulary: set[tuple[str, str]] = dataclasses.field(default_factory=set)

    def refuses(self, example: Example) -> bool:
        return example.english in self.english or example.german in self.german


def _take(split: str, size: int, seed: int, taken: _Taken) -> list[Example]:
    """Draw the examples of a split and note them in `taken`."""
    examples: list[Example] = []
    vocabulary: set[tuple[str, str]] = set()
    refused = 0
    for example in _draw_examples(split, seed):
        if len(examples) == size or refused == _MAX_REFUSED:
            break
        words = _vocabulary_of(example)
        is_known = split == values.TRAIN or words <= taken.vocabulary
        if taken.refuses(example) or not is_known:
            refused += 1
            continue
        refused = 0
        vocabulary |= words
        examples.append(example)
    _check_is_full(split, len(examples), size)
    taken.english.update(example.english for example in examples)
    taken.german.update(example.german for example in examples)
    if split == values.TRAIN:
        taken.vocabulary = vocabulary
    return examples


def _draw_examples(split: str, seed: int) -> Iterator[Example]:
    """Yield random examples of a split, each once, until the patterns are used up."""
    # A string seeds through SHA-512; random() is the same in every Python version.
    rng = random.Random(f"phrasebook {split} {seed}")

    def choose(sequence: Sequence) -> Any:
        return sequence[int(rng.random() * len(sequence))]

    failures = dict.fromkeys(templates.ALL, 0)
    seen: set[str] = set()
    while failures:
        for pattern in list(failures):
            fillers = _draw_fillers(pattern, split, choose)
            example = render(pattern, fillers) if fillers else None
            if example is None or example.english in seen:
                failures[pattern] += 1
                if failures[pattern] == _MAX_FAILURES:
                    del failures[pattern]
                continue
            failures[pattern] = 0
            seen.add(example.english)
            yield example


def _draw_fillers(
    pattern: templates.Pattern, split: str, choose: Callable[[Sequence], Any]
) -> dict[str, Any] | None:
    """Fill the slots of a pattern; None if no fitting combination came up soon."""
    for _ in range(_MAX_FAILURES):
        fillers = {}
        for slot in pattern.slots:
            category = templates.category(slot)
            if slot in pattern.value_slots:
                fillers[slot] = _draw_value(category, split, choose)
            else:
                fillers[slot] = choose(lexicon.SLOTS[category])
        if None in fillers.values():
            return None
        keys = [filler.key for filler in fillers.values()]
        if len(set(keys)) == len(keys) and split_of(pattern, fillers) == split:
            return _in_order(fillers)
    return None


def _draw_value(
    category: str, split: str, choose: Callable[[Sequence], Any]
) -> values.Value | None:
    for _ in range(_MAX_FAILURES):
        value = values.draw(category, choose)
        if value.split == split:
            return value
    return None


def _in_order(fillers: dict[str, Any]) -> dict[str, Any]:
    """Put values of one kind in order: from the earlier to the later date."""
    for slot in fillers:
        other = f"{slot}2"
        if (
            isinstance(fillers[slot], values.Value)
            and other in fillers
            and fillers[other] < fillers[slot]
        ):
            fillers[slot], fillers[other] = fillers[other], fillers[slot]
    return fillers


def _vocabulary_of(example: Example) -> set[tuple[str, str]]:
    return {
        (language, word)
        for language, sentence in zip(grammar.LANGUAGES, example.pair, strict=True)
        for word in words_of(sentence, language)
    }


def _checked_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    for split, size in sizes.items():
        check_choice("split", split, values.SPLITS)
        check_at_least(f"pairs of {split}", size, 0)
    return {**DEFAULT_SIZES, **sizes}


def _check_is_full(split: str, size: int, wanted: int) -> None:
    if size >= wanted:
        return
    limit = "the grammar has no more sentences"
    if split != values.TRAIN:
        limit += " of words that the training split has; more pairs of train help"
    raise ValueError(
        f"The pairs of {split} must be at most {size}: {limit}. Received: {wanted}."
    )
