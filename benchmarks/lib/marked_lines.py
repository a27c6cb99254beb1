"""Lines with addresses, numbers, tags and terms put in, and what came back of them."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

KINDS = ("url", "number", "tag", "term")
_MOST_SPANS = 4
_TAGS = ("b", "i", "em", "code")
_TAG = re.compile(r"<(/?)(\w+)>")


class MarkedLine(NamedTuple):
    """A line with spans, and what its translation must have."""

    text: str
    # Kind and text of each: one for a pair of tags too, as "b".
    spans: tuple[tuple[str, str], ...]


def mark(line: str, terms: Mapping[str, str], draw: random.Random) -> MarkedLine:
    """Put 1 to 4 spans of random kinds between the words of a line.

    Args:
        line: The line. Tags are put around one of its words.
        terms: Terms to put in and their translations.
        draw: Draws kinds, spans and places.
    """
    words, spans = line.split(), []
    free = [term for term in terms if term not in line.lower()]
    for number in range(draw.randint(1, _MOST_SPANS)):
        kind = draw.choice(KINDS)
        place = draw.randrange(len(words))
        if kind == "tag":
            tag = _TAGS[number]
            words[place] = f"<{tag}>{words[place]}</{tag}>"
            spans.append((kind, tag))
            continue
        if kind == "term":
            word = free.pop(draw.randrange(len(free)))
            wanted = terms[word]
        else:
            count = draw.randrange(10_000, 100_000)
            word = (
                str(count) if kind == "number" else f"https://a{count}.org/x?y={number}"
            )
            wanted = word
        words.insert(place, word)
        spans.append((kind, wanted))
    return MarkedLine(" ".join(words), tuple(spans))


def kept(line: MarkedLine, translation: str) -> list[bool]:
    """Return for each span whether the translation has it as it must.

    A term must occur; an address, a number and both tags of a pair once, the tags
    opened before they are closed.
    """
    tags = [name for _, name in _TAG.findall(translation)]
    found = []
    for kind, wanted in line.spans:
        if kind == "term":
            found.append(wanted in translation)
        elif kind == "tag":
            opening, closing = (f"<{end}{wanted}>" for end in ("", "/"))
            at = translation.find(opening), translation.find(closing)
            found.append(tags.count(wanted) == 2 and 0 <= at[0] < at[1])
        else:
            found.append(translation.count(wanted) == 1)
    return found


def is_nested(translation: str) -> bool:
    """Return whether each tag is closed, and in the right order."""
    opened: list[str] = []
    for end, name in _TAG.findall(translation):
        if not end:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened


def counts(lines: Sequence[MarkedLine], translations: Sequence[str]) -> dict[str, int]:
    """Return how many spans of each kind came back, and how many lines nest tags."""
    totals = {f"kept_{kind}s": 0 for kind in KINDS}
    for line, translation in zip(lines, translations, strict=True):
        for (kind, _), is_kept in zip(line.spans, kept(line, translation), strict=True):
            totals[f"kept_{kind}s"] += is_kept
    return {**totals, "nested_lines": sum(map(is_nested, translations))}
