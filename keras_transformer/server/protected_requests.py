"""What the translations of a request must have, and answers that have it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException

from keras_transformer import wording
from keras_transformer.documents.protection import (
    KINDS,
    ProtectedText,
    Protection,
    Term,
    terms_of_lines,
)
from keras_transformer.server.batching_queue import BatchingQueue
from keras_transformer.server.http_json import without_surrogates
from keras_transformer.server.served_model import ServedModel
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.translation.pipeline import Translation, values_of

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
            model.placeholders, (*model.language_tokens, *model.markers)
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


async def ask_model(
    queue: BatchingQueue,
    texts: Sequence[ProtectedText],
    signature_of: Callable[[ProtectedText], str],
    more: Mapping[str, Any] | None = None,
    read: Callable[[ProtectedText, Mapping[str, Any]], Any] | None = None,
) -> list[Any]:
    """Return the answers to texts.

    Args:
        queue: Runs the model.
        texts: The texts.
        signature_of: Returns the signature that answers a text.
        more: Further inputs of each text.
        read: Makes an answer of a text and its outputs by name; None: a `Translation`.
    """
    read = read or (lambda text, outputs: Translation.of(text.text, outputs))
    names = [*map(signature_of, texts)]
    found = {}
    # One after the other: the queue has room for `max_texts`.
    for name in dict.fromkeys(names):
        rows = [
            {"text": text.text.encode(), **(more or {})}
            for text, each in zip(texts, names, strict=True)
            if each == name
        ]
        found[name] = iter(await queue.ask(name, rows))
    # In a thread: the attention of long texts takes seconds.
    return await asyncio.to_thread(
        lambda: [
            read(text, values_of(next(found[name])))
            for text, name in zip(texts, names, strict=True)
        ]
    )
