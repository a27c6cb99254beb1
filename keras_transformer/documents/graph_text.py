"""Sentences of plain text, found and put back within a TensorFlow graph.

For the signature `document` of an export, where Python's libraries are not at hand. A
text is a sequence of pieces: sentences, and what is between them. Outside of a graph,
`documents.text` knows more languages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_transformer import language_tokens
from keras_transformer.white_space import SPACES

# RE2 has no lookahead, so words are compared with the word that follows.
_LINE_ENDS = "\n\r\v\f\t\x1c\x1d\x1e\x85\u2028\u2029"
_LINE_END = f"\r\n|[{_LINE_ENDS}]"
_SPACES = f"[{''.join(each for each in SPACES if each not in _LINE_ENDS)}]+"
_NO_WORD = f"{SPACES}>"
# Chinese and Japanese have no space after punctuation.
_WIDE_END = "\u3002\uff01\uff1f"
_WIDE = f"{_WIDE_END}\u3001\uff0c\uff1b\uff1a"
_CLOSING = "\"'\u201d\u2019\u201c\u00bb\u00ab\u203a)\\]*_\u300d\u300f\uff09"
_OPENING = "[\"'\u201c\u201e\u2018\u00ab\u00bb\u2039(\\[\u00bf\u00a1*_]*"
# Together these are a whole text. A language token is one word, not marks of a quote.
_FRAGMENT = "|".join(
    [
        _LINE_END,
        _SPACES,
        language_tokens.TOKEN,
        ">+",
        f"[^{_NO_WORD}{_WIDE}]*[{_WIDE}]+[{_CLOSING}]*",
        f"[^{_NO_WORD}]+",
    ]
)
_BULLET = (
    r"[-*+\x{2022}\x{2023}\x{2043}\x{25aa}\x{25cf}\x{25e6}\x{2013}\x{2014}]"
    r"|#{1,6}|\(?\d{1,3}[.)]|\(?[A-Za-z]\)"
)
_WIDE_SENTENCE_END = f".*[{_WIDE_END}]+[{_CLOSING}]*"
_SENTENCE_END = f".*[.!?\u2026\u061f\u0964\u06d4]+[{_CLOSING}]*"
_CLAUSE_END = f".*(?:[,;:\u2013\u2014\u060c\u061b]|[{_WIDE}][{_CLOSING}]*)"
_LETTER = r"(?s).*\pL.*"
_ENDS_WIDE = r"(?s).*[\x{e00}-\x{1fff}\x{2070}-\x{10ffff}]"
_BEGINS_SMALL = rf"{_OPENING}\p{{Ll}}.*"
_BEGINS_WITH_DIGIT = rf"{_OPENING}\d.*"
# Abbreviations of common languages by what may follow them: a name, as after "Dr.", or
# the rest of the sentence; a number, as after "Fig."; anything, but then a new sentence
# begins with a word that often begins one, as after "U.S.".
_BEFORE_NAME = (
    rf"{_OPENING}(?:\pL|\p{{Lu}}\.-\p{{Lu}}|Dr|Drs|Mr|Mrs|Ms|Mx|Prof|St|Ste|Gen|Sen|Rep"
    "|Gov|Col|Capt|Cpt|Maj|Lt|Cmdr|Adm|Sgt|Rev|Hon|Pres|Hr|Hrn|Fr|Dipl|Ing|Mag|Mme|Mlle"
    "|Mgr|Sr|Sra|Srta|Sig|vs|cf|viz|esp|approx|ca|bzw|vgl|evtl|inkl|exkl|ggf|sog|resp"
    r"|e\.g|i\.e|z\.B|d\.h|u\.a|o\.\x{e4}|s\.o|s\.u|p\.ex|c\.-\x{e0}-d)\."
)
_BEFORE_NUMBER = (
    rf"{_OPENING}(?:al|[Nn]os?|[Nn]r|[Nn]um|[Ff]igs?|[Ss]ecs?|[Ee]qs?|[Tt]ab|[Vv]ols?|[Cc]h"
    "|[Aa]rt|[Aa]bb|[Kk]ap|Bd|pp?|[Ss]|Abs|Refs?|Rev|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?"
    r"|Oct|Nov|Dec|tel|Tel|ext|Ext)\."
)
_INITIALS = rf"{_OPENING}(?:\p{{Lu}}\.){{2,}}"
_BEGINS_SENTENCE = (
    f"{_OPENING}(?:A|An|And|As|At|But|For|He|Her|His|I|If|In|It|My|No|On|Our|She|So|That"
    "|The|Their|There|These|They|This|We|What|When|You|Your|Aber|Das|Der|Die|Ein|Eine"
    "|Er|Es|Ich|Sie|Wir|Elle|Il|Ils|Je|La|Le|Les|Nous|Un|Une|El|Los|Las)"
    r"(?:['\x{2019}].*|[,.:]?)"
)
# Languages that write "3." for the third.
_ORDINAL_LANGUAGES = (
    *("cs", "da", "de", "et", "fi", "fo", "hr", "hu", "is", "lb", "lv", "nb", "nn"),
    *("no", "pl", "sk", "sl", "sr", "tr"),
)
_ORDINAL = rf"{_OPENING}\d{{1,2}}\."


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
        language: Code of its language; "": unknown. Some write ordinal numbers with a
            point.
        tokens: The model's language tokens, such as ">>de<<".

    Returns:
        Pieces that together are the texts, but for language tokens.
    """
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    text = tf.strings.regex_replace(text, r"\x00", "\ufffd")
    split = _fragments(text)
    fragments, rows = split.values, split.indices[:, 0]
    is_word, is_token, lines = _words(fragments, rows, tokens)
    own = _tokens_before(fragments, rows, is_token)
    is_space = tf.strings.regex_full_match(fragments, _SPACES)
    is_space &= _after(is_token) & ~_changes(rows)
    fragments = tf.where(is_token | is_space, "", fragments)
    positions = _where(is_word)
    ends = _sentence_ends(
        tf.gather(fragments, positions),
        positions,
        tf.gather(lines, positions),
        language,
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
    has_letters = tf.strings.regex_full_match(texts, _LETTER)
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
    translations = tf.strings.regex_replace(translations, f"(?:{_LINE_END})+", " ")
    positions = tf.where(pieces.is_sentence)
    # Whether the next piece is a sentence of the same text.
    follows = tf.pad(pieces.is_sentence[1:] & ~_changes(pieces.rows)[1:], [[0, 1]])[
        : tf.size(pieces.texts)
    ]
    needs_space = (
        tf.gather(follows, positions[:, 0])
        & tf.strings.regex_full_match(pieces.sentences(), _ENDS_WIDE)
        & ~tf.strings.regex_full_match(translations, _ENDS_WIDE)
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


def _words(fragments, rows, tokens):
    """Return which fragments are words of sentences, and which are language tokens.

    Also returns the number of the line of each.
    """
    is_line_end = tf.strings.regex_full_match(fragments, _LINE_END)
    is_word = ~is_line_end & ~tf.strings.regex_full_match(fragments, _SPACES)
    begins = _changes(rows) | _after(is_line_end)
    lines = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    # A quote sign at the beginning of a line, then a bullet with a space after it.
    is_angle = tf.strings.regex_full_match(fragments, ">+")
    is_known = tf.zeros_like(is_word)
    if tokens:
        is_known = tf.reduce_any(fragments[:, tf.newaxis] == [*tokens], axis=1)
    is_first = _count_before(is_word & ~is_angle & ~is_known, lines) == 0
    followed = tf.strings.regex_full_match(_next(fragments), _SPACES) & ~_changes(
        lines, ahead=True
    )
    is_bullet = tf.strings.regex_full_match(fragments, _BULLET) & followed
    is_marker = is_first & (is_angle | is_bullet)
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


def _sentence_ends(words, positions, lines, language):
    """Return which words end a sentence, bool `[words]`."""

    def is_like(pattern, texts=words):
        return tf.strings.regex_full_match(texts, pattern)

    following = _next(words)
    is_abbreviation = (
        is_like(_BEFORE_NAME)
        | (is_like(_BEFORE_NUMBER) & is_like(_BEGINS_WITH_DIGIT, following))
        | (is_like(_INITIALS) & ~is_like(_BEGINS_SENTENCE, following))
    )
    if language.replace("_", "-").split("-")[0].lower() in _ORDINAL_LANGUAGES:
        is_abbreviation |= is_like(_ORDINAL)
    has_space = tf.concat([positions[1:], positions[-1:]], 0) != positions + 1
    goes_on = is_abbreviation | is_like(_BEGINS_SMALL, following)
    return (
        _changes(lines, ahead=True)
        | is_like(_WIDE_SENTENCE_END)
        | (is_like(_SENTENCE_END) & has_space & ~goes_on)
    )


def _told(texts, tokens):
    """Return texts with language tokens, but for one that begins with another."""
    is_other = tf.strings.regex_full_match(
        texts, f"(?s){language_tokens.LIKELY_TOKEN}.*"
    )
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
    is_space = tf.strings.regex_full_match(fragments, _SPACES)
    is_clause_end = tf.strings.regex_full_match(fragments, _CLAUSE_END)
    # After a word that has a space or, in Chinese, the end of a clause after it.
    is_wide = tf.strings.regex_full_match(fragments, f".*[{_WIDE}][{_CLOSING}]*")
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
    second = tf.strings.regex_replace(rest, f"^{_SPACES}", "")
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
