"""Language tokens: a text such as ">>de<< A dog." tells its target language.

The convention of OPUS-MT, for models trained here and imported ones. The pieces of this
form in a vocabulary are the languages that its model writes. Imports no TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

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


def leading(text: str) -> str:
    """Return what a text begins with if a model may have it as a token, else ""."""
    found = _LEADING.match(text)
    return "" if found is None else found[1]


def unknown(text: str, tokens: Collection[str]) -> str:
    """Return the token that a text begins with if the model does not have it, else "".

    Without tokens a model reads them as text.
    """
    found = _LIKELY.match(text) if tokens else None
    return "" if found is None or found[1] in tokens else found[1]


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
    """Reads texts for a model, and says once if they do not tell it their language.

    Args:
        tokens: Those of the model; a single one need not be told.
        default: The language of texts that tell none; None: any.
        remedy: What to do if a text tells none.
    """

    def __init__(self, tokens: Collection[str], default: str | None, remedy: str):
        self._tokens = tokens
        self._codes = ", ".join(filter(None, map(code_of, tokens)))
        self._remedy = remedy
        self._knows_unknown = not tokens
        self._knows_untold = len(tokens) < 2 or default is not None

    def problems(self, number: int, text: str) -> Iterator[str]:
        """Yield what is wrong with a text, in one line, if it was not said before.

        Args:
            number: Of its line, from 1.
            text: What the model will read.
        """
        place = "the first line" if number == 1 else f"line {number:,}"
        if token := unknown(text, self._tokens):
            if not self._knows_unknown:
                yield (
                    f"{place[0].upper()}{place[1:]} begins with {token}, which is none "
                    f"of the model's languages ({self._codes}): it is not translated."
                )
            self._knows_unknown = True
            return
        token, rest = divide(text, self._tokens)
        if not (token or self._knows_untold) and rest.strip():
            self._knows_untold = True
            yield (
                f"The model writes several languages ({self._codes}), and {place} does "
                f"not begin with one, such as '{min(self._tokens)}': {self._remedy}."
            )
