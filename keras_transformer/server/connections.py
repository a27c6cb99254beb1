"""Connections that must not last for ever: time limits, and room for new ones."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_transformer.server.http_json import error_response

# Connections that asyncio accepts before it gives them to a protocol.
ACCEPTED_AT_ONCE = 64
_OTHER_DESCRIPTORS = 4 * ACCEPTED_AT_ONCE
_MOST_CONNECTIONS = 4000
# Connections that wait in the kernel until they are accepted.
_LISTEN_BACKLOG = 2048


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 on a connection, which ends if a request takes too long to arrive.

    A request must have arrived `receive_seconds` after its connection was opened or
    after the first byte that follows another request. Beyond `max_connections`, a new
    connection takes the place of the one that has waited longest for its request.
    """

    # Set by `protocol_of`.
    receive_seconds: float
    max_connections: int

    _timer: asyncio.TimerHandle | None = None
    _since: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Make room, and begin to wait for a request."""
        super().connection_made(transport)
        self._wait_for_request()
        if len(self.connections) > self.max_connections:
            oldest = min(
                (each for each in self.connections if each.is_waiting()),
                key=lambda each: each.waits_since(),
                default=self,
            )
            oldest.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time limit."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._timer is None and self._has_answered():
            self._wait_for_request()
        super().data_received(data)
        if not self._has_answered():
            self._stop_timer()  # the app bounds the time of the body

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of this one."""
        super().on_response_complete()
        if self._has_answered() and self.conn.their_state is h11.SEND_BODY:
            self._wait_for_request()

    def is_waiting(self) -> bool:
        """Return whether nothing of the connection is being answered."""
        return self._has_answered() or self.cycle.more_body

    def waits_since(self) -> float:
        """Return when its first request began to arrive; 0: it is idle."""
        return self._since if self._timer or not self._has_answered() else 0.0

    def _has_answered(self) -> bool:
        """Return whether there is no request whose header has come."""
        is_idle = self.cycle is None or self.cycle.response_complete
        return is_idle or self.transport.is_closing()

    def drop(self) -> None:
        """Close the connection at once, whatever is left to read or write."""
        self._stop_timer()
        self.connections.discard(self)
        self.transport.abort()

    def _wait_for_request(self) -> None:
        self._stop_timer()
        self._since = self.loop.time()
        self._timer = self.loop.call_later(self.receive_seconds, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        if self.conn.our_state is h11.IDLE and not self.transport.is_closing():
            self._send_408()
        else:
            self.drop()

    def _send_408(self) -> None:
        """Answer a request whose header has not come."""
        body = error_response(408, timeout_message(self.receive_seconds)).body
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=408, headers=headers, reason=b"Request Timeout"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()


def timeout_message(seconds: float) -> str:
    """Return the error of a request that did not arrive in time."""
    return f"The request did not arrive within {seconds:g} seconds"


def protocol_of(receive_seconds: float) -> type[BoundedProtocol]:
    """Return the protocol with a time limit, for this process's descriptors."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        limit = _MOST_CONNECTIONS + _OTHER_DESCRIPTORS
    room = max(limit - _OTHER_DESCRIPTORS, limit // 2, 1)
    values: dict[str, Any] = {
        "receive_seconds": receive_seconds,
        "max_connections": min(room, _MOST_CONNECTIONS),
    }
    return type("Protocol", (BoundedProtocol,), values)


class Server(uvicorn.Server):
    """Accepts few connections at once, so that descriptors suffice to close others.

    After a signal the process ends in any case: threads that run a model cannot be
    stopped.
    """

    def handle_exit(self, sig, frame) -> None:
        """Begin to finish, and end the process a second after the time for it."""
        super().handle_exit(sig, frame)
        seconds = self.config.timeout_graceful_shutdown + 1
        end = threading.Timer(seconds, os._exit, [0])
        end.daemon = True
        end.start()

    async def startup(self, sockets=None) -> None:
        """Listen, and let more connections wait than are accepted at once."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_LISTEN_BACKLOG)
