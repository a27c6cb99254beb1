"""What is taken as texts: one rule for tokenizers, translators, parsers and clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from keras_transformer.wording import shown


def is_one(texts: Any) -> bool:
    """Return whether a value is one text instead of several.

    One is a string, bytes in UTF-8, or a tensor or an array without axes.
    """
    return isinstance(texts, str | bytes) or getattr(texts, "shape", None) == ()


def as_list(texts: Any, name: str = "texts") -> list[str | bytes]:
    """Return one or several texts as a list, as `each` yields them."""
    return list(each(texts, name))


def each(texts: Any, name: str = "texts") -> Iterator[str | bytes]:
    """Yield texts in order, checked.

    A `tf.function` that is called with another shape in a thread keeps a lock, and all
    later calls wait for ever, so texts are checked before.

    Args:
        texts: One text, or what yields several: a list, an array or a tensor of one
            axis, a dataset, a generator.
        name: Name of the argument, for the message.

    Raises:
        TypeError: If a text is not a string.
        ValueError: If a text has half of a surrogate pair, which has no UTF-8.
    """
    if is_one(texts):
        texts = [texts]
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping):
        raise TypeError(f"`{name}` must be strings. Received: {shown(texts)}.")
    for number, text in enumerate(texts):
        yield _checked(text, f"{name}[{number}]", name)


def as_str(text: Any) -> Any:
    """Return a text as a string, with U+FFFD for invalid UTF-8; others as they are."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _checked(text: Any, place: str, name: str) -> str | bytes:
    """Return one text, without the tensor or array that it may be in."""
    value = text
    if not isinstance(value, str | bytes) and hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if not isinstance(value, str | bytes):
        raise TypeError(f"`{name}` must be strings. Received: {place}={shown(text)}.")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"`{name}` must be strings that UTF-8 can write. Received half of a "
                f"surrogate pair: {place}={shown(text)}."
            ) from error
    return value
