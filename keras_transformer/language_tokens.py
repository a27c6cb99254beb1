"""Language tokens: a text such as ">>de<< A dog." tells its target language.

The convention of OPUS-MT, for models trained here and imported ones. The pieces of this
form in a vocabulary are the languages that its model writes. Imports no TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from keras_transformer import white_space
from keras_transformer.config import SPACE

# These are regular expressions of Python and of RE2.
TOKEN = r">>[^<>\s]+<<"
# A token whose code looks like one of a language, such as ">>de<<" or ">>zh_Hans<<".
LIKELY_TOKEN = r">>[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*<<"
# White space before and after a token.
SPACES = f"[{white_space.SPACES}]*"

_LEADING = re.compile(f"{SPACES}({TOKEN}){SPACES}")
_LIKELY = re.compile(f"{SPACES}({LIKELY_TOKEN})")
_PIECE = re.compile(f"{SPACE}?>>([^<>\\s]+)<<")


def token_of(code: str) -> str:
    """Return the token of a language."""
    return f">>{code}<<"


def code_of(piece: str) -> str | None:
    """Return the language of a piece, marked as after a space or not; None: none."""
    found = _PIECE.fullmatch(piece)
    return found and found[1]


def divide(text: str, tokens: Collection[str]) -> tuple[str, str]:
    """Return the token that a text begins with, and the text after it.

    Args:
        text: Any text.
        tokens: Those of the model.

    Returns:
        "" and the whole text if it begins with none of them.
    """
    found = _LEADING.match(text)
    if found is None or found[1] not in tokens:
        return "", text
    return found[1], text[found.end() :]


def codes_told(
    texts: Iterable[str], tokens: Collection[str], default: str
) -> list[str]:
    """Return the code of the language that each text begins with, or the default.

    Args:
        texts: Any texts.
        tokens: Those of the model.
        default: The language of texts that tell none.
    """
    return [code_of(divide(text, tokens)[0]) or default for text in texts]


def leading(text: str, tokens: Collection[str]) -> str:
    """Return the token that a text begins with, also one that the model lacks, or "".

    Without tokens a model reads them as text.
    """
    found = _LIKELY.match(text) if tokens else None
    return found[1] if found else divide(text, tokens)[0]


def unknown(text: str, tokens: Collection[str]) -> str:
    """Return the token that a text begins with if the model lacks it, or ""."""
    token = leading(text, tokens)
    return "" if token in tokens else token


def untold(text: str, tokens: Collection[str], place: str, remedy: str) -> str:
    """Say in one line that a text does not tell a model which language to write.

    Args:
        text: What the model will read.
        tokens: Those of the model, if it has no default; a single one need not be told.
        place: Where the text is.
        remedy: What to do.

    Returns:
        "" if the text tells its language, if it is blank, or if it names a language
        that the model does not have.
    """
    if len(tokens) < 2 or unknown(text, tokens):
        return ""
    token, rest = divide(text, tokens)
    if token or white_space.is_blank(rest):
        return ""
    return (
        f"The model writes several languages ({_codes(tokens)}), and {place} does not "
        f"begin with one, such as '{min(tokens)}': {remedy}."
    )


def _codes(tokens: Iterable[str]) -> str:
    return ", ".join(filter(None, map(code_of, tokens)))


def check(name: str, code: str | None, languages: Iterable[str]) -> None:
    """Raise unless a model has a language.

    Args:
        name: Name of the argument, for the message.
        code: Code of the language.
        languages: Codes of all languages of the model.

    Raises:
        ValueError: If it has not.
    """
    if code not in languages:
        raise ValueError(
            f"`{name}` must be one of the model's languages "
            f"({', '.join(sorted(languages))}). Received: {code!r}."
        )


class Reader:
    """Reads texts for a model, which they must tell their language.

    Args:
        tokens: Those of the model.
        default: The language of texts that tell none; None: each must tell it.
        remedy: What to do if a text tells none.
    """

    def __init__(self, tokens: Collection[str], default: str | None, remedy: str):
        self._tokens = tokens
        self._has_default = default is not None
        self._remedy = remedy
        self._knows_unknown = False

    def read(self, number: int, text: str) -> str:
        """Say in one line that the model does not have a language, the first time.

        Args:
            number: Of the line of the text, from 1.
            text: What the model will read.

        Returns:
            "" if there is nothing new to say.

        Raises:
            ValueError: If the model writes several languages and the text tells none.
        """
        place = "the first line" if number == 1 else f"line {number:,}"
        if not self._has_default and (
            problem := untold(text, self._tokens, place, self._remedy)
        ):
            raise ValueError(problem)
        token = unknown(text, self._tokens)
        if not token or self._knows_unknown:
            return ""
        self._knows_unknown = True
        return (
            f"{place[0].upper()}{place[1:]} begins with {token}, which is none of the "
            f"model's languages ({_codes(self._tokens)}): it is not translated."
        )
