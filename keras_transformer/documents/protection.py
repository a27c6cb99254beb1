"""Spans of a text that its translation must have: addresses, tags, numbers and terms.

A model whose vocabulary has placeholders reads one in the place of each span, and its
search gives each of them once. For other models the alignment of words tells where a
span went, which is a guess.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from keras_transformer import spans as spans_lib
from keras_transformer import text_files, white_space
from keras_transformer.config import (
    CLOSING_TAG,
    OPENING_TAG,
    PLACEHOLDER,
    check_choice,
)
from keras_transformer.documents import sentence_rules
from keras_transformer.spans import TAG, Glossary, Span, Term, tag_pairs
from keras_transformer.words import words_of_text

# What may be protected besides terms.
KINDS = ("tags", "urls", "numbers")
# How the case of a term is compared: the third column of a glossary.
CASES = ("any", "exact")


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
        present = collections.Counter(span.wanted for span in self._wanted(translation))
        for span in self.spans:
            within = len(re.findall(_within(span), translation))
            present[span.wanted] = max(present[span.wanted], within)
        replaced: set[int] = set()
        for span in self.spans:
            if present[span.wanted]:
                present[span.wanted] -= 1
            else:
                self._put(span, words, alignment, replaced)
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
        found = self._wanted(prefix)
        texts = (
            left.pop(0) if (left := symbols.get(span.original)) else span.original
            for span in found
        )
        hidden = spans_lib.put(prefix, found, texts)
        for span in self.spans:
            if span.symbol in symbols.get(span.wanted, ()):
                symbols[span.wanted].remove(span.symbol)
                hidden = re.sub(_within(span), span.symbol, hidden, count=1)
        return hidden

    def _wanted(self, translation: str) -> list[Span]:
        """Return the spans of a translation, also what it must have for terms."""
        terms = (Term(span.wanted, None, is_exact=True) for span in self.spans)
        return spans_lib.find(translation, KINDS, Glossary(terms))

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
        self,
        span: Span,
        words: list[str],
        alignment: Sequence[tuple[int, int]],
        replaced: set[int],
    ) -> None:
        """Replace the words of the translation that come from a span, if there are.

        Words that an earlier span replaced stay, and the span comes after them.
        """
        # A span may begin within a word, as after a bracket.
        first = len(words_of_text(self.original[: span.start + 1])) - 1
        last = len(words_of_text(self.original[: span.end])) - 1
        own = sorted({word for source, word in alignment if first <= source <= last})
        if not own:
            return
        free = [word for word in own if word not in replaced]
        if free:
            after = re.search(r"[^\w>%/]*$", words[free[-1]])[0]
            words[free[0]] = span.wanted + after
            for word in free[1:]:
                words[word] = ""
        else:
            words[own[-1]] = f"{words[own[-1]]} {span.wanted}".lstrip()
        replaced.update(own)


class Protection:
    """What to protect in every text.

    Args:
        kinds: Among `KINDS`.
        terms: The entries of a glossary; the longest that matches counts.
        placeholders: Names of the placeholders and tags of the model's vocabulary;
            empty: it has none.
        tokens: The model's language tokens and markers of corpora, of which nothing is
            protected.

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

    @property
    def is_empty(self) -> bool:
        """Whether nothing is protected."""
        return not (self.kinds or self.terms)

    @property
    def needs_alignment(self) -> bool:
        """Whether `restore` needs the alignment of words."""
        return not (self.is_empty or self.placeholders)

    @functools.cached_property
    def _marked_terms(self) -> Glossary:
        """The terms with a mark at which a sentence may end."""
        marked = sentence_rules.MARK.search
        return Glossary(term for term in self.terms if marked(term.source))

    def find(self, text: str) -> list[Span]:
        """Return the spans of a text at which a sentence might seem to end."""
        return spans_lib.find(text, self.kinds, self._marked_terms)

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

    def whole_words(self, text: str) -> str:
        """Return a text without invisible characters in words, and tags beside them."""
        text = white_space.without_invisible(text)
        return spans_lib.tags_around_words(text) if "tags" in self.kinds else text

    def protect(self, text: str) -> ProtectedText:
        """Find the spans of a text, and put placeholders in their place."""
        if self.is_empty:
            return ProtectedText(text, text, ())
        spans = spans_lib.find(text, self.kinds, self._glossary, self.tokens)
        if self.placeholders:
            symbols = self._symbols(text, spans)
            spans = [
                span._replace(symbol=symbol)
                for span, symbol in zip(spans, symbols, strict=True)
            ]
        texts = (span.symbol or span.original for span in spans)
        return ProtectedText(spans_lib.put(text, spans, texts), text, tuple(spans))

    def _symbols(self, text: str, spans: Sequence[Span]) -> list[str]:
        """Return a placeholder for each span, "" where there is none left."""
        singles = (symbol for (symbol,) in self._free(text, PLACEHOLDER))
        pairs = self._free(text, OPENING_TAG, CLOSING_TAG)
        partners = dict(
            tag_pairs([span.original if span.kind == "tags" else "" for span in spans])
        )
        symbols = {}
        for number in range(len(spans)):
            if number in symbols:
                continue
            if number in partners and (pair := next(pairs, None)):
                symbols[number], symbols[partners[number]] = pair
            else:
                symbols[number] = next(singles, "")
        return [symbols[number] for number in range(len(spans))]

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

    A line without a tab may have " = " in its place. A term without translation stays
    as it is. A third column "exact" compares upper and lower case; without it, or with
    "any", case does not count. Blank lines are skipped.

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
        separator = "\t" if "\t" in line else " = "
        columns = [column.strip() for column in line.split(separator)]
        source, target, case = (*columns, "", "")[:3]
        source, is_exact = " ".join(source.split()), case == "exact"
        if not source or case not in ("", *CASES) or len(columns) > 3:
            raise ValueError(
                f"{name} line {number} must have a source term, its translation, and "
                f"perhaps any or exact, separated by tabs. Received: {line[:100]!r}."
            )
        key = (source if is_exact else spans_lib.folded(source), is_exact)
        if key in terms:
            raise ValueError(
                f"{name} line {number} has the term {source[:100]!r} for the second "
                "time. Each term must occur once."
            )
        terms[key] = Term(source, target or None, is_exact)
    return list(terms.values())


def _within(span: Span) -> str:
    """Return a regular expression of a span that is a part of what a translation has.

    A number may be a part of a date, a range or an amount such as "20%", and a term may
    have up to two more letters, as in another case.
    """
    wanted = re.escape(span.wanted)
    if span.kind == "numbers":
        return rf"(?<!\w){wanted}(?!\d)"
    return rf"(?<!\w){wanted}\w{{0,2}}(?!\w)" if span.kind == "terms" else r"(?!)"


def _replace(symbols: dict[str, str], text: str) -> str:
    """Replace placeholders."""
    if not symbols:
        return text
    pattern = "|".join(map(re.escape, symbols))
    return re.sub(pattern, lambda match: symbols[match[0]], text)
