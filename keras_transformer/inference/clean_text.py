"""Texts as a search reads them, in the graph: without white space at their ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.white_space import BLANK_CLASS, OUTER_SPACES, SPACES

# A language and a tag.
_MOST_MARKERS = 2


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
