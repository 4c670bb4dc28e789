"""What the server counts, in the form that Prometheus reads."""

from __future__ import annotations

import time

from slalom_xai.app.service import Service


def measured(service: Service) -> str:
    """All numbers, one in a line."""
    jobs = {
        f'model="{_escaped(model)}",state="{state}"': count
        for (model, state), count in sorted(service.jobs.counts().items())
    }
    ready = {
        f'model="{_escaped(model.name)}"': int(model.state == "ready")
        for model in service.supervisor.models.values()
    }
    lines = [
        *_metric("slalom_jobs", "gauge", "Jobs by model and state.", jobs),
        *_metric("slalom_model_ready", "gauge", "Whether a model can be asked.", ready),
    ]
    plain = {
        ("slalom_explanations", "gauge", "Results in the store."): service.results.count(),
        ("slalom_watchers", "gauge", "Connections that follow a job."): service.watchers,
        ("slalom_uptime_seconds", "gauge", "Seconds since the start."): round(
            time.time() - service.started, 1
        ),
        ("slalom_known_total", "counter", "Questions that the store could answer."): (
            service.counts["answered from the store"]
        ),
        ("slalom_refused_total", "counter", "Jobs refused because too many waited."): (
            service.counts["refused"]
        ),
        ("slalom_worker_restarts_total", "counter", "Workers that ended and were replaced."): (
            service.supervisor.restarts
        ),
    }
    for (name, kind, meaning), number in plain.items():
        lines += _metric(name, kind, meaning, {"": number})
    return "\n".join(lines) + "\n"


def _metric(
    name: str, kind: str, meaning: str, numbers: dict[str, int] | dict[str, float]
) -> list[str]:
    lines = [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
    for labels, number in numbers.items():
        shown = f"{{{labels}}}" if labels else ""
        lines.append(f"{name}{shown} {number}")
    return lines


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
