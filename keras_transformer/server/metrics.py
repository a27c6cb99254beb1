"""Metrics of the server for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

import prometheus_client as prometheus

_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters of one server.

    Args:
        num_queued: Returns the number of texts that wait.
        num_programs: Returns the number of compiled programs of the search.
    """

    content_type = prometheus.CONTENT_TYPE_LATEST

    def __init__(self, num_queued: Callable[[], int], num_programs: Callable[[], int]):
        self._registry = prometheus.CollectorRegistry()
        self._requests = prometheus.Counter(
            "keras_transformer_requests",
            "Requests that were answered.",
            ["route", "status"],
            registry=self._registry,
        )
        self._seconds = prometheus.Histogram(
            "keras_transformer_request_seconds",
            "Seconds from a request to its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._batch_sizes = prometheus.Histogram(
            "keras_transformer_batch_size",
            "Texts of a batch.",
            ["signature"],
            buckets=_SIZES,
            registry=self._registry,
        )
        queued = prometheus.Gauge(
            "keras_transformer_queued_texts",
            "Texts that wait for a batch.",
            registry=self._registry,
        )
        queued.set_function(num_queued)
        programs = prometheus.Gauge(
            "keras_transformer_search_programs",
            "Programs of the search that are compiled.",
            registry=self._registry,
        )
        programs.set_function(num_programs)

    def on_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def on_batch(self, signature: str, size: int) -> None:
        """Count a batch."""
        self._batch_sizes.labels(signature).observe(size)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return prometheus.generate_latest(self._registry)
