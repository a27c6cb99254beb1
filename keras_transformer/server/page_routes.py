"""The page at /, to try a model in a browser."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import fastapi
import numpy as np
from starlette.exceptions import HTTPException

from keras_transformer import language_tokens
from keras_transformer.documents.protection import ProtectedText
from keras_transformer.documents.text import told
from keras_transformer.server.http_json import (
    check_length,
    json_response,
    read_object,
    unless_client_leaves,
    without_surrogates,
)
from keras_transformer.server.text_requests import TextRequests
from keras_transformer.translation import pipeline
from keras_transformer.translation.word_alignment import arguments_of, word_weights

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


class _Answer(NamedTuple):
    """The translation of a sentence or of a part of one."""

    text: str
    truncated: bool
    # What the page shows of it.
    sentence: dict[str, Any]


class Page:
    """The page and what it asks.

    Args:
        requests: Reads requests and asks the model.
    """

    def __init__(self, requests: TextRequests):
        self._requests, self._model = requests, requests.model
        self._signatures = tuple(self._model.signatures)
        self._tokens = self._model.language_tokens
        # Languages that a person may choose; others are those of the signatures.
        self._targets = self._model.languages if len(self._tokens) > 1 else ()
        # Ends the error of a language token that the model does not have.
        self._known = f": {', '.join(self._targets)}"

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
        source, target = self._requests.default_pair(self._targets)
        return json_response(
            {
                "signatures": self._signatures,
                "source": source,
                "target": target,
                "targets": self._targets,
                "maxCharacters": self._requests.config.max_characters,
                "canProtect": self._requests.can_protect,
                "protect": self._requests.default.kinds,
                "hasTerms": bool(self._requests.default.terms),
            }
        )

    async def translate(self, request: fastapi.Request) -> fastapi.Response:
        """Translate the sentences of a text, and tell where words come from."""
        given = await read_object(request)
        source, token = self._checked(given, "text"), self._token(given)
        options = await self._requests.options(given, divides=True)
        (document,), texts = await self._requests.segment(
            [source], options, token, self._known
        )
        name = "align" if "align" in self._signatures else "serving_default"
        ask = functools.partial(
            self._requests.ask, signature_of=lambda text: name, read=self._answer
        )
        work = pipeline.run_async(pipeline.in_parts(texts, options), ask)
        found = await unless_client_leaves(request, work)
        parts = []
        for own, after in zip(found, document.around[1:], strict=True):
            parts += [*own[:-1], own[-1]._replace(after=after)]
        spaces = pipeline.spaces_after(parts, [part.answer.text for part in parts])
        return json_response(
            {
                "around": [document.around[0], *(part.after for part in parts)],
                "sentences": [
                    part.answer.sentence | {"after": after}
                    for part, after in zip(parts, spaces, strict=True)
                ],
                "canChange": not options.protection.needs_alignment,
            }
        )

    async def alternatives(self, request: fastapi.Request) -> fastapi.Response:
        """Return translations of a sentence, best first."""
        sentence, options, _ = await self._read_sentence(request)
        ask = functools.partial(self._requests.ask, signature_of=lambda text: "nbest")
        work = pipeline.run_async(pipeline.translate([sentence], options), ask)
        (found,) = await unless_client_leaves(request, work)
        texts = [each.text for each in found.nbest if each.text]
        return json_response({"translations": texts})

    async def continuation(self, request: fastapi.Request) -> fastapi.Response:
        """Return the translation of a sentence that begins with a prefix."""
        sentence, options, given = await self._read_sentence(request)
        prefix = self._checked(given, "prefix")

        async def ask(texts):
            (protected,) = texts
            # A text or a glossary may have the name of a placeholder, too.
            expected = protected.restore(protected.text)
            for symbol in sorted(self._requests.default.placeholders):
                if prefix.count(symbol) > expected.count(symbol):
                    raise HTTPException(
                        400,
                        f"The beginning must not have {symbol}, the name of a "
                        "placeholder",
                    )
            more = {"prefix": protected.hide(prefix).encode()}
            return await self._requests.ask(texts, lambda text: "prefix", more)

        work = pipeline.run_async(pipeline.translate([sentence], options), ask)
        (found,) = await unless_client_leaves(request, work)
        return json_response({"translation": found.text})

    def _checked(self, given: Mapping[str, Any], name: str) -> str:
        """Return a field of a request if it is a text of allowed length."""
        value = given.get(name)
        if not isinstance(value, str):
            raise HTTPException(400, f"{name} must be a string")
        check_length(value, self._requests.config)
        return without_surrogates(value)

    async def _read_sentence(
        self, request: fastapi.Request
    ) -> tuple[str, pipeline.Options, dict[str, Any]]:
        """Return a sentence, how to translate it, and all fields of the request."""
        given = await read_object(request)
        sentence = self._checked(given, "text")
        options = await self._requests.options(given)
        if options.protection.needs_alignment:
            raise HTTPException(
                400,
                "Other translations with protect or glossary need a model with "
                "placeholders",
            )
        self._requests.check_tokens([sentence], self._known)
        (sentence,) = told([sentence], [self._token(given)])
        return sentence, options, given

    def _token(self, given: Mapping[str, Any]) -> str:
        """Return the token of the language that a request wants, "" for none."""
        if not self._targets:
            return ""
        target = given.get("target") or self._model.target_language
        if target not in self._targets:
            raise HTTPException(
                400,
                f"target must be one of {', '.join(self._targets)}. Received: "
                f"{target!r:.40}",
            )
        return language_tokens.token_of(target)

    def _answer(self, protected: ProtectedText, outputs: Mapping[str, Any]) -> _Answer:
        """Return an answer, and the words of a sentence and where they come from."""
        found = pipeline.Translation.of(protected.text, outputs)
        words = protected.restore_words(found.text, found.alignment)
        token, sentence = language_tokens.divide(protected.original, self._tokens)
        # The token is a word of its own.
        source_words = protected.source_words()[bool(token) :]
        weights = _weights(protected, outputs, num_left_out=bool(token))
        if weights is not None and weights.shape != (len(words), len(source_words)):
            weights = None  # a word has no piece
        kept = [number for number, word in enumerate(words) if word]
        shown = {
            "text": sentence,
            "target": language_tokens.code_of(token) or "",
            "sourceWords": source_words,
            "words": [words[number] for number in kept],
            "weights": None if weights is None else weights[kept].tolist(),
            "isCut": found.truncated,
        }
        return _Answer(found.text, found.truncated, shown)


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
