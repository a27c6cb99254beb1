"""Texts as a search reads them, in the graph: without white space at their ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_transformer import given_texts
from keras_transformer.white_space import BLANK_CLASS, OUTER_SPACES, SPACES

# A language and a tag.
_MOST_MARKERS = 2


def text_batch(texts: Any) -> tf.Tensor:
    """Return texts as string `[batch]`, for a graph.

    A `tf.function` that is called with another shape or type keeps its lock, so later
    calls by other threads wait for ever.

    Args:
        texts: A tensor of that shape, or what `given_texts.each` takes.

    Raises:
        TypeError: If a text is no string.
    """
    is_strings = isinstance(texts, tf.Tensor) and texts.dtype == tf.string
    if is_strings and texts.shape.rank in (1, None):
        return texts
    return tf.constant(given_texts.as_list(texts), tf.string)


def clean(text: tf.Tensor, markers: Sequence[str] = ()) -> tf.Tensor:
    """Remove white space at the ends of texts, and all of texts without anything else.

    Args:
        text: string `[batch]`, UTF-8.
        markers: What may stand before a text and is no part of it, such as ">>de<<" and
            "<news>". It has one space after it in the result. A text of nothing else
            becomes "".

    Returns:
        string `[batch]`.
    """
    text = tf.strings.regex_replace(text, OUTER_SPACES, "")
    if not markers:
        return text
    marker = f"(?:{'|'.join(map(re.escape, markers))})"
    text = tf.strings.regex_replace(text, f"^(?:{marker}|[{BLANK_CLASS}])+$", "")
    for _ in range(_MOST_MARKERS):
        text = tf.strings.regex_replace(
            text, f"^((?:{marker} )*{marker})[{SPACES}]+", r"\1 "
        )
    return text


def num_words_before(text: tf.Tensor, cleaned: tf.Tensor) -> tf.Tensor:
    """Return how many more words texts have before what `clean` left of them.

    Words are what U+0020 separates. A marker that touches the text is one word with it,
    and two in the cleaned text: -1.

    Args:
        text: string `[batch]`, UTF-8.
        cleaned: string `[batch]`: `clean` of it.

    Returns:
        int32 `[batch]`.
    """
    body = tf.strings.regex_replace(text, f"[{SPACES}]+$", "")
    return _num_words(body) - _num_words(cleaned)


def _num_words(text):
    words = tf.strings.regex_replace(text, "[^ ]+", "x")
    return tf.strings.length(tf.strings.regex_replace(words, " +", ""))
