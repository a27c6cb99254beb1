"""Splits text into the units that are split into word pieces, and joins them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import tensorflow as tf

from keras_transformer.config import SPACE

# A character outside the alphabet is written as `\CODE;` with its decimal code point.
# The backslash is never in the alphabet, so that no text can look like an escape.
ESCAPE, ESCAPE_END = "\\", ";"
ALWAYS_SPELLED = frozenset("0123456789" + ESCAPE_END)

# keras_nlp treats words of over 100 bytes as unknown; a character takes at most 4.
_MAX_UNIT_CHARACTERS = 25


def can_be_spelled(character: str) -> bool:
    """Whether a character may be in an alphabet.

    The space and the marks of this module have a special meaning. Control, private and
    unassigned code points are rare, and some are used as marks here.
    """
    is_mark = character in (" ", SPACE, ESCAPE)
    return not is_mark and unicodedata.category(character) not in ("Cc", "Cn", "Co")


class UnitSplitter(tf.Module):
    """Splits text into units: a word or one other character, with the space before it.

    Letters, digits and combining marks form words; a word of more than 24 characters is
    split. A "#" is always alone, so a "##" before a piece cannot be mistaken for text.

    Args:
        alphabet: Characters that need no escape; see `can_be_spelled`.
    """

    def __init__(self, alphabet: Iterable[str]):
        super().__init__(name="unit_splitter")
        spelled = sorted(ALWAYS_SPELLED.union(alphabet))
        self._spelled = tf.constant([ord(character) for character in spelled])
        words = [ord(character) for character in spelled if _is_word(character)]
        self._words = tf.constant(words)

    def split(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Split string `[batch]` into string `[batch, (units)]`."""
        codes = tf.strings.unicode_decode(self._marked(text), "UTF-8")
        is_start = self._starts(codes.flat_values)
        characters = tf.RaggedTensor.from_row_starts(
            codes.flat_values, tf.where(is_start)[:, 0]
        )
        units = tf.strings.unicode_encode(characters, "UTF-8")
        starts = codes.with_flat_values(tf.cast(is_start, tf.int64))
        return tf.RaggedTensor.from_row_lengths(units, tf.reduce_sum(starts, axis=1))

    def _marked(self, text):
        """Escape, merge runs of spaces, add one before the first unit, mark them."""
        text = tf.strings.join([" ", self._escaped(text)])
        text = tf.strings.regex_replace(text, " +$", "")
        return tf.strings.regex_replace(text, " +", SPACE)

    def _escaped(self, text):
        codes = tf.strings.unicode_decode(text, "UTF-8")  # invalid bytes: U+FFFD
        flat = codes.flat_values
        is_spelled = _is_among(flat, self._spelled) | (flat == ord(" "))
        characters = tf.strings.unicode_encode(flat[:, tf.newaxis], "UTF-8")
        escapes = tf.strings.join([ESCAPE, tf.strings.as_string(flat), ESCAPE_END])
        written = tf.where(is_spelled, characters, escapes)
        return tf.strings.reduce_join(codes.with_flat_values(written), axis=-1)

    def _starts(self, codes):
        """Return where units begin, bool `[characters]`; a text begins with a mark."""
        is_mark = codes == ord(SPACE)
        is_word = _is_among(codes, self._words)
        follows_mark = tf.concat([[False], is_mark], axis=0)[:-1]
        follows_word = tf.concat([[False], is_word], axis=0)[:-1]
        is_start = is_mark | ~(follows_mark | (follows_word & is_word))
        # Position within the unit.
        indices = tf.range(tf.size(codes))
        unit = tf.cumsum(tf.cast(is_start, tf.int32)) - 1
        position = indices - tf.gather(tf.boolean_mask(indices, is_start), unit)
        return position % _MAX_UNIT_CHARACTERS == 0


def join(units: tf.RaggedTensor) -> tf.Tensor:
    """Undo `UnitSplitter.split`; a unit may be several pieces.

    Invalid escapes, which only a model can write, are kept as text.
    """
    text = tf.strings.reduce_join(units, axis=-1)
    text = tf.strings.regex_replace(text, f"^{SPACE}", "")
    text = tf.strings.regex_replace(text, SPACE, " ")
    # No alphabet has control characters, so two of them can mark the escapes.
    marked = tf.strings.regex_replace(text, r"\\([0-9]{1,7});", "\x00\x01\\1\x00")
    parts = tf.strings.split(marked, "\x00")
    flat = parts.flat_values
    is_code = tf.strings.substr(flat, 0, 1) == "\x01"
    digits = tf.strings.substr(tf.where(is_code, flat, "\x010"), 1, 7)
    codes = tf.strings.to_number(digits, tf.int32)
    characters = tf.strings.unicode_encode(codes[:, tf.newaxis], "UTF-8")
    joined = parts.with_flat_values(tf.where(is_code, characters, flat))
    return tf.strings.reduce_join(joined, axis=-1)


def _is_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


def _is_among(values: tf.Tensor, members: tf.Tensor) -> tf.Tensor:
    """Return which values are in `members`, which is sorted and not empty."""
    nearest = tf.minimum(tf.searchsorted(members, values), tf.size(members) - 1)
    return tf.gather(members, nearest) == values
