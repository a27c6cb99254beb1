"""Spans of a text, each with one owner: an address, a tag, a number, a term or a name.

A text is read once into spans that do not overlap. `documents.protection` takes those
that a translation must have, and `data.masking` those that become placeholders in
training, so that a model learns what it meets in use. The library `regex` knows the
scripts and classes of Unicode. Imports no TensorFlow.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
TAG_NAME = re.compile(r"</?([^<>\s/]+)")
# Elements within a sentence. The tags of all others end it.
INLINE = frozenset(
    ("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn")
    + ("em", "font", "i", "img", "ins", "label", "mark", "nobr", "q", "rb", "ruby", "s")
    + ("small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr")
)
# Two of these side by side have different words: links, or an old word and a new one.
_APART = frozenset(("a", "del", "ins", "label"))
# These are no parts of the words beside them.
_DIVIDING = frozenset(("img", "sub", "sup"))
# A part of a word before a tag ends with one of these if it is a word of its own:
# apostrophes, and what makes an emoji of the character before.
_ENDS = "'\u2019\ufe0f\u20e3"
# A tag that opens an element which a later tag ends.
_OPENING = re.compile(
    r"<(?!(?:wbr|r[tp])\b)[A-Za-z].*(?<!/)>", re.DOTALL | re.IGNORECASE
)
# A word that tags may divide, and invisible characters. Scripts without spaces do not
# show where one ends.
_WHOLE_WORD = regex.compile(
    rf"(?!\p{{M}})LETTER(?:[{white_space.INVISIBLE}]*['\u2019]?LETTER)*+".replace(
        "LETTER", rf"[[\w--[{_UNSPACED}]]\d]"
    ),
    regex.V1,
)
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

    def find(self, text: str, start: int = 0) -> Iterator[Span]:
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


def divided_words(
    text: str, tags: Mapping[int, Sequence[str]]
) -> Iterator[tuple[int, int, list[int]]]:
    """Yield the words that have tags within them: start, end, and where these are.

    Args:
        text: A text without tags.
        tags: Those before a character, by its position.
    """
    places = sorted(tags)
    for word in _WHOLE_WORD.finditer(text) if places else ():
        start, inner, is_over = word.start(), [], False
        first = bisect.bisect(places, start)
        within = places[first : bisect.bisect_left(places, word.end())]
        ends = [start, *within, word.end()]
        for number, place in enumerate(within):
            parts = text[ends[number] : place], text[place : ends[number + 2]]
            if _is_within_word(parts, tags[place], is_over):
                inner.append(place)
                is_over |= any(_ends_apart(tags[place]))
            else:
                if inner:
                    yield start, place, inner
                start, inner, is_over = place, [], False
        if inner:
            yield start, word.end(), inner


def _is_within_word(parts: tuple[str, str], tags: Sequence[str], is_over: bool) -> bool:
    """Return whether tags in a word do not divide it.

    What is above or below the line is not a part of the word, and "l'" before a tag is
    a word of its own, as is a sign such as an emoji. Two elements side by side are two
    words, unless one of them has a single letter.

    Args:
        parts: What is before the tags until others, and after them.
        tags: The tags.
        is_over: Whether an element among `_APART` has ended in the word before.
    """
    names = {TAG_NAME.match(tag)[1].lower() for tag in tags}
    if parts[0][-1] in _ENDS or names & _DIVIDING or names - INLINE:
        return False
    sizes = [sum(map(str.isalpha, part)) for part in parts]
    if 1 not in sizes and not unicodedata.combining(parts[1][0]):
        # In a page <b/> is the same as <b>.
        pairs = tag_pairs([tag.replace("/>", ">") for tag in tags])
        empty = {number for pair in pairs for number in pair}
        others = [tag for number, tag in enumerate(tags) if number not in empty]
        after = itertools.dropwhile(lambda tag: not tag.startswith("</"), others)
        if any(map(_OPENING.match, after)):
            return False
    return all(itertools.dropwhile(operator.not_, [is_over, *_ends_apart(tags)]))


def _ends_apart(tags: Sequence[str]) -> list[bool]:
    """Return whether each tag of an element among `_APART` is its end."""
    names = (TAG_NAME.match(tag)[1].lower() for tag in tags)
    return [
        tag.startswith("</")
        for tag, name in zip(tags, names, strict=True)
        if name in _APART
    ]


def around_word(tags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return which of the tags within a word go before it, and which after it.

    Those at their beginning that open an element go before. All stay in their order, so
    that their elements stay the same.
    """
    before = [*itertools.takewhile(_OPENING.match, tags)]
    return before, [*tags[len(before) :]]


def tag_pairs(tags: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of opening tags and of their closing tags, in nested pairs.

    Args:
        tags: Tags in their order; "" for what is none.
    """
    opened: list[tuple[str, int]] = []
    for number, tag in enumerate(tags):
        if not tag or tag.endswith("/>"):
            continue
        name = TAG_NAME.match(tag)[1].lower()
        if not tag.startswith("</"):
            opened.append((name, number))
        elif any(name == other for other, _ in opened):
            # Tags that were opened after it, such as <br>, have no closing tag.
            while opened[-1][0] != name:
                opened.pop()
            yield opened.pop()[1], number


def tags_around_words(text: str) -> str:
    """Return a text with its tags beside words instead of within them."""
    found = [*TAG.finditer(text)]
    paired = {
        number for pair in tag_pairs([each[0] for each in found]) for number in pair
    }
    plain, tags, done = "", {}, 0
    for number, tag in enumerate(found):
        # Others may be none: "if a<b and c>d".
        if number in paired or TAG_NAME.match(tag[0])[1].lower() == "wbr":
            plain += text[done : tag.start()]
            tags.setdefault(len(plain), []).append(tag[0])
            done = tag.end()
    plain += text[done:]
    words = [*divided_words(plain, tags)]
    for start, end, places in words:
        before, after = around_word(
            [tag for place in places for tag in tags.pop(place)]
        )
        tags[start] = tags.get(start, []) + before
        tags[end] = after + tags.get(end, [])
    if not words:
        return text
    places = [*sorted({0, *tags}), len(plain)]
    return "".join(
        "".join(tags.get(place, ())) + plain[place:end]
        for place, end in itertools.pairwise(places)
    )


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
