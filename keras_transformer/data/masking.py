"""Placeholders in the texts of training pairs."""

from __future__ import annotations

import collections
import re

import numpy as np

from keras_transformer.config import PLACEHOLDER, PairEncoding

# A word or an address without the punctuation around it; not the name of a tag.
_SPAN = re.compile(r"(?<![\w<])(?<!</)[^\W_](?:[^\s()<>\[\]{}]*[^\W_])?/?")


def mask(
    source: str, target: str, encoding: PairEncoding, random: np.random.Generator
) -> tuple[str, str]:
    """Replace spans that both texts have by placeholders, and put tags around spans.

    A span is a number, a name or an address that each of the texts has once: a word
    that is not in small letters only.

    Args:
        source: The source.
        target: The target.
        encoding: Number of placeholders, and how often a span gets one.
        random: Draws the spans, their placeholders and their tags.

    Returns:
        Both texts.
    """
    counts = [collections.Counter(_SPAN.findall(text)) for text in (source, target)]
    spans = [
        span
        for span, count in counts[0].items()
        if count == counts[1][span] == 1 and _may_stay(span)
    ]

    def drawn(symbols):
        """Give some of the spans one of the symbols each."""
        some = [span for span in spans if random.random() < encoding.placeholder_rate]
        return zip(some, random.permutation(symbols).tolist(), strict=False)

    singles = [PLACEHOLDER.format(1 + n) for n in range(encoding.placeholders)]
    masked = dict(drawn(singles))
    for span, (opening, closing) in drawn(encoding.tags):
        masked[span] = f"{opening}{masked.get(span, span)}{closing}"

    def put(match):
        return masked.get(match[0], match[0])

    return _SPAN.sub(put, source), _SPAN.sub(put, target)


def _may_stay(span: str) -> bool:
    """Return whether a span is more than a word of the language in small letters."""
    return span != span.lower() or not span.isalpha()
