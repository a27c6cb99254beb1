"""Spans of a text, each with one owner: an address, a tag, a number, a term or a name.

A text is read once into spans that do not overlap. `documents.protection` takes those
that a translation must have, and `data.masking` those that become placeholders in
training, so that a model learns what it meets in use. The library `regex` knows the
scripts and classes of Unicode. Imports no TensorFlow.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import regex

from keras_transformer import white_space

# Inside of sets. These scripts are written without spaces: each of their characters may
# begin a word.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_KATAKANA = r"\p{Katakana}\u30fc\uff70"
# A character of a word in all other scripts, but for Hangul: also combining marks,
# joiners, "_" and digits.
_LETTER = rf"[[\w--[{_UNSPACED}{_KATAKANA}\p{{Hangul}}]]\d]"
# A letter of another script than Latin right after a letter or digit of ASCII begins
# the next word.
_SAME_WORD = r"(?:(?<![A-Za-z0-9])|(?![\p{L}--\p{Latin}]))"
# What follows "www." or the like: brackets in pairs, no punctuation at the end, and of
# punctuation only that of ASCII.
_ADDRESS = (
    r"(?:[.,;:!?'\]]*+(?:\([^\s<>\"()]*+\)"
    rf"|{_SAME_WORD}[\w#$%&*+\-/=@\[\\\^`|~{{}}]))++"
)
_LOCAL_PART = rf"[{_LETTER}.+\-]"
_MAIL = (
    rf"(?<!{_LOCAL_PART}){_LOCAL_PART}++@"
    r"(?>[\p{Latin}\d\-]++(?:\.[\p{Latin}\d\-]++)++"
    rf"|[{_LETTER}\-]++(?:\.[{_LETTER}\-]++)++)"
)
# Units that are written right after a number. Other letters, as in "2nd", are
# translated, so that the number is none.
_UNIT = (
    r"(?>(?:[kcmdn\u00b5\u03bc]?m[\u00b2\u00b3]?|[km\u00b5\u03bc]?g|[mcd]?[lL]"
    r"|[mn\u00b5\u03bc]s|[kMGT]?(?:Hz|Wh?|B|bit|bps|V|J|cal|eV)|[kKM]|dB|px|pt|dpi|fps"
    r"|rpm|mph|ft|in|lbs?|oz|mi|yd|ha|h|hrs?|min|sec|[AaPp][Mm]|Z"
    r"|[\u043a\u0441\u043c\u0434]?\u043c|[\u043a\u043c]?\u0433|\u043c?\u043b|\u0447"
    r"|\u043c\u0438\u043d)(?:/[hs])?(?!LETTER))?+"
).replace("LETTER", _LETTER)
# Between digits: points, commas, colons, slashes and dashes of all kinds, as in
# "17h30", "T10:00" and "1920x1080".
_MARK = (
    r"(?:[.,:/\u2044\u00b7\u060d\u066b\u066c\uff0e\uff0f\-\u2010\u2011\u2013\u2212~\uff5e"
    r"\u00d7hHTx]|(?<=:\d\d)\+(?=\d\d:))"
)
_FRACTION = r"[\u00bc-\u00be\u2150-\u215e]"
_SPACE = r"[ \u00a0\u2009\u202f]"
# Thousands may be divided by spaces and apostrophes.
_AMOUNT = (
    rf"(?:\d{{1,3}}(?:(?:{_SPACE}|['\u2019])\d{{3}}(?={_UNIT}(?!{_LETTER})))++|\d++"
    rf"|(?<!\.)(?=\.\d)|(?={_FRACTION}))(?:{_MARK}\d++)*+(?:[eE][-+\u2212]?\d++)?+"
    rf"(?:[\u207a\u207b]?[\u00b9\u00b2\u00b3\u2070-\u2079]++)?+{_FRACTION}?+"
    rf"[%\u066a\uff05\u2030]?+{_UNIT}"
)
# With a country's number; with an area's number in brackets or from 0; of 3, 3 or 4,
# and 4 digits. At least 8 digits.
_TELEPHONE = (
    rf"(?:(?=(?:[+ ()./\-\u00a0\u2011]{{0,3}}\d){{8}})(?:"
    r"\+\d{1,3}[ ./\-\u00a0\u2011]?(?:\(\d{1,5}\)[ \-\u00a0]?)?\d{1,12}"
    r"(?:[ ./\-\u00a0\u2011]\d{2,12}){0,6}"
    r"|(?:\d[ \-\u00a0]?)?\(\d{2,5}\)[ \-\u00a0]?\d{3,4}-\d{2,4}(?:-\d{2,4})?"
    rf"|\(0\d{{1,4}}\){_SPACE}?\d{{3,8}}(?:{_SPACE}\d{{2,8}}){{0,3}}"
    rf"|0\d{{1,4}}[/\-]?(?:{_SPACE}?\d{{2,8}}(?:-\d{{2,8}})?){{1,5}}"
    rf"|\d{{3}}{_SPACE}\d{{3,4}}{_SPACE}\d{{4}}"
    rf")(?!{_MARK}?\d))"
)
# At least two of year, month, day, hour, minute and second, in Han or Hangul.
_DATE_UNITS = ("年년", "月월", "日일", "時时点點시", "分분", "秒초")
_DATE_UNIT = f"[{''.join(_DATE_UNITS)}]"
_DATE = (
    rf"(?=\d{{1,4}}+ ?{_DATE_UNIT} ?\d{{1,4}}+ ?{_DATE_UNIT})"
    + "".join(rf"(?: ?\d{{1,4}}+ ?[{units}])?+" for units in _DATE_UNITS)
    + rf"(?<={_DATE_UNIT} ?\d{{1,4}} ?{_DATE_UNIT})"
)
_SIGN = r"(?:[-+\u2212\u00b1%\u066a\uff05](?=[\d.\u00bc-\u00be\u2150-\u215e]))?+"
_CAPITAL = r"[\p{Lu}\p{Lt}\p{N}]"
_JOINT = r"[\-\u2010\u2011.'\u2019&/@:+]"
TAG = re.compile(r"</?[A-Za-z][^<>\s]*(?:\s[^<>]*)?>")
# The kinds of spans; the first one that matches is the owner. None backtracks over a
# long part of a text.
_PATTERNS = {
    "tags": TAG.pattern,
    "urls": rf"(?i:https?|ftp)://{_ADDRESS}|(?<!{_LETTER})(?i:www\.){_ADDRESS}|{_MAIL}",
    # Not within a word such as "COVID-19", or the rest of one that is none.
    "numbers": rf"(?<!{_LETTER})(?<!\d{_MARK})(?<!{_LETTER}[\-\u2010\u2011])"
    rf"(?>{_TELEPHONE}(?!{_LETTER})|{_DATE}|{_SIGN}{_AMOUNT}(?!{_LETTER}))",
    # Words that are not in small letters only.
    "names": rf"(?<!{_LETTER})(?=[{_LETTER}--{_CAPITAL}]*+(?:{_CAPITAL}|(?<={_LETTER})"
    rf"{_JOINT}{_LETTER})){_LETTER}++(?:{_JOINT}{_LETTER}++)*+",
}
KINDS = tuple(_PATTERNS)
# What a text with a span of a kind has, which is found sooner.
_HINTS = {
    "tags": re.compile("<"),
    "urls": re.compile(r"(?i)://|www\.|@"),
    "numbers": re.compile(r"[\d\u00bc-\u00be\u2150-\u215e]"),
}
# The words of a text, its spaces and its signs.
_PIECE = regex.compile(
    rf"{_LETTER}++|[{_KATAKANA}][{_KATAKANA}\p{{M}}]*+|\p{{Hangul}}++|\s++"
    r"|.[\p{M}\u200c\u200d]*+",
    regex.V1,
)
# A term such as ".NET" or "C++" is within a word here.
_SIGN_AFTER_WORD = regex.compile(rf"(?<={_LETTER})[^\w\s]", regex.V1)
_WORD_AFTER_SIGN = regex.compile(rf"(?<=[^\w\s]){_LETTER}", regex.V1)
# After a vowel, "V", or a consonant, "C".
_PARTICLE = re.compile(
    "(?:V(?:가|는|를|와|랑|나)|C(?:이|은|을|과|이랑|이나)"
    "|[VC](?:의|도|만|께서|처럼|보다|마다|밖에|조차|이다|입니다"
    "|(?:에|에서|에게|께|한테|로|으로|까지|부터)[는도만의]?))"
)
_MARKER = re.compile(
    rf"[{white_space.SPACES}]*(>>[^<>\s]+<<|<[^<>\s]+>)[{white_space.SPACES}]*"
)
# In a `Glossary`, the terms that end here. No piece is empty.
_TERMS = ""


class Term(NamedTuple):
    """An entry of a glossary."""

    source: str
    # None: the term stays as the text has it.
    target: str | None
    is_exact: bool = False


class Span(NamedTuple):
    """A part of a text with one owner."""

    # Among `KINDS`, or "terms".
    kind: str
    # Where it is in the text.
    start: int
    end: int
    # What the text has there, and what the translation must have.
    original: str
    wanted: str
    # The placeholder that stands for it, "" if there is none.
    symbol: str = ""


class Glossary:
    """Finds terms in texts; the longest that matches counts, whole words only.

    Canonically equivalent texts are equal. A Korean word may have a particle after it.
    It is an index: a regular expression would stay in the cache of its module.

    Args:
        terms: The entries.
    """

    def __init__(self, terms: Iterable[Term] = ()):
        self._entries = tuple(terms)
        # By piece; a tree.
        self._root: dict = {}
        for term in self._entries:
            node = self._root
            for piece in _PIECE.findall(_normal(term.source)):
                node = node.setdefault(folded(piece) or " ", {})
            spelling = _normal(term.source) if term.is_exact else None
            node.setdefault(_TERMS, {})[spelling] = term

    def __reduce__(self):
        """Pickle the entries: the tree may be deeper than Python recurses."""
        return Glossary, (self._entries,)

    def of_translations(self) -> Glossary:
        """Return a glossary of what translations must have, whose letters count."""
        wanted = (term.target or term.source for term in self._entries)
        return Glossary(Term(text, None, is_exact=True) for text in wanted)

    def find(self, text: str, start: int) -> Iterator[Span]:
        """Yield the longest term at each word from `start` on, if there is one."""
        if not self._root:
            return
        fold = str.lower if text.isascii() else folded
        pieces = [
            (" " if match[0].isspace() else fold(match[0]), *match.span())
            for match in _PIECE.finditer(text, start)
        ]
        for number, (piece, first, _) in enumerate(pieces):
            is_first = piece in self._root or "가" <= piece[0] <= "힣"
            found = [*self._at(text, pieces, number)] if is_first else ()
            if found and not _SIGN_AFTER_WORD.match(text, first):
                end, term = found[-1]
                original = text[first:end]
                yield Span("terms", first, end, original, term.target or original)

    def _at(self, text, pieces, number) -> Iterator[tuple[int, Term]]:
        """Yield where terms end that begin with a piece, and the terms."""
        node, first = self._root, pieces[number][1]
        for place in range(number, len(pieces)):
            piece, start, end = pieces[place]
            for stem in _stems(piece):
                terms = node.get(stem, {}).get(_TERMS)
                if terms:
                    end_of_stem = start + _length(text[start:end], stem)
                    spelling = _normal(text[first:end_of_stem])
                    term = terms.get(spelling) or terms.get(None)
                    if term and not _WORD_AFTER_SIGN.match(text, end_of_stem):
                        yield end_of_stem, term
            node = node.get(piece)
            if node is None:
                return


def find(
    text: str,
    kinds: Collection[str],
    glossary: Glossary,
    markers: Collection[str] = (),
) -> list[Span]:
    """Return the spans of a text in order; none overlaps another.

    The first to begin is the owner of its characters, and among those that begin at the
    same place the longest; a term is preferred to a number of the same length.

    Args:
        text: Any text.
        kinds: Among `KINDS`.
        glossary: The terms.
        markers: The language tokens of a model and the markers of its corpora. They are
            no spans at the beginning of a text.
    """
    place = _after_markers(text, markers)
    pattern = _pattern(
        tuple(kind for kind in kinds if kind not in _HINTS or _HINTS[kind].search(text))
    )
    terms = glossary.find(text, place)
    term, match = next(terms, None), pattern.search(text, place)
    spans = []
    while term or match:
        if not match or (
            term and (term.start, -term.end) <= (match.start(), -match.end())
        ):
            spans.append(term)
        else:
            spans.append(Span(match.lastgroup, *match.span(), match[0], match[0]))
        place = spans[-1].end
        while term and term.start < place:
            term = next(terms, None)
        if match and match.start() < place:
            match = pattern.search(text, place)
    return spans


def put(text: str, spans: Sequence[Span], replacements: Iterable[str]) -> str:
    """Return a text with a replacement for each of its spans."""
    parts, place = [], 0
    for span, replacement in zip(spans, replacements, strict=True):
        parts += [text[place : span.start], replacement]
        place = span.end
    return "".join(parts) + text[place:]


def folded(text: str) -> str:
    """Return a text without what terms may differ in: case, form and spaces."""
    return _normal(unicodedata.normalize("NFD", text).casefold())


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.split()))


@functools.cache
def _pattern(kinds: tuple[str, ...]) -> regex.Pattern:
    """Return a regular expression that has a group of its name for each kind."""
    groups = (f"(?P<{kind}>{_PATTERNS[kind]})" for kind in KINDS if kind in kinds)
    return regex.compile("|".join(groups) or "(?!)", regex.V1)


def leading(text: str) -> list[str]:
    """Return what a text begins with if a model may have it as a marker."""
    found, place = [], 0
    while match := _MARKER.match(text, place):
        found.append(match[1])
        place = match.end()
    return found


def _after_markers(text: str, markers: Collection[str]) -> int:
    place = 0
    while (match := _MARKER.match(text, place)) and match[1] in markers:
        place = match.end()
    return place


def _stems(piece: str) -> Iterator[str]:
    """Yield the beginnings of a Korean word before a particle, and the whole piece."""
    if "가" <= piece[0] <= "힣":
        for length in range(max(1, len(piece) - 4), len(piece)):
            # Each consonant at the end of a syllable has 28 numbers from that without.
            is_open = (ord(piece[length - 1]) - ord("가")) % 28 == 0
            if _PARTICLE.fullmatch(("V" if is_open else "C") + piece[length:]):
                yield piece[:length]
    yield piece


def _length(text: str, stem: str) -> int:
    """Return how many characters of a piece spell a stem."""
    if folded(text) == stem:
        return len(text)
    return next(n for n in range(1, len(text)) if folded(text[:n]) == stem)
