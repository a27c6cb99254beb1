"""LibreTranslate's API: translations of texts with several sentences."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import fastapi
from starlette.exceptions import HTTPException

from keras_transformer.documents import FORMATS, web_page
from keras_transformer.documents.protection import CASES, KINDS, ProtectedText
from keras_transformer.server.form_bodies import read_fields
from keras_transformer.server.http_json import (
    check_at_most,
    check_length,
    check_num_texts,
    json_response,
    read_object,
    unless_client_leaves,
    without_surrogates,
)
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.server.text_requests import FIELDS, TextRequests
from keras_transformer.translation import pipeline

_FIELDS = ("q", "source", "target", "format", "alternatives", *FIELDS)
# Of a language, the beginning of a text and its end.
_EXTRA_TOKENS = 4
# Fields of a form besides its texts.
_MORE_FIELDS = 100
# Elements that the parser of a page may add: about two seconds and 120 MB.
_MOST_REPEATED = 500_000
_EXAMPLE = {"q": "A dog runs.", "source": "en", "target": "de"}
_GLOSSARY_TEXT = {"type": "string", "description": "The text of a glossary file."}
_GLOSSARY_TERMS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["source"],
        "properties": {
            "source": {"type": "string"},
            "target": {"type": "string"},
            "case": {"enum": [*CASES]},
        },
    },
}


def _content(glossary: dict[str, Any]) -> dict[str, Any]:
    """Describe the body of a request to /translate."""
    properties = {
        "q": {
            "oneOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}},
            ]
        },
        "source": {"type": "string"},
        "target": {"type": "string"},
        "format": {"type": "string", "enum": [*FORMATS]},
        "alternatives": {"type": "integer"},
        "protect": {
            "oneOf": [
                {"type": "array", "items": {"enum": [*KINDS]}},
                {"type": "string", "description": f"With commas: {','.join(KINDS)}"},
            ]
        },
        "glossary": glossary,
    }
    return {
        "schema": {
            "type": "object",
            "required": ["q", "source", "target"],
            "properties": properties,
            "example": _EXAMPLE,
        }
    }


_TRANSLATE_BODY = {
    "required": True,
    "content": {
        "application/json": _content({"oneOf": [_GLOSSARY_TERMS, _GLOSSARY_TEXT]}),
        "application/x-www-form-urlencoded": _content(_GLOSSARY_TEXT),
        "multipart/form-data": _content(_GLOSSARY_TEXT),
    },
}


class LibreTranslate:
    """The routes of LibreTranslate that a model of texts can answer.

    A text is translated sentence by sentence, see `documents`. The signature `nbest`
    gives alternatives. A model with language tokens has the one of the target before
    each sentence that the text does not give another. Other models of several languages
    have the signature `multilingual`, which gives no alternatives.

    Args:
        requests: Reads requests and asks the model.
    """

    def __init__(self, requests: TextRequests):
        self._requests, self._config = requests, requests.config
        self._model = model = requests.model
        self._tokens = model.language_tokens
        has_signature = "multilingual" in model.signatures
        is_multilingual = len(self._tokens) > 1 or (not self._tokens and has_signature)
        self._languages = model.languages if is_multilingual else ()
        # Whether that signature takes the languages.
        self._is_asked = bool(self._languages) and not self._tokens

    def add_routes(self, app: fastapi.FastAPI) -> None:
        """Add the routes to an app."""
        app.add_api_route(
            "/translate",
            self.translate,
            methods=["POST"],
            openapi_extra={"requestBody": _TRANSLATE_BODY},
        )
        app.add_api_route("/detect", self.detect, methods=["POST"])
        app.add_api_route("/languages", self.languages)
        app.add_api_route("/frontend/settings", self.frontend_settings)
        app.add_api_route("/health", self.health)

    async def translate(self, request: fastapi.Request) -> fastapi.Response:
        """Translate a text, or a list of texts."""
        given = await _read(request, self._config)
        for name in ("q", "source", "target"):
            if not given[name]:
                raise _invalid(f"missing {name} parameter")
        texts = given["q"] if isinstance(given["q"], list) else [given["q"]]
        if not all(isinstance(text, str) for text in texts):
            raise _invalid("q must be a string or a list of strings")
        check_num_texts(len(texts), self._config)
        check_at_most(
            self._config.max_total_characters,
            "character",
            sum(map(len, texts)),
            "All texts together",
        )
        texts = [*map(without_surrogates, texts)]
        num_alternatives = _number(given["alternatives"])
        text_format = given["format"] or "text"
        if not isinstance(text_format, str) or text_format not in FORMATS:
            raise HTTPException(
                400,
                f"{text_format!s:.20} format is not supported, only "
                f"{' and '.join(FORMATS)}",
            )
        languages = self._checked_languages(given["source"], given["target"])
        options = await self._requests.options(
            given, divides=True, format=text_format, language=languages[0]
        )
        has_alignment = options.protection.needs_alignment
        if has_alignment:
            self._check_alignment(languages)
        if text_format == "html":
            _check_formatting(texts)
        token = self._model.target_token(languages[1]) if self._languages else ""
        documents, sentences = await self._requests.segment(
            texts, options, token, "; see /languages"
        )
        for sentence in sentences:
            check_length(sentence, self._config)
        ask = functools.partial(
            self._ask, languages, has_alignment, num_alternatives > 0
        )
        work = pipeline.run_async(pipeline.translate(sentences, options), ask)
        translations = await unless_client_leaves(request, work)
        # Of each text, best first.
        answers = pipeline.joined(documents, translations)
        best = [answer[0] for answer in answers]
        others = [answer[1 : num_alternatives + 1] for answer in answers]
        is_list = isinstance(given["q"], list)
        result = {"translatedText": best if is_list else best[0]}
        if num_alternatives:
            result["alternatives"] = others if is_list else others[0]
        return json_response(result)

    async def detect(self, request: fastapi.Request) -> fastapi.Response:
        """Refuse: the model cannot tell languages apart."""
        raise HTTPException(501, "This server does not detect languages")

    async def languages(self, request: fastapi.Request) -> fastapi.Response:
        """Return the languages, each with those it can be translated into."""
        return json_response(
            [
                {"code": code, "name": code, "targets": self._targets(code)}
                for code in sorted(self._known_languages())
            ]
        )

    async def frontend_settings(self, request: fastapi.Request) -> fastapi.Response:
        """Return what pages made for LibreTranslate ask."""
        pair = self._requests.default_pair(self._languages)
        source, target = ({"code": code, "name": code} for code in pair)
        return json_response(
            {
                "apiKeys": False,
                "charLimit": self._config.max_characters,
                "filesTranslation": False,
                "frontendTimeout": 500,
                "keyRequired": False,
                "language": {"source": source, "target": target},
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    async def health(self, request: fastapi.Request) -> fastapi.Response:
        """Say that the server runs."""
        return json_response({"status": "ok"})

    def _checked_languages(self, source: Any, target: Any) -> tuple[str, str]:
        """Return the languages if the model translates between them."""
        known = self._known_languages()
        for code in (source, target):
            # A model that is told the target alone takes any source.
            is_any = code is source != "auto" and self._tokens and self._languages
            if not isinstance(code, str) or not (code in known or is_any):
                raise HTTPException(
                    400, f"{code!s:.20} is not supported; see /languages"
                )
        if target not in self._targets(source):
            raise HTTPException(
                400, f"{target} is not available as a target language from {source}"
            )
        return source, target

    def _known_languages(self) -> set[str]:
        """Return the languages that a request may name."""
        source, target = self._requests.pair
        return {source, *(self._languages or [target])} - {""}

    def _targets(self, source: str) -> list[str]:
        """Return the languages that a language can be translated into."""
        # Some multilingual models are not told the source: it may be any.
        if self._languages:
            return [code for code in self._languages if code != source]
        own_source, own_target = self._requests.pair
        return [own_target] if source == own_source else []

    def _check_alignment(self, languages: tuple[str, str]) -> None:
        """Raise HTTPException if words cannot be aligned in these languages."""
        if self._is_asked and languages != self._requests.pair:
            raise HTTPException(
                400,
                f"protect and glossary from {languages[0]} to {languages[1]} need a "
                "model with placeholders",
            )

    async def _ask(
        self,
        languages: tuple[str, str],
        has_alignment: bool,
        has_several: bool,
        texts: Sequence[ProtectedText],
    ) -> list[pipeline.Translation]:
        """Return the translations that the model gives, with others if it can."""
        name, more = "serving_default", {}
        if has_alignment:
            name = "align"
        elif self._is_asked:
            name = "multilingual"
            source, target = (code.encode() for code in languages)
            more = {"source_language": source, "target_language": target}
        # Only the best translation has an alignment. The others may be longer than the
        # model reads, and `nbest` does not say so.
        has_several &= name == "serving_default" and "nbest" in self._model.signatures

        def signature_of(text):
            has_room = has_several and self._surely_fits(text.text)
            return "nbest" if has_room else name

        return await self._requests.ask(texts, signature_of, more)

    def _surely_fits(self, text: str) -> bool:
        """Return whether a text is shorter than the limit with a token per byte."""
        most = self._model.max_input_length
        return most is None or len(text.encode()) + _EXTRA_TOKENS <= most


async def _read(request: fastapi.Request, config: ServerConfig) -> dict[str, Any]:
    """Return the fields of a JSON object or a form, None for missing ones."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        given = await read_object(request)
    elif (await request.body()).lstrip().startswith(b"{"):
        raise _invalid("JSON needs the header Content-Type: application/json")
    else:
        given = await read_fields(request, config.max_texts + _MORE_FIELDS)
        if isinstance(given.get("protect"), list):
            # Each may have commas.
            given["protect"] = ",".join(map(str, given["protect"]))
    return {name: given.get(name) for name in _FIELDS}


def _invalid(reason: str) -> HTTPException:
    return HTTPException(400, f"Invalid request: {reason}")


def _check_formatting(pages: Sequence[str]) -> None:
    """Raise HTTPException if parsing pages would take too long."""
    if sum(map(web_page.num_repeated, pages)) > _MOST_REPEATED:
        raise HTTPException(
            413,
            "Too many tags such as <b> have no end tag, for a page of this length. Add "
            "the end tags, or split the page.",
        )


def _number(value: Any) -> int:
    """Return the number of alternatives."""
    try:
        return max(0, int(value or 0))
    except (TypeError, ValueError, OverflowError) as error:
        raise _invalid("alternatives parameter is not a number") from error
