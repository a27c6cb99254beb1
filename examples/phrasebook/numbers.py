"""Numbers from 0 to 1,000,000 as English and German words."""

from __future__ import annotations

import re

MAXIMUM = 1_000_000


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


ENGLISH_BELOW_TWENTY = _listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen"
)
GERMAN_BELOW_TWENTY = _listed(
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn "
    "vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn"
)
# Counted from 20: the first is at index 2.
ENGLISH_TENS = _listed("- - twenty thirty forty fifty sixty seventy eighty ninety")
GERMAN_TENS = _listed(
    "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
)

ENGLISH_IRREGULAR_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
    "twenty": "twentieth",
    "thirty": "thirtieth",
}
GERMAN_IRREGULAR_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}

# The parts of a German compound number. Longest first: "achtzehn" is one part, not two.
GERMAN_PARTS = sorted(
    {*GERMAN_BELOW_TWENTY, *GERMAN_TENS[2:], "ein", "und", "hundert", "tausend"},
    key=lambda part: (-len(part), part),
)
_GERMAN_PART = re.compile("|".join(GERMAN_PARTS))
_GERMAN_NUMBER = re.compile(f"(?:{_GERMAN_PART.pattern})+")


def english_cardinal(number: int) -> str:
    """Spell a number in British English: 121 is "one hundred and twenty-one".

    Raises:
        ValueError: If `number` is outside 0 to 1,000,000.
    """
    _check_number(number)
    if number == MAXIMUM:
        return "one million"
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return _english_below_thousand(rest)
    words = f"{_english_below_thousand(thousands)} thousand"
    if not rest:
        return words
    joint = " and " if rest < 100 else " "
    return words + joint + _english_below_thousand(rest)


def german_cardinal(number: int) -> str:
    """Spell a number in German as it is counted: 121 is "einhunderteinundzwanzig".

    Raises:
        ValueError: If `number` is outside 0 to 1,000,000.
    """
    _check_number(number)
    if number == MAXIMUM:
        return "eine Million"
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return _german_below_thousand(rest)
    words = _before_a_noun(_german_below_thousand(thousands)) + "tausend"
    return words + (_german_below_thousand(rest) if rest else "")


def german_before_noun(number: int) -> str:
    """Spell a number in German as it stands before a masculine or neuter noun.

    Only the last syllable of numbers that end in one differs: "ein Uhr".
    """
    return _before_a_noun(german_cardinal(number))


def english_ordinal(number: int) -> str:
    """Spell the day of a month in English: 21 is "twenty-first".

    Raises:
        ValueError: If `number` is outside 1 to 31.
    """
    _check_day(number)
    *tens, last = english_cardinal(number).split("-")
    return "-".join([*tens, ENGLISH_IRREGULAR_ORDINALS.get(last, last + "th")])


def german_ordinal(number: int, ending: str = "e") -> str:
    """Spell the day of a month in German: 21 is "einundzwanzigste".

    Args:
        number: 1 to 31.
        ending: The adjective ending: "e" after "der" (nominative), "en" after "am".

    Raises:
        ValueError: If `number` is outside 1 to 31.
    """
    _check_day(number)
    if number in GERMAN_IRREGULAR_ORDINALS:
        return GERMAN_IRREGULAR_ORDINALS[number] + ending
    return german_cardinal(number) + ("t" if number < 20 else "st") + ending


def german_parts(word: str) -> list[str]:
    """Split a German compound number into its parts.

    "einundzwanzig" gives ["ein", "und", "zwanzig"]. Any other word, and a number of
    one part, comes back whole.
    """
    if _GERMAN_NUMBER.fullmatch(word.lower()):
        return _GERMAN_PART.findall(word.lower())
    return [word]


def _english_below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _english_below_hundred(rest)
    words = f"{ENGLISH_BELOW_TWENTY[hundreds]} hundred"
    return words + (f" and {_english_below_hundred(rest)}" if rest else "")


def _english_below_hundred(number: int) -> str:
    if number < 20:
        return ENGLISH_BELOW_TWENTY[number]
    tens, ones = divmod(number, 10)
    return ENGLISH_TENS[tens] + (f"-{ENGLISH_BELOW_TWENTY[ones]}" if ones else "")


def _german_below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _german_below_hundred(rest)
    words = _before_a_noun(GERMAN_BELOW_TWENTY[hundreds]) + "hundert"
    return words + (_german_below_hundred(rest) if rest else "")


def _german_below_hundred(number: int) -> str:
    if number < 20:
        return GERMAN_BELOW_TWENTY[number]
    tens, ones = divmod(number, 10)
    if not ones:
        return GERMAN_TENS[tens]
    return _before_a_noun(GERMAN_BELOW_TWENTY[ones]) + "und" + GERMAN_TENS[tens]


def _before_a_noun(words: str) -> str:
    return words.removesuffix("s") if words.endswith("eins") else words


def _check_number(number: int) -> None:
    if not 0 <= number <= MAXIMUM:
        raise ValueError(
            f"`number` must be between 0 and {MAXIMUM}. Received: number={number}."
        )


def _check_day(number: int) -> None:
    if not 1 <= number <= 31:
        raise ValueError(
            f"`number` must be between 1 and 31. Received: number={number}."
        )
