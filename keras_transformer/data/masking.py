"""Placeholders in the texts of training pairs."""

from __future__ import annotations

import collections
from collections.abc import Collection

import numpy as np

from keras_transformer import spans as spans_lib
from keras_transformer.config import PLACEHOLDER, PairEncoding
from keras_transformer.spans import Glossary


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
        glossary = glossary or Glossary()
        # Of each side.
        self._glossaries = glossary, glossary.of_translations()

    def mask(
        self,
        source: str,
        target: str,
        random: np.random.Generator,
        markers: Collection[str] = (),
    ) -> tuple[str, str]:
        """Put placeholders in the place of spans, and tags around spans.

        Args:
            source: The source.
            target: The target.
            random: Draws the spans, their placeholders and their tags.
            markers: The languages and tags of the vocabulary, which stay before texts.

        Returns:
            Both texts.
        """
        texts = source, target
        sides = [
            [span for span in found if span.kind != "tags"]
            for found in (
                spans_lib.find(text, spans_lib.KINDS, glossary, markers)
                for text, glossary in zip(texts, self._glossaries, strict=True)
            )
        ]
        found, in_target = (
            collections.Counter(span.wanted for span in side) for side in sides
        )
        common = [each for each in found if found[each] == in_target[each] == 1]

        def drawn(symbols):
            """Give some of the spans one of the symbols each."""
            some = [each for each in common if random.random() < self._rate]
            return dict(zip(some, random.permutation(symbols).tolist(), strict=False))

        placeholders, tags = drawn(self._symbols), drawn(self._tags)

        def replacement(span):
            opening, closing = tags.get(span.wanted, ("", ""))
            return f"{opening}{placeholders.get(span.wanted, span.original)}{closing}"

        return tuple(
            spans_lib.put(text, side, map(replacement, side))
            for text, side in zip(texts, sides, strict=True)
        )
