"""Settings of the server of one machine. Imports no TensorFlow and no FastAPI."""

from __future__ import annotations

import dataclasses
import re

from keras_transformer.config import check_above_zero, check_at_least

# As browsers send it: in lower case.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[^\s/?#@:A-Z]+)(?::\d+)?")


@dataclasses.dataclass(frozen=True)
class ServerConfig:
    """Where the server listens, how it makes batches and what it refuses.

    Raises:
        ValueError: If a number is outside its range.
    """

    # Name of the model in the address, /v1/models/NAME.
    model_name: str = "translation"
    # Texts per batch. Bounds the memory of an answer.
    max_batch_size: int = dataclasses.field(default=32, metadata={"minimum": 1})
    # Milliseconds that a text waits for others to join its batch; 0: not at all. Texts
    # that come while the model is busy are joined in any case: with 200 users waiting
    # adds nothing, and with 16 it makes answers a quarter slower.
    batch_timeout_ms: float = 0.0
    # Batches that run at the same time. With 200 users on two cores, two answer 410
    # texts a second and one 345.
    num_batch_threads: int = dataclasses.field(default=2, metadata={"minimum": 1})
    # Waiting texts; a request for which there is no room gets status 503.
    max_queued_texts: int = dataclasses.field(default=1000, metadata={"minimum": 1})
    # Texts of one request; more get status 413. In /translate each sentence is a text.
    max_texts: int = dataclasses.field(default=128, metadata={"minimum": 1})
    # Characters of one text; more get status 413.
    max_characters: int = dataclasses.field(default=10_000, metadata={"minimum": 1})
    # Characters of all texts of one request to /translate, with the tags of pages; more
    # get status 413.
    max_total_characters: int = dataclasses.field(
        default=100_000, metadata={"minimum": 1}
    )
    # Terms of the glossary of a request; more get status 413.
    max_terms: int = dataclasses.field(default=1000, metadata={"minimum": 1})
    # Bytes of the body of a request; more get status 413.
    max_body_bytes: int = dataclasses.field(default=2_000_000, metadata={"minimum": 1})
    # Seconds in which a request must arrive, and each part of its answer be read; later
    # ones get status 408.
    receive_seconds: float = 30.0
    # Seconds that accepted requests have to finish after SIGTERM or Ctrl-C.
    drain_seconds: float = 30.0
    # Origins whose pages may use the server, such as https://example.org; "*": all.
    allowed_origins: tuple[str, ...] = dataclasses.field(
        default=(), metadata={"flag": None}
    )

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if "minimum" in field.metadata:
                value, minimum = getattr(self, field.name), field.metadata["minimum"]
                check_at_least(field.name, value, minimum)
        check_above_zero("drain_seconds", self.drain_seconds)
        check_above_zero("receive_seconds", self.receive_seconds)
        for origin in self.allowed_origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    "`allowed_origin` must be *, or a scheme, a host and perhaps a "
                    "port, such as https://example.org, without a path. Received: "
                    f"allowed_origin={origin!r}."
                )
        if not 0 <= self.batch_timeout_ms < 60_000:
            raise ValueError(
                "`batch_timeout_ms` must be at least 0 and less than 60000. Received: "
                f"batch_timeout_ms={self.batch_timeout_ms}."
            )
        if self.max_texts > self.max_queued_texts:
            raise ValueError(
                "`max_texts` must be at most `max_queued_texts`, or a large request "
                f"never fits. Received: max_texts={self.max_texts}, "
                f"max_queued_texts={self.max_queued_texts}."
            )
