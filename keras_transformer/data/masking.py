"""Placeholders in the texts of training pairs."""

from __future__ import annotations

import collections
import re
from typing import Protocol

import numpy as np

from keras_transformer.config import PLACEHOLDER, PairEncoding

# A word or an address without the punctuation around it; not the name of a tag.
_SPAN = re.compile(r"(?<![\w<])(?<!</)[^\W_](?:[^\s()<>\[\]{}]*[^\W_])?/?")


class Glossary(Protocol):
    """Finds the terms of a glossary, as `documents.protection.Glossary` does."""

    # Regular expressions of the terms, and of their translations.
    pattern: str
    translation_pattern: str

    def translation(self, found: str) -> str | None:
        """Return what the translation has for a match; None: it is no term."""


class PairMasking:
    """Replaces spans that both texts of a pair have by placeholders.

    A span is a number, a name or an address that each of the texts has once: a word
    that is not in small letters only. Or it is a term of the glossary that the source
    has once and whose translation the target has once.

    Args:
        encoding: Number of placeholders, and how often a span gets one.
        glossary: The terms; None: there are none.
    """

    def __init__(self, encoding: PairEncoding, glossary: Glossary | None = None):
        self._rate = encoding.placeholder_rate
        self._symbols = [
            PLACEHOLDER.format(1 + n) for n in range(encoding.placeholders)
        ]
        self._tags = encoding.tags
        self._glossary = glossary
        terms = ("(?!)",) * 2  # matches nothing
        if glossary is not None:
            terms = glossary.pattern, glossary.translation_pattern
        patterns = [re.compile(f"(?P<term>{each})|{_SPAN.pattern}") for each in terms]
        # For each side, how to find what may be a span, and what it is in the target.
        self._sides = tuple(zip(patterns, (self._in_source, _in_target), strict=True))

    def mask(
        self, source: str, target: str, random: np.random.Generator
    ) -> tuple[str, str]:
        """Put placeholders in the place of spans, and tags around spans.

        Args:
            source: The source.
            target: The target.
            random: Draws the spans, their placeholders and their tags.

        Returns:
            Both texts.
        """
        sides = list(zip(self._sides, (source, target), strict=True))
        found, in_target = (
            collections.Counter(map(span_of, pattern.finditer(text)))
            for (pattern, span_of), text in sides
        )
        spans = [span for span in found if span and found[span] == in_target[span] == 1]

        def drawn(symbols):
            """Give some of the spans one of the symbols each."""
            some = [span for span in spans if random.random() < self._rate]
            return dict(zip(some, random.permutation(symbols).tolist(), strict=False))

        placeholders, tags = drawn(self._symbols), drawn(self._tags)

        def put(text, span):
            opening, closing = tags.get(span, ("", ""))
            return f"{opening}{placeholders.get(span, text)}{closing}"

        return tuple(
            pattern.sub(lambda match, of=span_of: put(match[0], of(match)), text)
            for (pattern, span_of), text in sides
        )

    def _in_source(self, match: re.Match) -> str:
        """Return what the target has for a match in the source; "": it is no span."""
        if match["term"] is not None:
            return self._glossary.translation(match[0]) or ""
        return match[0] if _may_stay(match[0]) else ""


def _in_target(match: re.Match) -> str:
    """Return a match in the target; "": it is no span."""
    is_span = match["term"] is not None or _may_stay(match[0])
    return match[0] if is_span else ""


def _may_stay(span: str) -> bool:
    """Return whether a span is more than a word of the language in small letters."""
    return span != span.lower() or not span.isalpha()
