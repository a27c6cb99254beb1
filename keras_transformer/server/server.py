"""The server of one machine: an app with the routes, and running it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import time

import fastapi
import uvicorn
from absl import logging
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

import keras_transformer
from keras_transformer.documents.protection import Protection
from keras_transformer.server.batching_queue import (
    BatchingQueue,
    ModelError,
    QueueFullError,
)
from keras_transformer.server.connections import (
    ACCEPTED_AT_ONCE,
    Server,
    protocol_of,
    timeout_message,
)
from keras_transformer.server.http_json import error_response
from keras_transformer.server.libre_translate import LibreTranslate
from keras_transformer.server.metrics import Metrics
from keras_transformer.server.page_routes import Page
from keras_transformer.server.served_model import ServedModel
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.server.text_requests import TextRequests
from keras_transformer.server.tf_serving_rest import TfServingRest


def make_app(
    model: ServedModel, config: ServerConfig, protection: Protection | None = None
) -> fastapi.FastAPI:
    """Return the app that serves a model.

    Args:
        model: The model.
        config: Name of the model, batches and limits.
        protection: What translations of LibreTranslate's routes and of the page must
            have; None: what a request asks for.

    Raises:
        ValueError: If the model cannot protect it.
    """
    is_translator = "serving_default" in model.signatures
    protection = protection or Protection()
    if not (protection.is_empty or is_translator):
        raise ValueError(
            "--protect and --glossary need a model with the signature serving_default."
        )
    metrics = Metrics(lambda: queue.num_queued, model.num_programs)
    queue = BatchingQueue(
        model.run,
        max_batch_size=config.max_batch_size,
        batch_timeout_seconds=config.batch_timeout_ms / 1000,
        max_queued=config.max_queued_texts,
        num_threads=config.num_batch_threads,
        on_batch=metrics.on_batch,
    )

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with queue:
            yield

    app = fastapi.FastAPI(
        title="keras_transformer",
        version=keras_transformer.__version__,
        openapi_url="/spec",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    TfServingRest(model, queue, config).add_routes(app)
    if is_translator:
        requests = TextRequests(model, queue, config, protection)
        LibreTranslate(requests).add_routes(app)
        Page(requests).add_routes(app)
    for path in ("/metrics", "/monitoring/prometheus/metrics"):
        app.add_api_route(path, lambda: _metrics_response(metrics))
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(QueueFullError, _on_full_queue)
    app.add_exception_handler(ModelError, _on_model_error)
    app.add_middleware(_Guard, metrics=metrics, config=config)
    if config.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.allowed_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=("Retry-After",),
        )
    return app


def bind(host: str, port: int) -> socket.socket:
    """Return a socket for `serve`, which refuses connections until then.

    Raises:
        OSError: If the address cannot be used.
    """
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # Told that it is TCP, asyncio sends short answers without delay.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise OSError(
            f"Cannot listen on port {port} of {host}: {error.strerror}. Give another "
            "--port or --host."
        ) from error
    return bound


def serve(app: fastapi.FastAPI, listener: socket.socket, config: ServerConfig) -> None:
    """Serve until SIGTERM or Ctrl-C, and then finish what was accepted.

    Args:
        app: From `make_app`.
        listener: From `bind`.
        config: Has the time limits.
    """
    server = Server(uvicorn_config(app, config))
    # Uvicorn handles the signals while it runs and raises them again at its end.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    server.run([listener])


def uvicorn_config(app: fastapi.FastAPI, config: ServerConfig) -> uvicorn.Config:
    """Return the settings of the HTTP server; it prints nothing."""
    return uvicorn.Config(
        app,
        http=protocol_of(config.receive_seconds),
        backlog=ACCEPTED_AT_ONCE,
        lifespan="on",
        ws="none",
        log_config=None,
        log_level="critical",  # what clients send wrong is not the server's error
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(config.drain_seconds)),
    )


class _Guard:
    """Counts requests, bounds their bodies, and turns any error into an answer.

    Args:
        app: The app inside.
        metrics: Counts.
        config: Has the limits.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, config: ServerConfig):
        self._app = app
        self._metrics = metrics
        self._max_body_bytes = config.max_body_bytes
        self._seconds = config.receive_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, num_bytes, is_whole = time.monotonic(), None, 0, False

        async def bounded_receive():
            nonlocal num_bytes, is_whole
            if is_whole:  # waits until the client leaves
                return await receive()
            try:
                async with asyncio.timeout(start + self._seconds - time.monotonic()):
                    message = await receive()
            except TimeoutError as error:
                raise HTTPException(408, timeout_message(self._seconds)) from error
            is_whole = not message.get("more_body")
            num_bytes += len(message.get("body", b""))
            if num_bytes > self._max_body_bytes:
                raise HTTPException(
                    413, f"The body may have {self._max_body_bytes:,} bytes"
                )
            return message

        async def noted_send(message):
            nonlocal status
            status = message.get("status", status)
            if status in (408, 413) and "headers" in message and not is_whole:
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            async with asyncio.timeout(self._seconds):
                await send(message)

        async def answer(code, message):
            if status is None:
                await error_response(code, message)(scope, receive, noted_send)

        try:
            await self._app(scope, bounded_receive, noted_send)
        except asyncio.CancelledError:  # the time for finishing is over
            await answer(503, "The server stops")
        except ClientDisconnect:  # in the middle of its request
            status = 499
        except Exception as error:
            logging.error("%s %s: %r", scope["method"], scope["path"], error)
            await answer(500, f"Internal error: {type(error).__name__}")
        finally:
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.monotonic() - start
            self._metrics.on_request(route, status or 500, seconds)


def _metrics_response(metrics: Metrics) -> fastapi.Response:
    return fastapi.Response(metrics.text(), media_type=metrics.content_type)


def _on_http_error(request: fastapi.Request, error: HTTPException) -> fastapi.Response:
    message = str(error.detail)
    if message in ("Not Found", "Method Not Allowed"):  # Starlette's
        message = f"{message}: {request.method} {request.url.path}"
    return error_response(error.status_code, message, error.headers)


def _on_full_queue(request: fastapi.Request, error: QueueFullError) -> fastapi.Response:
    return error_response(503, str(error), {"Retry-After": "1"})


def _on_model_error(request: fastapi.Request, error: ModelError) -> fastapi.Response:
    logging.error("The model failed on a batch: %s", error)
    return error_response(500, f"The model failed: {error}")
