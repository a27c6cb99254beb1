"""Sentences of web pages, and their translations back in the source of the page.

A parser of HTML tells where the source has texts. The rest of the source stays as it
is: a tree that is written again would have other entities, quotation marks, spaces in
tags and end tags.
"""

from __future__ import annotations

import bisect
import dataclasses
import html
import re
from collections.abc import Iterator, Sequence

import justhtml

from keras_transformer.documents import text

# Elements within a sentence. The tags of all others end it.
_INLINE = frozenset(
    ("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn")
    + ("em", "font", "i", "img", "ins", "label", "mark", "nobr", "q", "s", "small")
    + ("span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr")
)
# Elements whose text is not translated.
_SKIPPED = frozenset(
    ("applet", "canvas", "code", "iframe", "kbd", "math", "noembed", "noframes")
    + ("object", "plaintext", "pre", "samp", "script", "style", "svg", "template")
    + ("textarea", "var", "xmp")
)
_NOT_COUNTED = re.compile(r"\A\ufeff|\r")
_CLOSING = re.compile(r"[\s,;:.!?)\]}\u2026\u201d\u2019\u00bb]*")
_SPACES = re.compile(r"[\t\n\f\r]")
# The next character of a text, until something that may be a tag: the parser takes
# tags without an end for text.
_CHARACTER = re.compile(r"(?s)&#?\w{1,40};?|(?!<[A-Za-z/!?]).")


@dataclasses.dataclass(frozen=True)
class WebPage:
    """A web page as sentences and the source around them."""

    # Source before the first sentence, between sentences, after the last.
    around: tuple[str, ...]
    sentences: tuple[str, ...]
    # Source of each sentence, with entities and line breaks.
    sources: tuple[str, ...]

    def texts(self) -> tuple[str, ...]:
        """Return what must be translated."""
        return self.sentences

    def join(self, translations: Sequence[str]) -> str:
        """Return the page with a translation in the place of each sentence.

        A sentence whose translation is empty or the same stays as it is in the source.

        Args:
            translations: One for each of `texts()`, in their order.

        Raises:
            ValueError: If there are fewer or more.
        """
        text.check_count(translations, self.sentences)
        page = [self.around[0]]
        for number, translation in enumerate(translations):
            source, between = self.sources[number], self.around[number + 1]
            if translation.strip() and translation != self.sentences[number]:
                source = html.escape(translation, quote=False)
            if not between and number + 1 < len(translations):
                between = text.missing_space(self.sentences[number], translation)
            page += [source, between]
        return "".join(page)


def segment(page: str, language: str, max_tokens: int | None = None) -> WebPage:
    """Find the sentences of a web page.

    Tags of blocks end a sentence. Tags within a sentence divide it into texts that are
    translated one by one. Script, style, code and preformatted text is not translated,
    nor are elements with `translate="no"` or the class `notranslate`.

    Args:
        page: Source of a page or a part of one.
        language: Same as in `text.segment`.
        max_tokens: Same as in `text.segment`.
    """
    # The parser counts "\r\n" as one character and a byte order mark as none.
    source = _NOT_COUNTED.sub(" ", page)
    found = []
    for run in _runs(source):
        for first, last in run.spans(language, max_tokens):
            sentence = " ".join("".join(run.characters[first:last]).split())
            found.append((run.starts[first], run.ends[last - 1], sentence))
    # Text in a table that is outside of its cells comes before the table in the tree.
    found.sort()
    starts, ends, sentences = zip(*found, strict=True) if found else ((), (), ())
    around = zip((0, *ends), (*starts, len(page)), strict=True)
    return WebPage(
        tuple(page[start:end] for start, end in around),
        sentences,
        tuple(page[start:end] for start, end in zip(starts, ends, strict=True)),
    )


@dataclasses.dataclass
class _Run:
    """Text between two tags of blocks."""

    # Line breaks and tabs are spaces.
    characters: list[str] = dataclasses.field(default_factory=list)
    # Where the source of each character starts and ends.
    starts: list[int] = dataclasses.field(default_factory=list)
    ends: list[int] = dataclasses.field(default_factory=list)
    # Positions of characters that have a tag before them.
    tags: list[int] = dataclasses.field(default_factory=list)

    def add(self, source: str, start: int, content: str) -> None:
        """Add a text of the page.

        Args:
            source: The page.
            start: Where the text begins.
            content: The text as parsed. If the source has something else there, such as
                an end tag that the parser ignored, the text is not translated.
        """
        done = 0
        while done < len(content) and (match := _CHARACTER.match(source, start)):
            characters = html.unescape(match[0])
            if not content.startswith(characters, done):
                break
            start, done = match.end(), done + len(characters)
            self.characters += _SPACES.sub(" ", characters)
            self.starts += [match.start()] * len(characters)
            self.ends += [match.end()] * len(characters)
        self.tags.append(len(self.characters))

    def spans(self, language: str, max_tokens: int | None) -> Iterator[tuple[int, int]]:
        """Yield first and last character of each text to translate."""
        content = "".join(self.characters)
        for start, end in text.sentence_spans(content, language):
            after = bisect.bisect_right(self.tags, start)
            inner = sorted({*self.tags[after : bisect.bisect_left(self.tags, end)]})
            # After "<b>Price</b>" the comma of ", the mayor" stays where it is.
            firsts = [_CLOSING.match(content, tag).end() for tag in inner]
            for first, last in zip([start, *firsts], [*inner, end], strict=True):
                for span in text.stripped(content, first, last):
                    yield from text.parts(content, *span, max_tokens)


def _runs(source: str) -> Iterator[_Run]:
    """Yield the texts of a page, joined where only tags of a sentence are between."""
    tree = justhtml.JustHTML(
        source, sanitize=False, track_node_locations=True, scripting_enabled=False
    )
    run = _Run()
    # Nodes that follow, whether their text is skipped, and whether they end there.
    stack = [(tree.root, False, False)]
    while stack:
        node, is_skipped, is_end = stack.pop()
        if node.name == "#text":
            if not is_skipped and node.origin_offset is not None:
                run.add(source, node.origin_offset, node.data)
            continue
        if node.name in _INLINE or node.name in _SKIPPED or node.name == "#comment":
            run.tags.append(len(run.characters))
        elif run.characters:
            yield run
            run = _Run()
        if not is_end and node.children:
            is_skipped = _is_skipped(node, is_skipped)
            stack.append((node, is_skipped, True))
            stack += [(child, is_skipped, False) for child in node.children[::-1]]
    yield run


def _is_skipped(node: justhtml.Node, is_skipped: bool) -> bool:
    """Return whether the text of an element is skipped.

    Args:
        node: The element.
        is_skipped: Whether the text of its parent is.
    """
    attributes = node.attrs or {}
    translate = (attributes.get("translate") or "").lower()
    if translate in ("yes", "no"):
        is_skipped = translate == "no"
    classes = (attributes.get("class") or "").split()
    return is_skipped or "notranslate" in classes or node.name in _SKIPPED
