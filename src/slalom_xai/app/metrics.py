"""What the server counts, in the form that Prometheus reads."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slalom_xai.app.service import Service


def measured(service: Service) -> bytes:
    """All numbers, one in a line."""
    registry = CollectorRegistry()
    registry.register(_Counts(service))
    return generate_latest(registry)


class _Counts(Collector):
    """Reads the numbers where they are kept, at the moment they are asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """The numbers by name."""
        service, counts = self._service, self._service.counts
        jobs = GaugeMetricFamily(
            "slalom_jobs", "Jobs by model and state.", labels=("model", "state")
        )
        for labels, count in sorted(service.jobs.counts().items()):
            jobs.add_metric(labels, count)
        ready = GaugeMetricFamily(
            "slalom_model_ready", "Whether a model can be asked.", labels=("model",)
        )
        for model in service.supervisor.models.values():
            ready.add_metric((model.name,), model.state == "ready")
        yield from (jobs, ready)
        for name, meaning, number in (
            ("explanations", "Results in the store.", service.results.count()),
            ("watchers", "Connections that follow a job.", service.watchers),
            ("uptime_seconds", "Seconds since the start.", time.time() - service.started),
        ):
            yield GaugeMetricFamily(f"slalom_{name}", meaning, number)
        for name, meaning, number in (
            ("known", "Questions that the store could answer.", counts["answered from the store"]),
            ("refused", "Jobs refused because too many waited.", counts["refused"]),
            (
                "worker_restarts",
                "Workers that ended and were replaced.",
                service.supervisor.restarts,
            ),
        ):
            yield CounterMetricFamily(f"slalom_{name}", meaning, number)
