"""The page at /, to try a model in a browser."""

from __future__ import annotations

import asyncio
import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import fastapi
import numpy as np
from starlette.exceptions import HTTPException

from keras_transformer import language_tokens
from keras_transformer.documents import text
from keras_transformer.documents.protection import ProtectedText
from keras_transformer.inference.word_alignment import arguments_of, word_weights
from keras_transformer.server.batching_queue import BatchingQueue
from keras_transformer.server.http_json import (
    check_length,
    check_num_texts,
    json_response,
    read_object,
    unless_client_leaves,
    without_surrogates,
)
from keras_transformer.server.protected_requests import (
    ProtectedRequests,
    alignment,
    input_rows,
    protect_all,
    values_of,
)
from keras_transformer.server.served_model import ServedModel
from keras_transformer.server.server_config import ServerConfig

_FOLDER = pathlib.Path(__file__).parent / "page"
_FILES = {
    "/": ("index.html", "text/html"),
    "/page/page.css": ("page.css", "text/css"),
    "/page/page.js": ("page.js", "text/javascript"),
}
# The page loads its own files only, and is not shown inside others.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Page:
    """The page and what it asks.

    Args:
        model: A model with the signature `serving_default`.
        queue: Runs the model.
        config: Name of the model and limits.
        requests: Tells what a request protects.
    """

    def __init__(
        self,
        model: ServedModel,
        queue: BatchingQueue,
        config: ServerConfig,
        requests: ProtectedRequests,
    ):
        self._signatures = tuple(model.signatures)
        self._pair = (model.source_language, model.target_language)
        self._model = model
        self._tokens = model.language_tokens
        # Languages that a person may choose; others are those of the signatures.
        self._targets = model.languages if len(self._tokens) > 1 else ()
        # Long sentences are divided before: those that are cut are not asked again.
        self._limit = model.max_input_length and model.max_input_length // 4
        self._queue = queue
        self._config = config
        self._requests = requests

    def add_routes(self, app: fastapi.FastAPI) -> None:
        """Add the routes to an app."""

        def add(path, function, method):
            app.add_api_route(path, function, methods=[method], include_in_schema=False)

        for path, (name, media_type) in _FILES.items():
            add(path, functools.partial(_file, name, media_type), "GET")
        add("/page/settings", self.settings, "GET")
        add("/page/translate", self.translate, "POST")
        if "nbest" in self._signatures:
            add("/page/alternatives", self.alternatives, "POST")
        if "prefix" in self._signatures:
            add("/page/continuation", self.continuation, "POST")

    async def settings(self, request: fastapi.Request) -> fastapi.Response:
        """Return what the page must know."""
        source, target = self._pair
        if self._targets and target not in self._targets:
            target = self._targets[0]
        return json_response(
            {
                "signatures": self._signatures,
                "source": source,
                "target": target,
                "targets": self._targets,
                "maxCharacters": self._config.max_characters,
                "canProtect": self._requests.can_protect,
                "protect": self._requests.default.kinds,
                "hasTerms": bool(self._requests.default.terms),
            }
        )

    async def translate(self, request: fastapi.Request) -> fastapi.Response:
        """Translate the sentences of a text, and tell where words come from."""
        given = await read_object(request)
        source = self._checked(given, "text")
        token = self._token(given)
        protection = await self._requests.read(given)
        document = text.segment(
            source,
            self._pair[0] or text.DEFAULT_LANGUAGE,
            self._limit,
            self._tokens,
            token,
        )
        for sentence in document.texts():
            self._check_token(sentence)
        check_num_texts(len(document.texts()), self._config)
        protected = await protect_all(protection, document.texts())
        name = "align" if "align" in self._signatures else "serving_default"
        rows = input_rows([each.text for each in protected])
        answers = await self._ask(request, name, rows) if rows else []
        # In a thread: the attention of long texts takes seconds.
        sentences = await asyncio.to_thread(
            lambda: [*map(self._sentence, protected, answers)]
        )
        return json_response(
            {
                "around": document.around,
                "sentences": sentences,
                "canChange": not protection.needs_alignment,
            }
        )

    async def alternatives(self, request: fastapi.Request) -> fastapi.Response:
        """Return translations of a sentence, best first."""
        protected, _ = await self._read_sentence(request)
        rows = input_rows([protected.text])
        (answer,) = await self._ask(request, "nbest", rows)
        found = [protected.restore(each) for each in answer["translations"] if each]
        return json_response({"translations": found})

    async def continuation(self, request: fastapi.Request) -> fastapi.Response:
        """Return the translation of a sentence that begins with a prefix."""
        protected, given = await self._read_sentence(request)
        prefix = self._checked(given, "prefix")
        # A text or a glossary may have the name of a placeholder, too.
        expected = protected.restore(protected.text)
        for symbol in sorted(self._requests.default.placeholders):
            if prefix.count(symbol) > expected.count(symbol):
                raise HTTPException(
                    400,
                    f"The beginning must not have {symbol}, the name of a placeholder",
                )
        (row,) = input_rows([protected.text])
        row["prefix"] = protected.hide(prefix).encode()
        (answer,) = await self._ask(request, "prefix", [row])
        return json_response({"translation": protected.restore(answer["translation"])})

    def _checked(self, given: Mapping[str, Any], name: str) -> str:
        """Return a field of a request if it is a text of allowed length."""
        value = given.get(name)
        if not isinstance(value, str):
            raise HTTPException(400, f"{name} must be a string")
        check_length(value, self._config)
        return without_surrogates(value)

    async def _read_sentence(
        self, request: fastapi.Request
    ) -> tuple[ProtectedText, dict[str, Any]]:
        """Return a protected sentence, and all fields of the request."""
        given = await read_object(request)
        sentence = self._checked(given, "text")
        protection = await self._requests.read(given)
        if protection.needs_alignment:
            raise HTTPException(
                400,
                "Other translations with protect or glossary need a model with "
                "placeholders",
            )
        self._check_token(sentence)
        told = text.told([sentence], [self._token(given)])
        return (*await protect_all(protection, told), given)

    def _token(self, given: Mapping[str, Any]) -> str:
        """Return the token of the language that a request wants, "" for none."""
        if not self._targets:
            return ""
        target = given.get("target") or self._pair[1]
        if target not in self._targets:
            raise HTTPException(
                400,
                f"target must be one of {', '.join(self._targets)}. Received: "
                f"{target!r:.40}",
            )
        return language_tokens.token_of(target)

    def _check_token(self, sentence: str) -> None:
        """Raise HTTPException if a sentence begins with an unknown language token."""
        if token := language_tokens.unknown(sentence, self._tokens):
            raise HTTPException(
                400,
                f"{token} is not a language of the model: {', '.join(self._targets)}",
            )

    def _sentence(
        self, protected: ProtectedText, answer: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return what the page shows of a sentence: words, and where they come from."""
        aligned = alignment(protected, answer)
        words = protected.restore_words(answer["translation"], aligned)
        token, sentence = language_tokens.divide(protected.original, self._tokens)
        # The token is a word of its own.
        source_words = protected.source_words()[bool(token) :]
        weights = _weights(protected, answer, num_left_out=bool(token))
        if weights is not None and weights.shape != (len(words), len(source_words)):
            weights = None  # a word has no piece
        kept = [number for number, word in enumerate(words) if word]
        return {
            "text": sentence,
            "target": language_tokens.code_of(token) or "",
            "sourceWords": source_words,
            "words": [words[number] for number in kept],
            "weights": None if weights is None else weights[kept].tolist(),
            "isCut": bool(answer.get("truncated")),
        }

    async def _ask(self, request, name: str, rows: list) -> list[dict[str, Any]]:
        """Return the outputs of a signature by name for each row."""
        work = self._queue.ask(name, rows)
        return [*map(values_of, await unless_client_leaves(request, work))]


def _weights(
    protected: ProtectedText, answer: Mapping[str, Any], num_left_out: int
) -> np.ndarray | None:
    """Return the share of each source word in each word, None if it is unknown.

    The first words of the source may be left out.
    """
    if "attention" not in answer:
        return None
    weights = word_weights(*arguments_of(protected.text, answer))
    if weights is None:
        return None
    weights = weights[:, num_left_out:]
    totals = weights.sum(axis=1, keepdims=True)
    return weights / np.where(totals, totals, 1)


def _file(name: str, media_type: str) -> fastapi.Response:
    content = (_FOLDER / name).read_bytes()
    return fastapi.Response(content, headers=_HEADERS, media_type=media_type)
