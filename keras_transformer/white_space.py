"""White space, and texts without anything to translate.

The definitions for programs, documents and the preparation of data, and for graphs:
both kinds of regular expression read the same classes. Imports no TensorFlow.
"""

from __future__ import annotations

import unicodedata

import regex

# Unicode's White_Space and control characters; zero-width space, word joiner and byte
# order mark; marks of direction, also those around a part of a text; the Mongolian
# vowel separator; letters and a symbol that look like spaces. No joiner and no tag of a
# flag: they belong to a word. As they are, these characters are a class between
# brackets of a regular expression.
SPACES = "".join(
    chr(code)
    for first, last in (
        (0x00, 0x20),
        (0x7F, 0xA0),
        (0x61C, 0x61C),
        (0x1680, 0x1680),
        (0x180E, 0x180E),
        (0x2000, 0x200B),
        (0x200E, 0x200F),
        (0x2028, 0x202F),
        (0x205F, 0x2060),
        (0x2066, 0x2069),
        (0x2800, 0x2800),
        (0x3000, 0x3000),
        (0x3164, 0x3164),
        (0xFEFF, 0xFEFF),
        (0xFFA0, 0xFFA0),
    )
    for code in range(first, last + 1)
)
# Characters that show nothing and are no part of the spelling of a word: soft hyphen,
# zero-width space, word joiner, byte order mark, single marks of direction. Those that
# come in pairs stay: one of a pair may be in another sentence.
INVISIBLE = "\u00ad\u061c\u200b\u200e\u200f\u2060\ufeff"
_JOINERS = "\u200c\u200d"
# Scripts that write zero-width spaces between words.
_DIVIDED = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
# What `without_invisible` replaces by its group, in the form of RE2 and `regex`. In
# other scripts and emoji, joiners are spelling. What has spaces around it is a word of
# its own and stays, so that words keep their numbers.
HIDDEN = (
    r"([\p{Latin}\p{Greek}\p{Cyrillic}]\p{M}*)"
    f"[{INVISIBLE}{_JOINERS}]*[{_JOINERS}][{INVISIBLE}{_JOINERS}]*",
    f"([^ {_DIVIDED}])[{INVISIBLE}]+",
    f"[{INVISIBLE}]+([^ {_DIVIDED}])",
)
_INVISIBLE = regex.compile(f"[{INVISIBLE}{_JOINERS}]")
# What a text without anything to translate consists of, for TensorFlow's regular
# expressions; `is_blank` is the same.
BLANK_CLASS = SPACES + r"\pM\pZ\p{Cc}\p{Cf}\p{Co}"
# What graphs remove: all of a blank text, and white space at both ends of others.
OUTER_SPACES = f"^[{BLANK_CLASS}]+$|^[{SPACES}]+|[{SPACES}]+$"


def strip(text: str) -> str:
    """Return a text without white space at its ends."""
    return text.strip(SPACES)


def without_invisible(text: str) -> str:
    """Return a text whose words have no invisible characters in or beside them.

    Soft hyphens, zero-width spaces and the like, but not between letters of Thai, Lao,
    Khmer, Burmese and Tibetan, which divide words by them. A zero-width joiner or
    non-joiner goes only after a Latin, Greek or Cyrillic letter.
    """
    if _INVISIBLE.search(text):
        for pattern in HIDDEN:
            text = regex.sub(pattern, r"\1", text)
    return text


def is_blank(text: str) -> bool:
    """Return whether a text has nothing to translate.

    It then has no letter, number, punctuation mark or symbol, but only white space,
    combining marks, and characters for control, format and private use. A character
    that this version of Unicode lacks counts as text: a later one may have it as a
    letter or a symbol.
    """
    return all(map(_is_invisible, strip(text)))


def _is_invisible(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "MZ" or category in ("Cc", "Cf", "Co") or character in SPACES
