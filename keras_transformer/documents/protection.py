"""Spans of a text that its translation must have: addresses, tags, numbers and terms.

A model whose vocabulary has placeholders reads one in the place of each span, and its
search gives each of them once. For other models the alignment of words tells where a
span went, which is a guess.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from keras_transformer import language_tokens, text_files
from keras_transformer.config import (
    CLOSING_TAG,
    OPENING_TAG,
    PLACEHOLDER,
    check_choice,
)
from keras_transformer.words import words_of_text

# After "www." or the like; with brackets in pairs, without punctuation at its end.
_ADDRESS = r"(?:\([^\s<>\"()]*\)|[^\s<>\"()])*(?:\([^\s<>\"()]*\)|[^\s<>\".,;:!?'()\]])"
# What may be protected, by the name of its kind; the first that matches counts.
_PATTERNS = {
    "tags": r"</?[A-Za-z][^<>\s]*(?:\s[^<>]*)?>",
    "urls": rf"(?i:https?|ftp)://{_ADDRESS}|(?<!\w)(?i:www\.){_ADDRESS}"
    # The lookbehind also saves time in long runs of letters.
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "terms": "",
    "numbers": r"(?<![\w.,])[-+]?\d+(?:[.,:/\u2013-]\d+)*%?(?!\w)",
}
KINDS = tuple(kind for kind, pattern in _PATTERNS.items() if pattern)
TAG = re.compile(_PATTERNS["tags"])
TAG_NAME = re.compile(r"</?([^<>\s/]+)")
# How the case of a term is compared: the third column of a glossary.
CASES = ("any", "exact")


class Term(NamedTuple):
    """An entry of a glossary."""

    source: str
    # None: the term stays as the text has it.
    target: str | None
    is_exact: bool = False


class Glossary:
    """Finds terms in texts; the longest that matches counts, whole words only.

    Args:
        terms: The entries.
    """

    def __init__(self, terms: Sequence[Term] = ()):
        self._exact = {term.source: term for term in terms if term.is_exact}
        self._any_case = {
            term.source.casefold(): term for term in terms if not term.is_exact
        }
        each = [
            _with_any_spaces(term.source)
            if term.is_exact
            else f"(?i:{_with_any_spaces(term.source)})"
            for term in sorted(terms, key=lambda term: -len(term.source))
        ]
        # A regular expression of all terms.
        self.pattern = _whole_words(each)
        # The same of the translations, whose letters count.
        translations = {term.target or term.source for term in terms}
        self.translation_pattern = _whole_words(
            map(re.escape, sorted(translations, key=len, reverse=True))
        )

    def translation(self, found: str) -> str | None:
        """Return what the translation of a text must have for a match in it.

        None: it is no term. For a regular expression "\u0130" is an "i" in any case.
        """
        term = " ".join(found.split())
        entry = self._exact.get(term) or self._any_case.get(term.casefold())
        return None if entry is None else entry.target or found


@dataclasses.dataclass(frozen=True)
class Span:
    """A protected part of a text."""

    # Where it is in the text.
    start: int
    end: int
    # What the text has there.
    original: str
    # What the translation must have.
    wanted: str
    # The placeholder that stands for it, "" if there is none left.
    symbol: str = ""


@dataclasses.dataclass(frozen=True)
class ProtectedText:
    """A text to translate, and what its translation must have."""

    # With placeholders instead of the spans that have one.
    text: str
    # The text without placeholders.
    original: str
    spans: tuple[Span, ...]

    def restore(
        self, translation: str, alignment: Sequence[tuple[int, int]] = ()
    ) -> str:
        """Return a translation with the spans instead of their placeholders.

        Args:
            translation: The translation of `text`.
            alignment: Pairs of a word of the source and a word of the translation. A
                span without placeholder replaces the words that come from it, unless
                the translation has it already.
        """
        symbols = self._in_translation(translation)
        if symbols:
            return _replace(symbols, translation)
        words = self.restore_words(translation, alignment)
        if words == words_of_text(translation):
            return translation
        return " ".join(filter(None, words))

    def restore_words(
        self, translation: str, alignment: Sequence[tuple[int, int]] = ()
    ) -> list[str]:
        """Return what `restore` puts in the place of each word of a translation.

        A span with spaces is one item, and a word that it replaces besides is "".
        """
        words = words_of_text(translation)
        symbols = self._in_translation(translation)
        if symbols:
            return [_replace(symbols, word) for word in words]
        for span in self.spans:
            if span.wanted not in translation:
                self._put(span, words, alignment)
        return words

    def source_words(self) -> list[str]:
        """Return what the original text has for each word of `text`."""
        symbols = self._symbols("original")
        return [_replace(symbols, word) for word in words_of_text(self.text)]

    def hide(self, prefix: str) -> str:
        """Return the beginning of a translation with placeholders for the spans."""
        symbols: dict[str, list[str]] = {}
        for symbol, wanted in self._symbols("wanted").items():
            symbols.setdefault(wanted, []).append(symbol)
        # Whole words; a tag may be within one.
        each = [
            rf"(?<!\w){re.escape(wanted)}(?!\w)"
            if wanted[-1] != ">"
            else re.escape(wanted)
            for wanted in sorted(symbols, key=len, reverse=True)
        ]

        def symbol(match):
            left = symbols[match[0]]
            return left.pop(0) if left else match[0]

        return re.sub("|".join(each), symbol, prefix) if each else prefix

    def _in_translation(self, translation: str) -> dict[str, str]:
        """Return what replaces the placeholders of a translation.

        Tags beyond the pairs of the vocabulary have single placeholders, which the
        search may put in any order. If fewer tags than in the source would be nested,
        all come in the order of the source.
        """
        wanted = self._symbols("wanted")
        symbols = [name for name, text in wanted.items() if TAG.fullmatch(text)]
        if all(translation.count(symbol) == 1 for symbol in symbols):
            found = sorted(symbols, key=translation.find)
            tags = [[wanted[symbol] for symbol in each] for each in (symbols, found)]
            in_source, in_translation = (len([*tag_pairs(each)]) for each in tags)
            if in_translation < in_source:
                wanted |= dict(zip(found, tags[0], strict=True))
        return wanted

    def _symbols(self, value: str) -> dict[str, str]:
        """Return a field of the spans by their placeholders, of those that have one."""
        return {span.symbol: getattr(span, value) for span in self.spans if span.symbol}

    def _put(
        self, span: Span, words: list[str], alignment: Sequence[tuple[int, int]]
    ) -> None:
        """Replace the words of the translation that come from a span, if there are."""
        # A span may begin within a word, as after a bracket.
        first = len(words_of_text(self.original[: span.start + 1])) - 1
        last = len(words_of_text(self.original[: span.end])) - 1
        own = sorted({word for source, word in alignment if first <= source <= last})
        if own:
            after = re.search(r"[^\w>%/]*$", words[own[-1]])[0]
            words[own[0]] = span.wanted + after
            for word in own[1:]:
                words[word] = ""


class Protection:
    """What to protect in every text.

    Args:
        kinds: Among `KINDS`.
        terms: The entries of a glossary; the longest that matches counts.
        placeholders: Names of the placeholders and tags of the model's vocabulary;
            empty: it has none.
        tokens: The model's language tokens, of which nothing is protected.

    Raises:
        ValueError: If a kind is unknown.
    """

    def __init__(
        self,
        kinds: Sequence[str] = (),
        terms: Sequence[Term] = (),
        placeholders: Collection[str] = (),
        tokens: Collection[str] = (),
    ):
        for kind in kinds:
            check_choice("protect", kind, KINDS)
        self.kinds = tuple(kinds)
        self.terms = tuple(terms)
        self.placeholders = frozenset(placeholders)
        self.tokens = tuple(tokens)
        self._glossary = Glossary(terms)
        patterns = {kind: _PATTERNS[kind] for kind in kinds}
        patterns["terms"] = self._glossary.pattern
        # In the order of `_PATTERNS`.
        self._pattern = re.compile(
            "|".join(
                f"(?P<{kind}>{patterns[kind]})"
                for kind in _PATTERNS
                if kind in patterns
            )
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is protected."""
        return not (self.kinds or self.terms)

    @property
    def needs_alignment(self) -> bool:
        """Whether `restore` needs the alignment of words."""
        return not (self.is_empty or self.placeholders)

    @property
    def num_tag_pairs(self) -> int:
        """How many pairs of tags of a text the model can tell apart."""
        if "tags" not in self.kinds:
            return 0
        return sum(1 for _ in self._free("", OPENING_TAG, CLOSING_TAG))

    def with_placeholders(
        self, placeholders: Collection[str], tokens: Collection[str] = ()
    ) -> Protection:
        """Return the same for a model with these placeholders and language tokens."""
        return Protection(self.kinds, self.terms, placeholders, tokens)

    def protect(self, text: str) -> ProtectedText:
        """Find the spans of a text, and put placeholders in their place."""
        if self.is_empty:
            return ProtectedText(text, text, ())
        _, rest = language_tokens.divide(text, self.tokens)
        wanted = {
            match: text_of_span
            for match in self._pattern.finditer(text, len(text) - len(rest))
            if (text_of_span := self._wanted(match)) is not None
        }
        found = list(wanted)
        symbols = self._symbols(text, found) if self.placeholders else [""] * len(found)
        spans = tuple(
            Span(*match.span(), match[0], wanted[match], symbol)
            for match, symbol in zip(found, symbols, strict=True)
        )
        parts, done = [], 0
        for span in spans:
            if span.symbol:
                parts += [text[done : span.start], span.symbol]
                done = span.end
        return ProtectedText("".join(parts) + text[done:], text, spans)

    def _wanted(self, match: re.Match) -> str | None:
        """Return what the translation must have for a match; None: it is no span."""
        is_term = match.lastgroup == "terms"
        return self._glossary.translation(match[0]) if is_term else match[0]

    def _symbols(self, text: str, found: Sequence[re.Match]) -> list[str]:
        """Return a placeholder for each span, "" where there is none left."""
        singles = (symbol for (symbol,) in self._free(text, PLACEHOLDER))
        pairs = self._free(text, OPENING_TAG, CLOSING_TAG)
        partners = dict(
            tag_pairs(
                [match[0] if match.lastgroup == "tags" else "" for match in found]
            )
        )
        symbols = {}
        for number in range(len(found)):
            if number in symbols:
                continue
            if number in partners and (pair := next(pairs, None)):
                symbols[number], symbols[partners[number]] = pair
            else:
                symbols[number] = next(singles, "")
        return [symbols[number] for number in range(len(found))]

    def _free(self, text: str, *forms: str) -> Iterator[tuple[str, ...]]:
        """Yield placeholders of these forms, by number, that are not in a text."""
        for number in range(1, len(self.placeholders) + 1):
            symbols = tuple(form.format(number) for form in forms)
            if self.placeholders.issuperset(symbols) and not any(
                symbol in text for symbol in symbols
            ):
                yield symbols


def read_glossary(path: str | os.PathLike) -> list[Term]:
    """Read a glossary: a source term, a tab, and its translation in each line.

    A term without translation stays as it is. A third column "exact" compares upper and
    lower case; without it, or with "any", case does not count. Blank lines are skipped.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is not like this, or a term occurs twice.
    """
    return terms_of_lines(text_files.read_lines(path), str(path))


def terms_of_lines(lines: Iterable[str], name: str) -> list[Term]:
    """Return the terms of the lines of a glossary, see `read_glossary`.

    Args:
        lines: The lines.
        name: Name of the glossary, for the message.

    Raises:
        ValueError: If a line is not as it must be, or a term occurs twice.
    """
    terms: dict[tuple[str, bool], Term] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        columns = [column.strip() for column in line.split("\t")]
        source, target, case = (*columns, "", "")[:3]
        source, is_exact = " ".join(source.split()), case == "exact"
        if not source or case not in ("", *CASES) or len(columns) > 3:
            raise ValueError(
                f"{name} line {number} must have a source term, its translation, and "
                f"perhaps any or exact, separated by tabs. Received: {line[:100]!r}."
            )
        key = (source if is_exact else source.casefold(), is_exact)
        if key in terms:
            raise ValueError(
                f"{name} line {number} has the term {source[:100]!r} for the second "
                "time. Each term must occur once."
            )
        terms[key] = Term(source, target or None, is_exact)
    return list(terms.values())


def _whole_words(patterns: Iterable[str]) -> str:
    """Return a regular expression of alternatives; "(?!)" matches nothing."""
    joined = "|".join(patterns)
    return rf"(?<!\w)(?:{joined})(?!\w)" if joined else "(?!)"


def _replace(symbols: dict[str, str], text: str) -> str:
    """Replace placeholders."""
    if not symbols:
        return text
    pattern = "|".join(map(re.escape, symbols))
    return re.sub(pattern, lambda match: symbols[match[0]], text)


def _with_any_spaces(term: str) -> str:
    """Return a regular expression of a term, with any spaces between its words."""
    return r"\s+".join(map(re.escape, term.split()))


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
