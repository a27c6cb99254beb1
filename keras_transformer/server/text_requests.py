"""What the routes for texts share: reading requests, limits, and asking the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException

from keras_transformer import language_tokens
from keras_transformer.documents.protection import (
    KINDS,
    ProtectedText,
    Protection,
    Term,
    terms_of_lines,
)
from keras_transformer.documents.text import Document
from keras_transformer.server.batching_queue import BatchingQueue
from keras_transformer.server.http_json import (
    check_at_most,
    check_num_texts,
    without_surrogates,
)
from keras_transformer.server.served_model import ServedModel
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.translation import pipeline

# Fields of a request.
FIELDS = ("protect", "glossary")
# Characters of a line of a glossary, which bounds the memory of the terms.
_LONGEST_LINE = 200


class TextRequests:
    """Reads what requests want of a model of texts, and asks it.

    Args:
        model: A model with the signature `serving_default`.
        queue: Runs the model.
        config: Has the limits of requests.
        default: What every request protects. Its `protect` replaces these kinds, and
            its `glossary` adds terms, which come before these.

    Raises:
        ValueError: If the model cannot protect the default.
    """

    def __init__(
        self,
        model: ServedModel,
        queue: BatchingQueue,
        config: ServerConfig,
        default: Protection,
    ):
        self.model, self.config = model, config
        self.pair = (model.source_language, model.target_language)
        self._queue = queue
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

    def default_pair(self, targets: Sequence[str]) -> tuple[str, str]:
        """Return the languages that a page shows at first.

        Args:
            targets: Codes that its reader may choose from; none: the model's own.
        """
        source, target = self.pair
        if targets and target not in targets:
            target = targets[0]
        return source, target

    def check_tokens(self, sentences: Sequence[str], known: str) -> None:
        """Raise HTTPException if a sentence begins with an unknown language token.

        Args:
            sentences: The sentences.
            known: Ends the message: where the languages are.
        """
        for sentence in sentences:
            if token := language_tokens.unknown(sentence, self.model.language_tokens):
                raise HTTPException(
                    400, f"{token} is not a language of the model{known}"
                )

    async def options(
        self, given: Mapping[str, Any], language: str = "", **options: Any
    ) -> pipeline.Options:
        """Return how to translate the texts of a request.

        Args:
            given: Same as in `protection`.
            language: Code of the language of the texts; "": the model's.
            **options: Further fields of `pipeline.Options`.

        Raises:
            HTTPException: As in `protection`.
        """
        return pipeline.Options(
            await self.protection(given),
            self.model.language_tokens,
            language=language or self.model.source_language,
            limit=self.model.max_input_length,
            **options,
        )

    async def segment(
        self, texts: Sequence[str], options: pipeline.Options, token: str, known: str
    ) -> tuple[list[Document], list[str]]:
        """Return the documents of texts, and the sentences of all.

        Args:
            texts: The texts.
            options: From `options`.
            token: The language token of sentences that give none; "": none.
            known: Same as in `check_tokens`.

        Raises:
            HTTPException: If there are too many sentences, or one begins with an
                unknown language token.
        """
        # In a thread: a long page takes seconds.
        documents = await asyncio.to_thread(
            lambda: [pipeline.segment(text, options, token) for text in texts]
        )
        sentences = [each for document in documents for each in document.texts()]
        self.check_tokens(sentences, known)
        check_num_texts(len(sentences), self.config)
        return documents, sentences

    async def protection(self, given: Mapping[str, Any]) -> Protection:
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
        check_at_most(self.config.max_terms, "term", count, "The glossary of a request")
        for number, line in enumerate(lines, start=1):
            what = f"glossary line {number}"
            size = len(line.rstrip("\t"))
            check_at_most(_LONGEST_LINE, "character", size, what)
        try:
            return terms_of_lines(map(without_surrogates, lines), "glossary")
        except ValueError as error:
            raise HTTPException(400, str(error)) from error

    async def ask(
        self,
        texts: Sequence[ProtectedText],
        signature_of: Callable[[ProtectedText], str],
        more: Mapping[str, Any] | None = None,
        read: Callable[[ProtectedText, Mapping[str, Any]], Any] | None = None,
    ) -> list[Any]:
        """Return the answers to texts.

        Args:
            texts: The texts.
            signature_of: Returns the signature that answers a text.
            more: Further inputs of each text.
            read: Makes an answer of a text and its outputs by name; None: a
                `Translation`.
        """
        read = read or (lambda text, row: pipeline.Translation.of(text.text, row))
        names = [*map(signature_of, texts)]
        found = {}
        # One after the other: the queue has room for `max_texts`.
        for name in dict.fromkeys(names):
            rows = [
                {"text": text.text.encode(), **(more or {})}
                for text, each in zip(texts, names, strict=True)
                if each == name
            ]
            found[name] = iter(await self._queue.ask(name, rows))
        # In a thread: the attention of long texts takes seconds.
        return await asyncio.to_thread(
            lambda: [
                read(text, pipeline.values_of(next(found[name])))
                for text, name in zip(texts, names, strict=True)
            ]
        )


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
        # With tabs, so that " = " is a part of the term.
        yield "\t".join(columns)
