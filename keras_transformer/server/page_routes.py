"""The page at /, to try a model in a browser."""

from __future__ import annotations

import functools
import pathlib

import fastapi
from starlette.exceptions import HTTPException

from keras_transformer.documents import text
from keras_transformer.server.http_json import (
    check_length,
    json_response,
    read_object,
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


def add_routes(app: fastapi.FastAPI, model: ServedModel, config: ServerConfig) -> None:
    """Add the page to an app.

    Args:
        app: The app, which also has TF Serving's routes.
        model: A model with the signature `serving_default`.
        config: Name of the model and limits.
    """
    settings = {
        "model": config.model_name,
        "signatures": list(model.signatures),
        "source": model.source_language,
        "target": model.target_language,
        "maxCharacters": config.max_characters,
    }
    for path, (name, media_type) in _FILES.items():
        app.add_api_route(
            path, functools.partial(_file, name, media_type), include_in_schema=False
        )
    app.add_api_route(
        "/page/settings", lambda: json_response(settings), include_in_schema=False
    )
    # The page shows what `align` gives, which does not say that it cut a sentence.
    limit = model.max_input_length and model.max_input_length // 4

    async def sentences(request: fastapi.Request) -> fastapi.Response:
        """Find the sentences of a text."""
        given = (await read_object(request)).get("text")
        if not isinstance(given, str):
            raise HTTPException(400, "text must be a string")
        check_length(given, config)
        language = model.source_language or text.DEFAULT_LANGUAGE
        found = text.segment(given, language, limit)
        return json_response({"around": found.around, "sentences": found.texts()})

    app.add_api_route(
        "/page/sentences", sentences, methods=["POST"], include_in_schema=False
    )


def _file(name: str, media_type: str) -> fastapi.Response:
    content = (_FOLDER / name).read_bytes()
    return fastapi.Response(content, headers=_HEADERS, media_type=media_type)
