"""Sentences of plain text, found and put back within a TensorFlow graph.

For the signature `document` of an export, where Python is not at hand. A text is a
sequence of pieces: sentences, and what is between them. They are the sentences that
`documents.text` finds, but a graph knows no glossary, whose terms may look like an end.
Words that a model reads have no invisible characters, as in `translation.pipeline`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_transformer import language_tokens, white_space
from keras_transformer.documents import sentence_rules

# Together these are a whole text.
_FRAGMENT = "|".join(
    [sentence_rules.LINE_END, sentence_rules.INNER_SPACES, sentence_rules.WORD]
)
_CLAUSE_END = (
    rf".*(?:[,;:\x{{2013}}\x{{2014}}\x{{60c}}\x{{61b}}]|{sentence_rules.WIDE_WORD})"
)
_LETTER = r".*\pL.*"
_ENDS_WIDE = r".*[\x{e00}-\x{1fff}\x{2070}-\x{10ffff}]"


class Pieces(NamedTuple):
    """The pieces of a batch of texts, in the order of the texts."""

    # string [pieces].
    texts: tf.Tensor
    # int64 [pieces]: the number of the text.
    rows: tf.Tensor
    # bool [pieces]: whether to translate the piece.
    is_sentence: tf.Tensor

    def sentences(self) -> tf.Tensor:
        """Return what to translate, string `[sentences]`."""
        return tf.gather(self.texts, _where(self.is_sentence))


def segment(text: tf.Tensor, language: str = "", tokens: Sequence[str] = ()) -> Pieces:
    """Find the sentences of texts.

    A line break or a tab ends a sentence. Indentation, quote signs, bullets and numbers
    at the beginning of a line, spaces between sentences and parts without letters are
    no sentences, as in `documents.text.segment`, and language tokens are before each
    sentence as there.

    Args:
        text: string `[batch]`. Invalid UTF-8 and NUL become U+FFFD.
        language: Code of its language, as in `documents.text.segment`; "": unknown.
        tokens: The model's language tokens, such as ">>de<<".

    Returns:
        Pieces that together are the texts, but for language tokens.
    """
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    text = tf.strings.regex_replace(text, r"\x00", "\ufffd")
    split = _fragments(text)
    fragments, rows = split.values, split.indices[:, 0]
    rules = sentence_rules.rules_of(language)
    is_word, is_token, lines = _words(fragments, rows, tokens, rules)
    own = _tokens_before(fragments, rows, is_token)
    is_space = _is_like(sentence_rules.INNER_SPACES, fragments)
    is_space &= _after(is_token) & ~_changes(rows)
    fragments = tf.where(is_token | is_space, "", fragments)
    positions = _where(is_word)
    ends = _sentence_ends(
        tf.gather(fragments, positions),
        positions,
        tf.gather(lines, positions),
        rules,
    )
    numbers = tf.cumsum(tf.cast(ends, tf.int64), exclusive=True)
    # The fragment where each sentence begins, and the one after it.
    first = tf.math.segment_min(positions, numbers)
    after = tf.math.segment_max(positions, numbers) + 1
    size = tf.size(fragments, tf.int64)[tf.newaxis]
    begins = tf.scatter_nd(first[:, tf.newaxis], tf.ones_like(first), size + 1)[:-1]
    stops = tf.scatter_nd(after[:, tf.newaxis], tf.ones_like(after), size + 1)[:-1]
    is_inside = tf.cumsum(begins - stops) > 0
    is_new = (begins + stops > 0) | _changes(rows)
    pieces = tf.cumsum(tf.cast(is_new, tf.int64)) - 1
    count = tf.reduce_sum(tf.cast(is_new, tf.int64))
    texts = tf.strings.unsorted_segment_join(fragments, pieces, count)
    heads = _where(is_new)
    is_sentence = tf.gather(is_inside, heads)
    has_letters = _is_like(_LETTER, texts)
    is_sentence &= has_letters
    texts = tf.where(is_sentence, _told(texts, tf.gather(own, heads)), texts)
    return Pieces(texts, tf.gather(rows, heads), is_sentence)


def divide_long(
    pieces: Pieces,
    is_long: Callable[[tf.Tensor], tf.Tensor],
    tokens: Sequence[str] = (),
) -> tuple[Pieces, tf.Tensor]:
    """Divide sentences, again and again, until none is too long.

    Each time near the middle: at the end of a clause if there is one, else between two
    words, else between two characters.

    Args:
        pieces: From `segment`.
        is_long: Takes string `[sentences]`, returns bool `[sentences]`.
        tokens: Same as in `segment`.

    Returns:
        The pieces, and bool `[pieces]`: single characters that are too long.
    """

    def body(pieces, *_):
        positions = tf.where(pieces.is_sentence)
        texts = pieces.sentences()
        found = is_long(texts)
        divisible = found & (tf.strings.length(texts, unit="UTF8_CHAR") > 1)
        chosen = tf.gather(positions, _where(divisible))
        parts = tf.tensor_scatter_nd_update(
            tf.pad(pieces.texts[:, tf.newaxis], [[0, 0], [0, 2]]),
            chosen,
            _told_halves(tf.gather(pieces.texts, chosen[:, 0]), tokens),
        )
        # A piece that was not divided has the first part only.
        where = tf.where(parts != "")
        piece, part = where[:, 0], where[:, 1]
        is_cut = tf.scatter_nd(
            positions, found & ~divisible, tf.shape(pieces.is_sentence, tf.int64)
        )
        return (
            Pieces(
                tf.gather_nd(parts, where),
                tf.gather(pieces.rows, piece),
                tf.gather(pieces.is_sentence, piece) & (part != 1),
            ),
            tf.gather(is_cut, piece),
            tf.size(chosen) > 0,
        )

    shapes = Pieces(*3 * [tf.TensorShape([None])]), tf.TensorShape([None])
    *result, _ = tf.while_loop(
        lambda pieces, is_cut, is_changed: is_changed,
        body,
        (pieces, tf.zeros_like(pieces.is_sentence), tf.constant(True)),
        (*shapes, tf.TensorShape([])),
    )
    return tuple(result)


def without_invisible(texts: tf.Tensor) -> tf.Tensor:
    """Return the same as `white_space.without_invisible`, string `[batch]`."""
    for pattern in white_space.HIDDEN:
        texts = tf.strings.regex_replace(texts, pattern, r"\1")
    return texts


def join(pieces: Pieces, translations: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """Return the texts with a translation in the place of each sentence.

    Args:
        pieces: From `segment` or `divide_long`.
        translations: string `[sentences]`.
        batch: Number of texts.

    Returns:
        string `[batch]`. Line ends in a translation become spaces. Sentences that had
        no space between them, as in Chinese, get one if their translations need it.
    """
    translations = tf.strings.regex_replace(
        translations, f"(?:{sentence_rules.LINE_END})+", " "
    )
    positions = tf.where(pieces.is_sentence)
    # Whether the next piece is a sentence of the same text.
    follows = tf.pad(pieces.is_sentence[1:] & ~_changes(pieces.rows)[1:], [[0, 1]])[
        : tf.size(pieces.texts)
    ]
    needs_space = (
        tf.gather(follows, positions[:, 0])
        & _is_like(_ENDS_WIDE, pieces.sentences())
        & ~_is_like(_ENDS_WIDE, translations)
        & (translations != "")
    )
    translations += tf.where(needs_space, " ", "")
    texts = tf.tensor_scatter_nd_update(pieces.texts, positions, translations)
    return tf.strings.unsorted_segment_join(texts, pieces.rows, batch)


def _fragments(texts):
    """Return words, spaces and line ends: `values`, and their `indices`, `shape`."""
    marked = tf.strings.regex_replace(texts, f"(?:{_FRAGMENT})", "\\0\x00")
    return tf.raw_ops.StringSplitV2(
        input=tf.strings.regex_replace(marked, r"\x00$", ""), sep="\x00"
    )


def _where(flags):
    """Return the positions of the flags that are set, int64 `[set]`."""
    return tf.where(flags)[:, 0]


def _words(fragments, rows, tokens, rules):
    """Return which fragments are words of sentences, and which are language tokens.

    Also returns the number of the line of each.
    """
    is_line_end = _is_like(sentence_rules.LINE_END, fragments)
    is_word = ~is_line_end & ~_is_like(sentence_rules.INNER_SPACES, fragments)
    begins = _changes(rows) | _after(is_line_end)
    lines = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    # A quote sign at the beginning of a line, then a bullet with a space after it.
    is_angle = _is_like(sentence_rules.ANGLE, fragments)
    is_known = tf.zeros_like(is_word)
    if tokens:
        is_known = tf.reduce_any(fragments[:, tf.newaxis] == [*tokens], axis=1)
    is_first = _count_before(is_word & ~is_angle & ~is_known, lines) == 0
    followed = _is_like(sentence_rules.INNER_SPACES, _next(fragments)) & ~_changes(
        lines, ahead=True
    )
    positions = _where(is_word)
    signs = _where(tf.gather(is_first & followed, positions))
    words = tf.gather(fragments, positions)
    _, after = _around(words, tf.gather(lines, positions), signs)
    is_bullet = tf.scatter_nd(
        tf.gather(positions, signs)[:, tf.newaxis],
        sentence_rules.is_bullet(_is_like, rules, tf.gather(words, signs), after),
        tf.shape(fragments, tf.int64),
    )
    is_marker = (is_first & is_angle) | is_bullet
    # A language token may have these before it.
    is_text = is_word & ~is_marker
    is_token = is_known & (_count_before(is_text & ~is_known, lines) == 0)
    is_token &= _count_before(is_token, lines) == 0
    return is_text & ~is_token, is_token, lines


def _tokens_before(fragments, rows, is_token):
    """Return the last language token up to each fragment, within its text."""
    where = _where(is_token)
    last = tf.cumsum(tf.cast(is_token, tf.int64)) - 1
    position = tf.gather(tf.pad(where, [[0, 1]]), tf.maximum(last, 0))
    is_told = (last >= 0) & (tf.gather(rows, position) == rows)
    return tf.where(is_told, tf.gather(fragments, position), "")


def _sentence_ends(words, positions, lines, rules):
    """Return which words end a sentence, bool `[words]`."""
    is_last = _changes(lines, ahead=True)
    marked = _where(_is_like(rules.end, words) & ~is_last)
    before, after = _around(words, lines, marked)
    has_space = tf.gather(positions, marked + 1) > tf.gather(positions, marked) + 1
    is_capital = _is_like(f".*{sentence_rules.CAPITAL}.*", words)
    capitals = tf.math.segment_max(tf.cast(is_capital, tf.int64), lines)
    has_capitals = tf.gather(capitals, tf.gather(lines, marked)) > 0
    is_end = sentence_rules.ends(
        _is_like,
        rules,
        before,
        tf.gather(words, marked),
        after,
        has_space,
        has_capitals,
    )
    return is_last | tf.scatter_nd(
        marked[:, tf.newaxis], is_end, tf.shape(words, tf.int64)
    )


def _around(words, lines, places):
    """Return the word before some words, and the three after, within their lines."""

    def near(offset):
        found = tf.clip_by_value(places + offset, 0, tf.size(words, tf.int64) - 1)
        is_near = tf.gather(lines, found) == tf.gather(lines, places)
        return tf.where(
            is_near & (found == places + offset), tf.gather(words, found), ""
        )

    after = tf.strings.join([near(1), near(2), near(3)], " ")
    return near(-1), tf.strings.strip(after)


def _is_like(pattern, texts):
    """Return whether a regular expression matches each text as a whole."""
    return tf.strings.regex_full_match(texts, f"(?s){pattern}")


def _told(texts, tokens):
    """Return texts with language tokens, but for one that begins with another."""
    is_other = _is_like(f"{language_tokens.LIKELY_TOKEN}.*", texts)
    told = tf.strings.join([tokens, texts], " ")
    return tf.where((tokens == "") | (texts == "") | is_other, texts, told)


def _told_halves(texts, tokens):
    """Return the same as `_halves`, the halves with the language token of the text."""
    known = "|".join(map(re.escape, tokens))
    parts = f"(?s)^(?:({known}) )?(.*)$"
    own, bare = (tf.strings.regex_replace(texts, parts, rf"\{n}") for n in (1, 2))
    first, between, second = tf.unstack(_halves(bare), axis=1)
    return tf.stack([_told(first, own), between, _told(second, own)], axis=1)


def _halves(texts):
    """Divide texts near the middle; return string `[texts, 3]`: half, spaces, half."""
    split = _fragments(texts)
    # At least one column, also if there is no text.
    blank = tf.fill(tf.maximum(split.shape, [0, 1]), "")
    fragments = tf.tensor_scatter_nd_update(blank, split.indices, split.values)
    lengths = tf.strings.length(fragments)
    ends = tf.cumsum(lengths, axis=1)
    size = ends[:, -1:]
    is_space = _is_like(sentence_rules.INNER_SPACES, fragments)
    is_clause_end = _is_like(_CLAUSE_END, fragments)
    # After a word that has a space or, in Chinese, the end of a clause after it.
    is_wide = _is_like(sentence_rules.WIDE_WORD, fragments)
    before_space = tf.pad(is_space[:, 1:], [[0, 0], [0, 1]])
    possible = (is_wide | before_space) & ~is_space & (ends < size)
    is_central = (ends >= size // 4) & (ends <= size - size // 4)
    distance = tf.abs(2 * ends - size)
    distance += tf.where(is_clause_end & is_central, 0, 2 * size)
    distance = tf.where(possible, distance, tf.int32.max)
    best = tf.argmin(distance, axis=1)[:, tf.newaxis]
    cut = tf.gather(ends, best, batch_dims=1)[:, 0]
    middle = tf.strings.length(texts, unit="UTF8_CHAR") // 2
    cut = tf.where(
        tf.reduce_any(possible, axis=1),
        cut,
        tf.strings.length(_characters(texts, middle)),
    )
    whole = size[:, 0]
    rest = tf.strings.substr(texts, cut, whole - cut)
    second = tf.strings.regex_replace(rest, f"^{sentence_rules.INNER_SPACES}", "")
    spaces = tf.strings.substr(
        rest, tf.zeros_like(cut), tf.strings.length(rest) - tf.strings.length(second)
    )
    return tf.stack(
        [tf.strings.substr(texts, tf.zeros_like(cut), cut), spaces, second], axis=1
    )


def _characters(texts, count):
    """Return the first characters of texts."""
    return tf.strings.substr(texts, tf.zeros_like(count), count, unit="UTF8_CHAR")


def _changes(values, ahead=False):
    """Return where a value differs from the one before, or from the one after."""
    differs = values[1:] != values[:-1]
    edges = [[0, 1]] if ahead else [[1, 0]]
    padded = tf.pad(differs, edges, constant_values=True)
    return padded[: tf.size(values)]


def _after(flags):
    """Return the flag of the element before each."""
    return tf.pad(flags, [[1, 0]])[:-1]


def _next(texts):
    """Return the text after each, "" for the last."""
    return tf.pad(texts, [[0, 1]], constant_values="")[1:]


def _count_before(flags, groups):
    """Return how many flags are set before each element within its group."""
    count = tf.cumsum(tf.cast(flags, tf.int64), exclusive=True)
    return count - tf.gather(tf.math.segment_min(count, groups), groups)
