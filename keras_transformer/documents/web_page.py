"""Sentences of web pages, and their translations back in the source of the page.

A parser of HTML tells where the source has texts. The rest of the source stays as it
is: a tree that is written again would have other entities, quotation marks, spaces in
tags and end tags.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import html
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import justhtml

from keras_transformer import language_tokens, spans, white_space
from keras_transformer.documents import text
from keras_transformer.documents.protection import Protection
from keras_transformer.spans import INLINE, TAG, TAG_NAME, Glossary, tag_pairs

# Elements whose text is not translated.
_SKIPPED = frozenset(
    ("applet", "canvas", "code", "iframe", "kbd", "math", "noembed", "noframes")
    + ("object", "plaintext", "pre", "rp", "rt", "rtc", "samp", "script", "style")
    + ("svg", "template", "textarea", "var", "xmp")
)
_NOT_COUNTED = re.compile(r"\A\ufeff|\r")
_CLOSING = re.compile(r"[\s,;:.!?)\]}\u2026\u201d\u2019\u00bb]*")
_SPACES = re.compile(r"[\t\n\f\r]")
_TAGS = re.compile(f"(?:{TAG.pattern})*")
_TAGS_AT_END = re.compile(rf"{_TAGS.pattern}\Z")
# Characters before and after a sentence in which its outer tags are looked for.
_LONGEST_TAGS = 2000
# Where a text to translate starts and ends in the source, the text, its tags, and the
# markup from within its words that goes before and after it.
_Translatable = tuple[int, int, str, tuple[str, ...], tuple[str, str]]
# The next character of a text, until something that may be a tag: the parser takes
# tags without an end for text.
_CHARACTER = re.compile(r"(?s)&#?\w{1,40};?|(?!<[A-Za-z/!?]).")
# Comments for browsers, such as "<![endif]>" of Word's pages, which the parser gives as
# text; and programs such as "<?php ... ?>", which may have ">" in them.
_NO_TEXT = re.compile(r"<(?!!--)[!/][^>]*>|<\?[^<]*?\?>")


# White space of HTML, and attributes that no parser can take for something else.
_SPACE = r"[ \t\n\f\r]"
_VALUE = r"""(?:"[^"<>]*+"|'[^'<>]*+'|[^ \t\n\f\r"'<>=`]++)"""
_ATTRIBUTE = rf"{_SPACE}++[^ \t\n\f\r\"'<>/=]++(?:{_SPACE}*+={_SPACE}*+{_VALUE})?+"
# A formatting tag; its attributes, unless they are odd; its text and end if no other
# tag is between. A parser repeats such elements until they end, all but "a".
_FORMATTING = re.compile(
    r"<(b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)(?=[ \t\n\f\r/>])"
    rf"(?:((?:{_ATTRIBUTE})*+){_SPACE}*+/?>([^<]*+</\1{_SPACE}*+>)?+)?+",
    re.ASCII | re.IGNORECASE,
)
# What may stand between any two characters and divides no word: comments, ruby
# annotations and places for a line break.
_NOTE = re.compile(
    r"<!--(?!-?>)(?:(?!--!?>)(?s:.))*+-->|<(r[tp])\b[^<>]*>[^<]*</\1\s*>|<wbr\b[^<>]*>",
    re.IGNORECASE,
)
_ANY_TAG = re.compile(r"</?([A-Za-z][^\s<>/]*)(?:[^<>\"']|\"[^\"]*\"|'[^']*')*+>")
# Equal tags that a parser repeats.
_MOST_EQUAL = 3


@dataclasses.dataclass(frozen=True)
class WebPage:
    """A web page as sentences and the source around them."""

    # Source before the first sentence, between sentences, after the last.
    around: tuple[str, ...]
    # With their tags, where a translation keeps these.
    sentences: tuple[str, ...]
    # The tags of each sentence.
    tags: tuple[tuple[str, ...], ...]
    # What was within words of each sentence and now goes before and after it.
    markup: tuple[tuple[str, str], ...]
    # Source of each sentence, with entities and line breaks.
    sources: tuple[str, ...]
    # The language token of each sentence, "" for none.
    tokens: tuple[str, ...]

    def texts(self) -> tuple[str, ...]:
        """Return what must be translated, with the language tokens."""
        return text.told(self.sentences, self.tokens)

    def join(self, translations: Sequence[str]) -> str:
        """Return the page with a translation in the place of each sentence.

        A sentence whose translation is empty or the same stays as it is in the source.
        If a translation does not have the tags of its sentence once each and nested,
        they follow its text, so that the page has the same elements. The same holds for
        `<wbr>`, comments and ruby annotations within words.

        Args:
            translations: One for each of `texts()`, in their order.

        Raises:
            ValueError: If there are fewer or more.
        """
        text.check_count(translations, self.sentences)
        page = [self.around[0]]
        for number, translation in enumerate(translations):
            source, between = self.sources[number], self.around[number + 1]
            sentence = self.sentences[number]
            same = sentence, white_space.without_invisible(sentence)
            if translation.strip() and translation not in same:
                before, after = self.markup[number]
                source = before + _escape(translation, self.tags[number]) + after
            if not between and number + 1 < len(translations):
                between = text.missing_space(self.sentences[number], translation)
            page += [source, between]
        return "".join(page)


def segment(
    page: str,
    language: str,
    max_tokens: int | None = None,
    max_tag_pairs: int = 0,
    tokens: Collection[str] = (),
    token: str = "",
    terms: Glossary | Protection = text.NO_TERMS,
) -> WebPage:
    """Find the sentences of a web page.

    Tags of blocks end a sentence. Tags within a sentence are part of it if they are
    pairs, at most `max_tag_pairs`, and all of it is to be translated. Otherwise they
    divide it into texts that are translated one by one, beside its words: those within
    a word go before or after it. Script, style, code and preformatted text is not
    translated, nor are elements with `translate="no"` or the class `notranslate`. A
    language token at the beginning of a block is that of all sentences until the next
    one, and is left out.

    Args:
        page: Source of a page or a part of one.
        language: Same as in `text.segment`.
        max_tokens: Same as in `text.segment`.
        max_tag_pairs: How many pairs of tags a translation keeps, see
            `Protection.num_tag_pairs`.
        tokens: Same as in `text.segment`.
        token: Same as in `text.segment`.
        terms: Same as in `text.segment`.
    """
    # The parser counts "\r\n" as one character and a byte order mark as none.
    source = _NOT_COUNTED.sub(" ", page)
    found, removed = [], []
    for run in _runs(source):
        if leading := run.take_token(tokens):
            token = leading[0]
            removed += leading[1]
        texts = run.texts(source, language, max_tokens, max_tag_pairs, terms)
        found += [(*each, token) for each in texts]
    # Text in a table that is outside of its cells comes before the table in the tree.
    found.sort()
    removed.sort()
    starts, ends, sentences, tags, markup, own = (
        zip(*found, strict=True) if found else ((),) * 6
    )
    around = zip((0, *ends), (*starts, len(page)), strict=True)
    return WebPage(
        tuple(_without(page, start, end, removed) for start, end in around),
        sentences,
        tags,
        markup,
        tuple(page[start:end] for start, end in zip(starts, ends, strict=True)),
        text.without_own(own, sentences, tokens),
    )


def num_repeated(page: str) -> int:
    """Return how many elements a parser may add to a page, at most.

    In `<b><p>x<b><p>x` nothing ends: each text gets all formatting before it again, so
    that their number is quadratic. This takes a time linear in the length of the page.
    """
    equal: collections.Counter[str] = collections.Counter()
    count = 0
    for tag in _FORMATTING.finditer(page):
        if tag[2] is None:
            count += 1  # where it ends is unsure
        elif tag[3] is None:
            equal[tag[0].lower()] += 1
    count += sum(min(each, _MOST_EQUAL) for each in equal.values())
    return count * page.count("<")


def _without(
    page: str, start: int, end: int, removed: Sequence[tuple[int, int]]
) -> str:
    """Return a part of a page without the characters of language tokens in it."""
    kept = []
    first, last = (bisect.bisect_left(removed, (each, each)) for each in (start, end))
    for begin, after in removed[first:last]:
        kept.append(page[start:begin])
        start = after
    return "".join(kept) + page[start:end]


@dataclasses.dataclass
class _Run:
    """Text between two tags of blocks."""

    # Line breaks and tabs are spaces.
    characters: list[str] = dataclasses.field(default_factory=list)
    # Where the source of each character starts and ends.
    starts: list[int] = dataclasses.field(default_factory=list)
    ends: list[int] = dataclasses.field(default_factory=list)
    # Positions of characters that have a tag before them, and what the tree has there:
    # "b" where an element begins, "/b" where it ends, "#comment", or "" for nothing.
    tags: list[tuple[int, str]] = dataclasses.field(default_factory=list)

    def add(self, source: str, start: int, content: str) -> None:
        """Add a text of the page.

        Args:
            source: The page.
            start: Where the text begins.
            content: The text as parsed. If the source has something else there, such as
                an end tag that the parser ignored, the text is not translated.
        """
        done = 0
        while done < len(content):
            if not (match := _CHARACTER.match(source, start)):
                match = _NO_TEXT.match(source, start)
                comment = html.unescape(match[0]) if match else ""
                if not comment or not content.startswith(comment, done):
                    break
                self.tags.append((len(self.characters), ""))
                start, done = match.end(), done + len(comment)
                continue
            characters, end = html.unescape(match[0]), match.end()
            if characters == match[0]:  # no entity, as in "R&D"
                characters, end = characters[0], start + 1
            if not content.startswith(characters, done):
                break
            self.characters += _SPACES.sub(" ", characters)
            self.starts += [start] * len(characters)
            self.ends += [end] * len(characters)
            start, done = end, done + len(characters)
        self.tags.append((len(self.characters), ""))

    def take_token(
        self, tokens: Collection[str]
    ) -> tuple[str, list[tuple[int, int]]] | None:
        """Remove the language token that the text begins with.

        Returns:
            The token, and where the source of each of its characters starts and ends;
            None if there is no token.
        """
        content = "".join(self.characters)
        token, _ = language_tokens.divide(content, tokens)
        if not token:
            return None
        size = content.index(token) + len(token)
        if content[size:].startswith(" ") and self.starts[size] == self.ends[size - 1]:
            size += 1
        first = content.index(token)
        where = [*zip(self.starts[first:size], self.ends[first:size], strict=True)]
        for values in (self.characters, self.starts, self.ends):
            del values[:size]
        self.tags = [(max(place - size, 0), event) for place, event in self.tags]
        return token, where

    def texts(
        self,
        source: str,
        language: str,
        max_tokens: int | None,
        max_tag_pairs: int,
        terms: Glossary | Protection,
    ) -> Iterator[_Translatable]:
        """Yield the texts to translate.

        Args:
            source: The page.
            language: Same as in `segment`.
            max_tokens: Same as in `segment`.
            max_tag_pairs: Same as in `segment`.
            terms: Same as in `segment`.
        """
        content = "".join(self.characters)
        markup = self._markup(source)
        divisions = self._divisions(content, markup)
        for first, last in text.sentence_spans(content, language, terms):
            whole = max_tag_pairs and self._with_tags(source, first, last)
            if whole and (
                len(whole[3]) <= 2 * max_tag_pairs
                and len([*text.parts(whole[2], 0, len(whole[2]), max_tokens)]) == 1
            ):
                yield whole
                continue
            for start, end in _between(content, divisions, first, last, max_tokens):
                sentence = " ".join(content[start:end].split())
                inner = (markup.get(place, ()) for place in range(start + 1, end))
                before, after = spans.around_word([*itertools.chain(*inner)])
                around = "".join(before), "".join(after)
                yield self.starts[start], self.ends[end - 1], sentence, (), around

    def _markup(self, source: str) -> dict[int, list[str]]:
        """Return tags and comments between two characters, by the second's position.

        Only where the tree has the same. Elsewhere, as in "<b><i>a</b>b</i>", moving a
        text would change the tree.
        """
        events: dict[int, list[str]] = {}
        for place, event in self.tags:
            if 0 < place < len(self.characters):
                events.setdefault(place, []).extend([event] if event else ())
        found = {}
        for place, expected in events.items():
            start, end = self.ends[place - 1], self.starts[place]
            parts = _parts_of(source[start:end], expected) if start <= end else None
            if parts is not None:
                found[place] = parts
        return found

    def _divisions(self, content: str, markup: Mapping[int, list[str]]) -> list[int]:
        """Return where tags divide the text: beside words, never within one."""
        divisions = {place for place, _ in self.tags}
        tags = {
            place: [part for part in parts if not _NOTE.match(part)]
            for place, parts in markup.items()
        }
        for place, between in tags.items():
            around = content[place - 1 : place + 1]
            if not between and not any(map(str.isspace, around)):
                divisions.remove(place)
        for start, end, places in spans.divided_words(content, tags):
            if not (self._is_border(start) and self._is_border(end)):
                continue
            inner = itertools.chain(*(tags[place] for place in places))
            before, after = spans.around_word([*inner])
            divisions.difference_update(places)
            divisions.update([start] * bool(before) + [end] * bool(after))
        return sorted(divisions)

    def _is_border(self, place):
        """Return whether the source is divided there: not within an entity."""
        inside = 0 < place < len(self.starts)
        return not inside or self.starts[place] != self.starts[place - 1]

    def _with_tags(self, source, first, last):
        """Return a sentence with its tags if it has pairs of them and nothing else."""
        parts = self.characters[first:last]
        # The source before each character but the first.
        gaps = [
            source[self.ends[number - 1] : self.starts[number]]
            for number in range(first + 1, last)
        ]
        start, end = self.starts[first], self.ends[last - 1]
        inner = TAG.findall("".join(gaps))
        if not inner or "".join(inner) != "".join(gaps) or "<" in parts:
            return None
        before, after = _outer_tags(source, start, end, inner)
        tags = (*before, *inner, *after)
        names = {TAG_NAME.match(tag)[1].lower() for tag in tags}
        if 2 * len([*tag_pairs(tags)]) < len(tags) or names - INLINE:
            return None
        sentence = [*before, parts[0]]
        for gap, previous, character in zip(gaps, parts, parts[1:], strict=False):
            sentence.append(gap)
            if not character.isspace():
                sentence.append(character)
            elif not previous.isspace():
                sentence.append(" ")
        return (
            start - len("".join(before)),
            end + len("".join(after)),
            "".join(sentence + after),
            tags,
            ("", ""),
        )


def _between(content, divisions, first, last, max_tokens):
    """Yield first and last character of the parts of a sentence.

    Args:
        content: The text that the sentence is in.
        divisions: Where tags divide the text.
        first: Where the sentence begins.
        last: Where it ends.
        max_tokens: Same as in `segment`.
    """
    after = bisect.bisect_right(divisions, first)
    inner = divisions[after : bisect.bisect_left(divisions, last)]
    # After "<b>Price</b>" the comma of ", the mayor" stays where it is.
    starts = [_CLOSING.match(content, tag).end() for tag in inner]
    for start, end in zip([first, *starts], [*inner, last], strict=True):
        for span in text.stripped(content, start, end):
            yield from text.parts(content, *span, max_tokens)


def _parts_of(gap: str, events: Sequence[str]) -> list[str] | None:
    """Return the tags and comments that a part of a page consists of.

    Args:
        gap: The part.
        events: What the tree has there, see `_Run.tags`.

    Returns:
        None if there is something else, or the tree has others.
    """
    parts, found, place = [], [], 0
    while match := _NOTE.match(gap, place) or _ANY_TAG.match(gap, place):
        place, part = match.end(), match[0]
        parts.append(part)
        name = (match[1] or "wbr").lower()
        if part.startswith("<!"):
            found.append("#comment")
        elif part.startswith("</"):
            found.append(f"/{name}")
        elif match.re is _NOTE or name == "img":
            found += [name, f"/{name}"]
        else:
            found.append(name)
    return parts if place == len(gap) and found == [*events] else None


def _outer_tags(
    source: str, start: int, end: int, inner: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the tags before and after a sentence that belong to tags within it.

    Args:
        source: The page.
        start: Where the sentence begins.
        end: Where it ends.
        inner: The tags within it.
    """
    paired = {number for pair in tag_pairs(inner) for number in pair}
    alone = [tag for number, tag in enumerate(inner) if number not in paired]
    num_before = sum(tag.startswith("</") for tag in alone)
    before = _TAGS_AT_END.search(source, max(start - _LONGEST_TAGS, 0), start)[0]
    after = _TAGS.match(source, end, end + _LONGEST_TAGS)[0]
    before, after = TAG.findall(before), TAG.findall(after)
    return before[max(len(before) - num_before, 0) :], after[: len(alone) - num_before]


def _escape(translation: str, tags: Sequence[str]) -> str:
    """Return the source of a translation with the tags of its sentence."""
    if not tags:
        return html.escape(translation, quote=False)
    parts = re.split(f"({'|'.join(map(re.escape, {*tags}))})", translation)
    found = parts[1::2]
    parts[::2] = [html.escape(part, quote=False) for part in parts[::2]]
    if sorted(found) == sorted(tags) and 2 * len([*tag_pairs(found)]) == len(found):
        return "".join(parts)
    return " ".join("".join(parts[::2]).split()) + "".join(tags)


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
        if node.name in INLINE or node.name in _SKIPPED or node.name == "#comment":
            run.tags.append((len(run.characters), "/" * is_end + node.name))
        elif run.characters:
            yield run
            run = _Run()
        if not is_end and node.name != "#comment":
            is_skipped = _is_skipped(node, is_skipped)
            stack.append((node, is_skipped, True))
            children = (node.children or ())[::-1]
            stack += [(child, is_skipped, False) for child in children]
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
