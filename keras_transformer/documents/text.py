"""Sentences of plain text, and their translations back in its layout."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_transformer import language_tokens
from keras_transformer.documents import sentence_rules
from keras_transformer.documents.protection import Protection
from keras_transformer.spans import Glossary
from keras_transformer.white_space import INVISIBLE, SPACES

# Sentences with more characters per token of the model's limit are divided before they
# are translated. The others are divided if the model says that it cut them.
_CHARACTERS_PER_TOKEN = 8
# Quote signs of e-mails, which are none of a language token, then the sign of a list.
_MARKER = sentence_rules.compiled(
    rf"(?:[{SPACES}]|>(?!>[^<>\s]+<<))*(?:(?:{sentence_rules.BULLET})[{SPACES}]+)?"
)
_LINE = re.compile(f"[^{sentence_rules.LINE_ENDS}]+")
_LINE_WITH_END = re.compile(f"{_LINE.pattern}(?:{sentence_rules.LINE_END})?|.", re.S)
_WORD = sentence_rules.compiled(sentence_rules.WORD)
_SPACE = sentence_rules.compiled(sentence_rules.INNER_SPACES).match
_BULLET = sentence_rules.compiled(sentence_rules.BULLET).fullmatch
_CAPITAL = sentence_rules.compiled(sentence_rules.CAPITAL).search
NO_TERMS = Glossary()
# Characters after a term in which the beginning of a sentence is looked for.
_LONGEST_BEGINNING = 40
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_BRACKET = re.compile("[<>]")
# Where a clause ends: before the spaces after a punctuation mark, or after one that
# has no space after it in its script.
_CLAUSE_END = re.compile(
    r"(?<=[,;:\u2013\u2014\u060c\u061b])\s+|(?<=[\u3001\uff0c\uff1b\uff1a\u3002])\s*"
)
_WORD_END = re.compile(r"\s+")


class Division(NamedTuple):
    """A text in two parts."""

    first: str
    # The spaces between them, which are translated by neither.
    between: str
    second: str


@dataclasses.dataclass(frozen=True)
class Document:
    """A text as sentences and what is around them."""

    # Before the first sentence, between sentences, after the last.
    around: tuple[str, ...]
    sentences: tuple[str, ...]
    # The language token of each sentence, "" for none.
    tokens: tuple[str, ...]

    def texts(self) -> tuple[str, ...]:
        """Return what must be translated, with the tokens."""
        return told(self.sentences, self.tokens)

    def join(self, translations: Sequence[str]) -> str:
        """Return the text with a translation in the place of each sentence.

        Line ends in a translation become spaces, so that lines stay lines.

        Args:
            translations: One for each of `texts()`, in their order.

        Raises:
            ValueError: If there are fewer or more.
        """
        check_count(translations, self.sentences)
        result = self.around[0]
        for number, translation in enumerate(translations):
            translation = " ".join(translation.splitlines())
            between = self.around[number + 1]
            if not between and number + 1 < len(translations):
                between = missing_space(self.sentences[number], translation)
            result += translation + between
        return result


def segment(
    text: str,
    language: str,
    max_tokens: int | None = None,
    tokens: Collection[str] = (),
    token: str = "",
    terms: Glossary | Protection = NO_TERMS,
) -> Document:
    """Find the sentences of a text.

    A line break ends a sentence, and so does a tab. Indentation, quote signs, bullets
    and numbers at the beginning of a line, spaces between sentences and parts without
    letters are not translated. A language token at the beginning of a line is that of
    all sentences until the next one, and is left out.

    Args:
        text: Any text. `join` of its own sentences gives it back, without tokens.
        language: Code such as "de", "pt-BR", "en_XX" or "deu_Latn"; "": unknown.
        max_tokens: The model's limit, to divide sentences that are far longer; None:
            unknown.
        tokens: The model's language tokens, such as ">>de<<".
        token: That of the sentences before the first token of the text; "": none.
        terms: Finds the spans in which no sentence ends, such as "Yahoo! Mail": a
            `Protection`, or a glossary.
    """
    text, positions, found = _without_tokens(text, tokens)
    found = [token, *found]
    around, sentences, own, done = [], [], [], 0
    for start, end in _spans(text, language, terms):
        for first, last in parts(text, start, end, max_tokens):
            around.append(text[done:first])
            sentences.append(text[first:last])
            own.append(found[bisect.bisect_right(positions, first)])
            done = last
    own = without_own(own, sentences, tokens)
    return Document((*around, text[done:]), tuple(sentences), own)


def with_tokens(
    lines: Iterable[str], tokens: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text, each with the language token from the lines before."""
    token = ""
    for line in lines:
        yield line, token
        token = ([token] + _without_tokens(line, tokens)[2])[-1]


def told(sentences: Sequence[str], tokens: Sequence[str]) -> tuple[str, ...]:
    """Return sentences with their language tokens."""
    return tuple(
        f"{token} {sentence}" if token else sentence
        for sentence, token in zip(sentences, tokens, strict=True)
    )


def without_own(
    told: Sequence[str], sentences: Sequence[str], tokens: Collection[str]
) -> tuple[str, ...]:
    """Return the tokens of sentences, "" for one that begins with a token itself."""
    return tuple(
        "" if language_tokens.leading(sentence, tokens) else token
        for sentence, token in zip(sentences, told, strict=True)
    )


def _without_tokens(
    text: str, tokens: Collection[str]
) -> tuple[str, list[int], list[str]]:
    """Return a text without the tokens of its lines; where these hold, and the tokens.

    A token may have quote signs, a bullet or a number before it.
    """
    if not tokens:
        return text, [], []
    kept, positions, found, size = [], [], [], 0
    for line in lines_of(text):
        content = line.rstrip(sentence_rules.LINE_ENDS)
        start = after_signs(content)
        token, rest = language_tokens.divide(content[start:], tokens)
        if token:
            positions.append(size)
            found.append(token)
            line = content[:start] + rest + line[len(content) :]
        kept.append(line)
        size += len(line)
    return "".join(kept), positions, found


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends, such as a line break or a tab."""
    return _LINE_WITH_END.findall(text)


def after_signs(line: str) -> int:
    """Return where a line goes on after quote signs and the sign of a list."""
    return _MARKER.match(line).end()


def sentence_spans(
    text: str, language: str, terms: Glossary | Protection = NO_TERMS
) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence of a paragraph, without outer spaces.

    Args:
        text: The paragraph; line breaks are spaces.
        language: As in `segment`.
        terms: As in `segment`.
    """
    rules = sentence_rules.rules_of(language)
    if words := [*_WORD.finditer(text)]:
        yield from _sentences(text, words, rules, _in_terms(text, terms, rules))


def _sentences(text, words, rules, no_ends):
    """Yield start and end of each sentence of a line or a paragraph.

    Args:
        text: All of the text.
        words: Matches of `_WORD`, at least one.
        rules: Those of the language.
        no_ends: Positions where no sentence ends.
    """
    may_end = sentence_rules.compiled(rules.end).fullmatch
    numbers = [
        number
        for number, word in enumerate(words[:-1])
        if may_end(word[0]) and word.end() not in no_ends
    ]
    first = 0
    for last in [*_ends(words, numbers, rules), len(words) - 1]:
        yield from stripped(text, words[first].start(), words[last].end())
        first = last + 1


def _ends(words, numbers, rules):
    """Return the numbers of the words that end a sentence, of some."""
    if not numbers:
        return ()
    is_end = sentence_rules.ends(
        _is_like,
        rules,
        _array(words[number - 1][0] if number else "" for number in numbers),
        _array(words[number][0] for number in numbers),
        _array(_after(words, number) for number in numbers),
        np.array([words[n].end() < words[n + 1].start() for n in numbers], bool),
        any(_CAPITAL(word[0]) for word in words),
    )
    return itertools.compress(numbers, is_end)


def _without_signs(text, words, rules):
    """Return the words of a line without quote signs and a bullet before them."""
    words = [*itertools.dropwhile(lambda word: not word[0].strip(">"), words)]
    if not (words and _BULLET(words[0][0]) and _SPACE(text, words[0].end())):
        return words
    first = _array([words[0][0]]), _array([_after(words, 0)])
    return words[1:] if sentence_rules.is_bullet(_is_like, rules, *first) else words


def _in_terms(text, terms, rules):
    """Return the positions within spans, where no sentence ends.

    One may end with a term such as "Yahoo!" if the next word often begins a sentence.
    """
    begins = sentence_rules.compiled(f"[{SPACES}]+(?:{rules.beginning})").fullmatch
    positions, places, visible = set(), range(len(text)), text
    if _INVISIBLE.search(text):
        places = [place for place in places if not _INVISIBLE.match(text[place])]
        visible = "".join(text[place] for place in places)
    for span in terms.find(visible):
        start, end = places[span.start], places[span.end - 1] + 1
        positions.update(range(start + 1, end))
        if not begins(text, end, end + _LONGEST_BEGINNING):
            positions.add(end)
    return positions


def _after(words, number):
    """Return the three words after one, with a space between them."""
    return " ".join(word[0] for word in words[number + 1 : number + 4])


def _array(texts):
    return np.array([*texts], object)


def _is_like(pattern, texts):
    """Return whether a regular expression of the rules matches each text."""
    match = sentence_rules.compiled(pattern).fullmatch
    return np.array([match(text) is not None for text in texts], bool)


def stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a part of a text without outer spaces, if it has letters."""
    part = text[start:end].rstrip(SPACES)
    if any(character.isalpha() for character in part):
        yield end - len(text[start:end].lstrip(SPACES)), start + len(part)


def divide(text: str, tokens: Collection[str] = ()) -> Division | None:
    """Divide a sentence near its middle, to translate its parts one by one.

    After punctuation in its middle half if there is any, else between two words, else
    between two characters.

    Args:
        text: The sentence.
        tokens: The model's language tokens. Both parts have that of the sentence.

    Returns:
        The parts, which together are the text; None for a single character.
    """
    token, text = language_tokens.divide(text, tokens)
    if token:
        if (found := divide(text)) is None:
            return None
        first, second = told((found.first, found.second), (token, token))
        return Division(first, found.between, second)
    middle = len(text) / 2
    brackets = [bracket.start() for bracket in _BRACKET.finditer(text)]

    def is_in_tag(place):
        following = bisect.bisect_left(brackets, place)
        return following < len(brackets) and text[brackets[following]] == ">"

    def nearest(pattern, margin):
        found = (
            match
            for match in pattern.finditer(text)
            if margin <= match.start()
            and match.end() <= len(text) - margin
            and not is_in_tag(match.end())
        )
        return min(found, key=lambda match: abs(match.start() - middle), default=None)

    found = nearest(_CLAUSE_END, max(len(text) // 4, 1)) or nearest(_WORD_END, 1)
    if found:
        start, end = found.span()
    else:
        start = len(text) // 2
        while start > 0 and unicodedata.combining(text[start]):
            start -= 1
        end = start
    if start == 0:
        return None
    return Division(text[:start], text[start:end], text[end:])


def missing_space(sentence: str, translation: str) -> str:
    """Return the space after a translation if the sentence's script has none.

    Chinese sentences follow one another without a space; translations into other
    scripts need one.
    """
    needs_space = _has_no_spaces(sentence[-1:]) and translation
    return " " if needs_space and not _has_no_spaces(translation[-1]) else ""


def check_count(translations: Sequence[str], sentences: Sequence[str]) -> None:
    """Raise ValueError unless there is one translation for each sentence."""
    if len(translations) != len(sentences):
        raise ValueError(
            "`translations` must have one item for each of `texts()`. Received: "
            f"{len(translations)} for {len(sentences)}."
        )


def _spans(text, language, terms):
    """Yield start and end of each sentence of all lines."""
    rules = sentence_rules.rules_of(language)
    no_ends = _in_terms(text, terms, rules)
    for line in _LINE.finditer(text):
        words = [*_WORD.finditer(text, *line.span())]
        if words := _without_signs(text, words, rules):
            yield from _sentences(text, words, rules, no_ends)


def parts(
    text: str, start: int, end: int, max_tokens: int | None
) -> Iterator[tuple[int, int]]:
    """Yield start and end of the parts of a sentence that may fit the model."""
    most = max_tokens and max(_CHARACTERS_PER_TOKEN * max_tokens, 1)
    found = divide(text[start:end]) if most and end - start > most else None
    if found is None:
        yield start, end
        return
    yield from parts(text, start, start + len(found.first), max_tokens)
    yield from parts(text, end - len(found.second), end, max_tokens)


def _has_no_spaces(character: str) -> bool:
    """Return whether a character is of a script without spaces after sentences."""
    return character >= "\u0e00" and not "\u2000" <= character <= "\u206f"
