"""Values inside sentences: numbers, clock times, timetable times, dates, prices.

Every value belongs to exactly one split, whatever sentence it stands in and however it
is written: "17 March" and "the seventeenth of March" are one value. A value of the
validation or the test split is therefore never seen in training, while its parts
(hours, days, months, number words, digits) are.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from examples.phrasebook import numbers

TRAIN, VALIDATION, TEST = SPLITS = ("train", "validation", "test")

# Shares of the values, and of the combinations of words, that are held out, in percent.
HELD_OUT_PERCENT = {VALIDATION: 8, TEST: 8}

# (English, German, days); the 29th of February is left out.
MONTHS = (
    ("January", "Januar", 31),
    ("February", "Februar", 28),
    ("March", "März", 31),
    ("April", "April", 30),
    ("May", "Mai", 31),
    ("June", "Juni", 30),
    ("July", "Juli", 31),
    ("August", "August", 31),
    ("September", "September", 30),
    ("October", "Oktober", 31),
    ("November", "November", 30),
    ("December", "Dezember", 31),
)

# Spoken minutes past the hour: (English, German, does the German name the next hour?).
# English names the next hour from minute 35 on, German from minute 25 on.
SPOKEN_MINUTES = {
    5: ("five past", "fünf nach", False),
    10: ("ten past", "zehn nach", False),
    15: ("quarter past", "Viertel nach", False),
    20: ("twenty past", "zwanzig nach", False),
    25: ("twenty-five past", "fünf vor halb", True),
    30: ("half past", "halb", True),
    35: ("twenty-five to", "fünf nach halb", True),
    40: ("twenty to", "zwanzig vor", True),
    45: ("quarter to", "Viertel vor", True),
    50: ("ten to", "zehn vor", True),
    55: ("five to", "fünf vor", True),
}


@functools.cache
def split_of_key(key: str) -> str:
    """Assign a text to a split: always the same, on every machine, for every seed."""
    digest = hashlib.sha256(key.encode("utf-8")).digest()
    percent = int.from_bytes(digest[:8], "big") % 100
    for split, share in HELD_OUT_PERCENT.items():
        if percent < share:
            return split
        percent -= share
    return TRAIN


@dataclasses.dataclass(frozen=True)
class Number:
    """An integer from 0 to 1,000,000, in digits or in words.

    Whole prices, years, page, line and platform numbers are numbers too, so a
    number held out in one of these roles is held out in all.
    """

    value: int

    @property
    def key(self) -> str:
        return f"number {self.value}"

    @property
    def split(self) -> str:
        return TRAIN if self._is_basic() else split_of_key(self.key)

    def _is_basic(self) -> bool:
        """Tell whether other numbers are made of this one."""
        value = self.value
        return (
            value <= 20
            or (value < 100 and value % 10 == 0)
            or (value < 1000 and value % 100 == 0)
            or value in (1000, 10_000, 100_000, 1_000_000)
        )

    def english(self, form: str) -> str:
        """Write as `digits`, as `grouped` digits (21,400) or as `words`."""
        if form == "words":
            return numbers.english_cardinal(self.value)
        return f"{self.value:,}" if form == "grouped" else str(self.value)

    def german(self, form: str) -> str:
        """Write as `digits`, as `grouped` digits (21.400) or as `words`."""
        if form == "words":
            return numbers.german_cardinal(self.value)
        return self.english(form).replace(",", ".")


@dataclasses.dataclass(frozen=True, order=True)
class Clock:
    """A spoken time of the twelve-hour clock, in steps of five minutes."""

    hour: int
    minute: int

    @property
    def key(self) -> str:
        return f"clock {self.hour}:{self.minute:02}"

    @property
    def split(self) -> str:
        return split_of_key(self.key)

    def english(self, form: str) -> str:
        """Write as `words` (half past three) or as `digits` (3:30)."""
        if form == "digits":
            return f"{self.hour}:{self.minute:02}"
        if not self.minute:
            return f"{numbers.english_cardinal(self.hour)} o'clock"
        words, _, _ = SPOKEN_MINUTES[self.minute]
        hour = self.hour if self.minute <= 30 else self._next_hour()
        return f"{words} {numbers.english_cardinal(hour)}"

    def german(self, form: str) -> str:
        """Write as `words` (halb vier)."""
        if not self.minute:
            return f"{numbers.german_before_noun(self.hour)} Uhr"
        _, words, names_next = SPOKEN_MINUTES[self.minute]
        hour = self._next_hour() if names_next else self.hour
        return f"{words} {numbers.german_cardinal(hour)}"

    def _next_hour(self) -> int:
        return self.hour % 12 + 1


@dataclasses.dataclass(frozen=True, order=True)
class Time:
    """A timetable time from 13:00 to 23:59, in digits in both languages."""

    hour: int
    minute: int

    @property
    def key(self) -> str:
        return f"time {self.hour}:{self.minute:02}"

    @property
    def split(self) -> str:
        return split_of_key(self.key)

    def english(self, form: str) -> str:
        """Write as `digits` (15:42)."""
        return f"{self.hour}:{self.minute:02}"

    def german(self, form: str) -> str:
        """Write as `digits` (15:42 Uhr)."""
        return f"{self.hour}:{self.minute:02} Uhr"


@dataclasses.dataclass(frozen=True, order=True)
class Date:
    """A day of the year."""

    month: int
    day: int

    @property
    def key(self) -> str:
        return f"date {self.month}-{self.day}"

    @property
    def split(self) -> str:
        return split_of_key(self.key)

    def english(self, form: str) -> str:
        """Write as `digits` (17 March) or as `words` (the seventeenth of March)."""
        month = MONTHS[self.month - 1][0]
        if form == "digits":
            return f"{self.day} {month}"
        return f"the {numbers.english_ordinal(self.day)} of {month}"

    def german(self, form: str) -> str:
        """Write as `digits` (17. März), or in words with the case (siebzehnte März)."""
        month = MONTHS[self.month - 1][1]
        if form == "digits":
            return f"{self.day}. {month}"
        ending = {"words.nom": "e", "words.dat": "en"}[form]
        return f"{numbers.german_ordinal(self.day, ending)} {month}"


@dataclasses.dataclass(frozen=True, order=True)
class Price:
    """A price of at least two euros, with cents; whole euros are a `Number`."""

    euros: int
    cents: int

    @property
    def key(self) -> str:
        return f"price {self.euros}.{self.cents:02}"

    @property
    def split(self) -> str:
        return split_of_key(self.key)

    def english(self, form: str) -> str:
        """Write as `digits` (€12.50) or as `words` (twelve euros fifty)."""
        if form == "digits":
            return f"€{self.euros}.{self.cents:02}"
        euros, cents = map(numbers.english_cardinal, (self.euros, self.cents))
        return f"{euros} euros {cents}"

    def german(self, form: str) -> str:
        """Write as `digits` (12,50 Euro) or as `words` (zwölf Euro fünfzig)."""
        if form == "digits":
            return f"{self.euros},{self.cents:02} Euro"
        euros, cents = map(numbers.german_cardinal, (self.euros, self.cents))
        return f"{euros} Euro {cents}"


Value = Number | Clock | Time | Date | Price


# The numbers of a slot, as ranges that are drawn from equally often: among the numbers
# above 999, round ones are met more often than their share.
NUMBER_SLOTS = {
    "count": (range(2, 100),),
    "euros": (range(2, 100),),
    "sum": (range(105, 1000, 5),),
    "degrees": (range(2, 40),),
    "line": (range(2, 100),),
    "platform": (range(2, 40),),
    "page": (range(11, 300),),
    "distance": (range(110, 1000, 10),),
    "hundreds": (range(101, 1000),),
    "year": (range(1800, 2020),),
    "birth_year": (range(1920, 2020),),
    "crowd": (range(1000, 100_000, 1000), range(10_000, 1_000_001, 10_000)),
    "big": (
        range(1000, 10_001, 100),
        range(1000, 100_000, 1000),
        range(10_000, 1_000_001, 100),
        range(1000, 1_000_001),
    ),
}

OTHER_SLOTS = {
    "clock": [
        Clock(hour, minute) for hour in range(1, 13) for minute in range(0, 60, 5)
    ],
    "time": [Time(hour, minute) for hour in range(13, 24) for minute in range(60)],
    "date": [
        Date(month, day)
        for month, (_, _, days) in enumerate(MONTHS, start=1)
        for day in range(1, days + 1)
    ],
    "price": [
        Price(euros, cents) for euros in range(2, 100) for cents in range(10, 100, 5)
    ],
}

VALUE_SLOTS = frozenset(NUMBER_SLOTS) | frozenset(OTHER_SLOTS)


def draw(slot: str, choose: Callable[[Sequence], Any]) -> Value:
    """Draw a value for a slot of `VALUE_SLOTS`; `choose` takes one of a sequence."""
    if slot in OTHER_SLOTS:
        return choose(OTHER_SLOTS[slot])
    return Number(choose(choose(NUMBER_SLOTS[slot])))
