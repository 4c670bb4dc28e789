"""Jobs: ask, follow, cancel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse, Response, StreamingResponse

from slalom_xai.serve import schema
from slalom_xai.serve.service import Problem, Service
from slalom_xai.serve.store.file import as_json
from slalom_xai.serve.store.jobs import ENDED

_LARGEST = 2**62  # an id
_LOOK = 0.2  # seconds between two looks at a job
_STILL = 15.0  # seconds after which a quiet connection gets a sign of life

_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"const": "job"},
        "data": {"type": "string", "description": "the job, as JSON"},
    },
}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": _EVENT}}}
}

JobId = Annotated[int, Path(ge=1, le=_LARGEST)]


def router(service: Service) -> APIRouter:
    """The addresses."""
    routes = APIRouter(tags=["jobs"], responses=schema.problems(409))

    def found(job: int) -> dict[str, Any]:
        known = service.jobs.find(job)
        if known is None:
            raise Problem(404, f"there is no job {job}: see api/jobs")
        return known

    @routes.post(
        "/api/jobs",
        response_model=schema.Job,
        status_code=202,
        responses={200: {"model": schema.Job, "description": "The answer was known."}},
    )
    def ask(request: schema.JobRequest) -> Response:
        """Asks for an explanation; answers at once with a job to follow."""
        job, known = service.ask(request)
        status = 200 if known else 202
        return JSONResponse(found(job), status, {"Location": f"jobs/{job}"})

    @routes.get("/api/jobs", response_model=schema.JobList)
    def recent(
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        before: Annotated[int | None, Query(ge=1, le=_LARGEST)] = None,
    ) -> dict[str, Any]:
        """What was asked, the newest first."""
        return {"jobs": service.jobs.recent(limit, before)}

    @routes.get("/api/jobs/{job}", response_model=schema.Job)
    def job_now(job: JobId) -> dict[str, Any]:
        """A job as it is now."""
        return found(job)

    @routes.delete("/api/jobs/{job}", response_model=schema.Job)
    def cancel(job: JobId) -> dict[str, Any]:
        """Ends a job that has not ended."""
        found(job)
        service.jobs.cancel(job)
        return found(job)

    @routes.get("/api/jobs/{job}/view")
    def view(job: JobId) -> Response:
        """What the page shows of the last preliminary result, or of the final one."""
        known = found(job)
        data = service.jobs.preview(job)
        if known["key"] is not None:
            data = service.results.view(known["key"])
        if data is None:
            raise Problem(404, f"job {job} has no result yet: wait for its first round")
        return Response(data, media_type="application/json")

    @routes.get("/api/jobs/{job}/events", responses=_EVENTS, response_class=StreamingResponse)
    async def follow(job: JobId) -> Response:
        """A job at each of its changes, as server-sent events, until it has ended."""
        found(job)
        if service.watchers >= service.limits.watchers:
            raise Problem(503, "too many connections follow jobs: try again later", 5)
        headers = {"X-Accel-Buffering": "no"}  # proxies hand on each event at once
        return StreamingResponse(_events(service, job), 200, headers, "text/event-stream")

    return routes


async def _events(service: Service, job: int) -> AsyncIterator[str]:
    service.watchers += 1
    before, sent, looked = "", time.monotonic(), -1
    try:
        while not service.ending:
            changes = service.store.changes()
            if changes != looked:
                looked = changes
                known = service.jobs.find(job)
                if known is None:
                    return
                now = as_json(known)
                if now != before:
                    yield f"event: job\ndata: {now}\n\n"
                    before, sent = now, time.monotonic()
                if known["state"] in ENDED:
                    return
            if time.monotonic() - sent > _STILL:
                yield ": still there\n\n"
                sent = time.monotonic()
            await asyncio.sleep(_LOOK)
    finally:
        service.watchers -= 1
