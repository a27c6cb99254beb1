"""What the translations of a request must have, and answers that have it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

from keras_transformer import wording
from keras_transformer.documents.protection import (
    KINDS,
    ProtectedText,
    Protection,
    Term,
    terms_of_lines,
)
from keras_transformer.inference.word_alignment import arguments_of, word_alignment
from keras_transformer.server.http_json import as_lists, without_surrogates
from keras_transformer.server.served_model import ServedModel
from keras_transformer.server.server_config import ServerConfig

# Fields of a request.
FIELDS = ("protect", "glossary")
# Characters of a line of a glossary, which bounds the memory of the terms.
_LONGEST_LINE = 200


class ProtectedRequests:
    """Reads what requests protect.

    Args:
        model: The model.
        config: Has the limits of requests.
        default: What every request protects. Its `protect` replaces these kinds, and
            its `glossary` adds terms, which come before these.

    Raises:
        ValueError: If the model cannot protect the default.
    """

    def __init__(self, model: ServedModel, config: ServerConfig, default: Protection):
        self._config = config
        self.default = default.with_placeholders(
            model.placeholders, model.language_tokens
        )
        self.can_protect = bool(model.placeholders) or "align" in model.signatures
        if not (self.default.is_empty or self.can_protect):
            raise ValueError(
                "--protect and --glossary need a model with placeholders or the "
                "signature align. Export it again with --signatures=serving_default,"
                "align, or see bin/prepare_data.py --placeholders."
            )

    async def read(self, given: Mapping[str, Any]) -> Protection:
        """Return what a request protects.

        Args:
            given: Its fields; `FIELDS` may be absent or None.

        Raises:
            HTTPException: If a field is wrong, or the model cannot protect.
        """
        kinds = self._kinds(given.get("protect"))
        terms = self._terms(given.get("glossary"))
        if kinds == self.default.kinds and not terms:
            return self.default
        own = {term.source.casefold() for term in terms}
        others = (
            term for term in self.default.terms if term.source.casefold() not in own
        )
        # In a thread: a thousand terms take a while.
        protection = await asyncio.to_thread(
            Protection,
            kinds,
            (*others, *terms),
            self.default.placeholders,
            self.default.tokens,
        )
        if not (protection.is_empty or self.can_protect):
            raise HTTPException(
                400,
                "protect and glossary need a model with placeholders or the signature "
                "align, which this one lacks",
            )
        return protection

    def _kinds(self, given: Any) -> tuple[str, ...]:
        if given is None:
            return self.default.kinds
        if isinstance(given, str):
            given = [kind.strip() for kind in given.split(",") if kind.strip()]
        if not isinstance(given, list) or not all(kind in KINDS for kind in given):
            raise HTTPException(
                400,
                f"protect must be a list of {', '.join(KINDS)}. Received: "
                f"{given!r:.60}",
            )
        return tuple(kind for kind in KINDS if kind in given)

    def _terms(self, given: Any) -> list[Term]:
        if given is None:
            return []
        if isinstance(given, str):
            lines = given.removeprefix("\ufeff").split("\n")
        elif isinstance(given, list):
            lines = [*_lines(given)]
        else:
            raise HTTPException(
                400, "glossary must be a list of objects or the text of a glossary file"
            )
        count = sum(bool(line.strip()) for line in lines)
        if count > self._config.max_terms:
            limit = wording.count(self._config.max_terms, "term")
            raise HTTPException(
                413, f"The glossary of a request may have {limit}. Received: {count:,}."
            )
        for number, line in enumerate(lines, start=1):
            if len(line) > _LONGEST_LINE:
                raise HTTPException(
                    413,
                    f"glossary line {number} may have {_LONGEST_LINE} characters. "
                    f"Received: {len(line):,}.",
                )
        try:
            return terms_of_lines(map(without_surrogates, lines), "glossary")
        except ValueError as error:
            raise HTTPException(400, str(error)) from error


def _lines(glossary: list) -> Iterator[str]:
    """Yield the terms of a glossary in JSON as the lines of a file."""
    for number, each in enumerate(glossary, start=1):
        term = each if isinstance(each, dict) else {}
        columns = [term.get(name) for name in ("source", "target", "case")]
        columns = ["" if column is None else column for column in columns]
        if not all(isinstance(column, str) for column in columns) or not columns[0]:
            raise HTTPException(
                400,
                f"glossary line {number} must be an object with source, and perhaps "
                f"target and case, as strings. Received: {each!r:.60}",
            )
        yield "\t".join(columns).rstrip("\t")


async def protect_all(
    protection: Protection, texts: Sequence[str]
) -> list[ProtectedText]:
    """Protect texts without holding up other requests."""
    if protection.is_empty:
        return [protection.protect(text) for text in texts]
    return await asyncio.to_thread(lambda: [*map(protection.protect, texts)])


def input_rows(texts: Sequence[str]) -> list[dict[str, bytes]]:
    """Return texts as the queue takes them."""
    return [{"text": text.encode()} for text in texts]


def values_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs for a text as Python values, and attention as an array."""
    return {
        name: value if np.ndim(value) > 1 else as_lists(value)
        for name, value in row.items()
    }


def alignment(protected: ProtectedText, row: Mapping[str, Any]) -> tuple:
    """Return the alignment of words of an answer, () if it has no attention."""
    if "attention" not in row:
        return ()
    return word_alignment(*arguments_of(protected.text, row))
