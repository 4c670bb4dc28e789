"""The page itself, and what is known about the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slalom_xai.serve import schema
from slalom_xai.serve.service import Problem, Service
from slalom_xai.serve.supervisor import ModelState

# What the server counts, in the form that Prometheus reads.


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


# The page itself, and what is known about the server.


_STATIC = {
    "app.js": "text/javascript; charset=utf-8",
    "app.css": "text/css; charset=utf-8",
}
_EXAMPLE = (
    "I had low hopes for this film after the trailer, and for the first half hour they were met: "
    "the jokes are tired and the plot is dull. Then the two leads finally share a scene, and "
    "suddenly everything works. Their performances are wonderful, warm and funny, and the last "
    "act is truly moving. Not a perfect movie, but I left the cinema with a smile."
)


def router(service: Service) -> APIRouter:
    """The addresses."""
    routes = APIRouter(tags=["server"], responses=schema.problems())

    @routes.get("/", include_in_schema=False)
    def page() -> Response:
        return Response(_static("index.html"), media_type="text/html; charset=utf-8")

    @routes.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in _STATIC:
            raise Problem(404, "there is no such file")
        return Response(_static(name), media_type=_STATIC[name])

    @routes.get("/healthz")
    async def health() -> schema.Health:
        """Whether the server answers."""
        return schema.Health(status="ok")

    @routes.get("/metrics", responses=schema.answers("text/plain"), response_class=Response)
    def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(measured(service), media_type="text/plain; charset=utf-8")

    @routes.get("/api/models")
    def models() -> schema.Models:
        """The models that can be asked, with what waits for each."""
        found = [
            _model(model, service.jobs.open_counts(model.known))
            for model in service.supervisor.models.values()
        ]
        return schema.Models(models=found)

    @routes.get("/api/methods")
    def methods() -> schema.Methods:
        """The ways to explain; empty until a model is ready."""
        for model in service.supervisor.models.values():
            if "methods" in model.facts:
                known = model.facts["methods"].items()
                listed = [schema.Method(name=name, description=line) for name, line in known]
                return schema.Methods(methods=listed)
        return schema.Methods(methods=[])

    @routes.get("/api/example")
    def example() -> schema.Example:
        """A text to begin with."""
        return schema.Example(text=_EXAMPLE)

    return routes


def _static(name: str) -> bytes:
    return (files("slalom_xai.serve") / "static" / name).read_bytes()


def _model(model: ModelState, jobs: dict[str, int]) -> schema.Model:
    facts = model.facts
    return schema.Model(
        name=model.name,
        state=model.state,
        message=model.message,
        kind=facts.get("kind"),
        labels=facts.get("labels", []),
        limit=facts.get("limit"),
        fingerprint=facts.get("fingerprint"),
        queued=jobs.get("queued", 0),
        running=jobs.get("running", 0),
    )
