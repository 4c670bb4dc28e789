"""Finished explanations in several forms, and the model's own answers."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from slalom_xai.serve import schema
from slalom_xai.serve.service import Problem, Service
from slalom_xai.serve.store.file import read_settings
from slalom_xai.serve.work.spec import WorkerSpec

# Python that repeats an explanation.


_DEFAULTS = {
    "method": "slalom",
    "granularity": "word",
    "target": None,
    "removal": "auto",
    "budget": None,
    "seed": 0,
}


def snippet(file: dict[str, Any], settings: dict[str, Any], spec: WorkerSpec | None) -> str:
    """A short program.

    Args:
        file: the saved explanation.
        settings: as the job had them.
        spec: of the model; None where this server no longer has it.
    """
    options = []
    if spec is None:
        options.append(f"model=...,  # {file['model']!a}, which this server no longer has")
    else:
        given = {
            "model": spec.source,
            "dtype": spec.dtype,
            "labels": None if spec.labels is None else list(spec.labels),
        }
        options += [f"{name}={value!r}," for name, value in given.items() if value is not None]
    for name, usual in _DEFAULTS.items():
        if settings[name] != usual:
            options.append(f"{'random_state' if name == 'seed' else name}={settings[name]!r},")
    lines = ["from slalom_xai import Explainer", "", "explainer = Explainer()"]
    if options:
        lines[-1:] = ["explainer = Explainer(", *(f"    {option}" for option in options), ")"]
    lines.append(f"text = {file['text']!r}")
    texts = "text"
    if file["text_pair"] is not None:
        lines.append(f"text_pair = {file['text_pair']!r}")
        texts = "text, text_pair"
    lines += [f"explanation = explainer({texts})", "print(explanation.to_frame())"]
    return "\n".join(lines) + "\n"


# Finished explanations in several forms, and the model's own answers.


_KEY = "^[0-9a-f]{32}$"
_KEYS = "^[0-9a-f]{32}(,[0-9a-f]{32})*$"
_PAGE_POLICY = "sandbox allow-scripts allow-downloads"  # a report's own policy holds as well

_PICTURES = schema.answers("image/svg+xml", "image/png")

Key = Annotated[str, Path(pattern=_KEY)]


def router(service: Service) -> APIRouter:
    """The addresses."""
    routes = APIRouter(tags=["explanations"], responses=schema.problems(409))

    def known(content: str | None, key: str) -> str:
        if content is None:
            raise Problem(404, f"there is no explanation {key}: ask again")
        return content

    @routes.get("/api/explanations/{key}")
    def saved(key: Key, download: bool = False) -> Response:
        """The explanation as ``Explanation.load`` reads it."""
        content = known(service.results.file(key), key)
        headers = _attachment(f"explanation-{key[:8]}.json") if download else None
        return Response(content, 200, headers, "application/json")

    @routes.get("/api/explanations/{key}/view")
    def view(key: Key) -> Response:
        """What the page shows of it."""
        return Response(known(service.results.view(key), key), media_type="application/json")

    @routes.get("/api/explanations/{key}/snippet")
    def python(key: Key) -> schema.Snippet:
        """Python that repeats it."""
        result = service.results.known(key)
        if result is None:
            raise Problem(404, f"there is no explanation {key}: ask again")
        text = json.loads(known(service.results.file(key), key))
        spec = service.spec_of(result)
        return schema.Snippet(python=snippet(text, read_settings(result.settings), spec))

    @routes.get(
        "/api/explanations/{key}/figure.{ending}", responses=_PICTURES, response_class=Response
    )
    async def figure(
        key: Key,
        ending: Literal["svg", "png"],
        kind: Literal["scatter", "text", "bars"] = "scatter",
    ) -> Response:
        """A picture of it."""
        known(service.results.view(key), key)
        body = {"key": key, "kind": kind, "ending": ending}
        picture: str = await service.quickly(None, "figure", body)
        media = {"svg": "image/svg+xml", "png": "image/png"}[ending]
        headers = _attachment(f"explanation-{key[:8]}-{kind}.{ending}")
        return Response(picture.encode("latin-1"), 200, headers, media)

    @routes.get("/api/report.html", responses=schema.answers("text/html"), response_class=Response)
    async def report(keys: Annotated[str, Query(pattern=_KEYS, max_length=1000)]) -> Response:
        """One or several explanations as a page of their own."""
        wanted = keys.split(",")
        if len(wanted) > service.limits.keys:
            raise Problem(400, f"{len(wanted)} keys were given: give up to {service.limits.keys}")
        for key in wanted:
            known(service.results.view(key), key)
        page: str = await service.quickly(None, "report", {"keys": wanted})
        headers = _attachment(f"explanation-{wanted[0][:8]}.html")
        headers["content-security-policy"] = _PAGE_POLICY
        return Response(page, 200, headers, "text/html; charset=utf-8")

    @routes.post("/api/predict")
    async def predict(request: schema.PredictRequest) -> schema.Predictions:
        """What the model itself answers, to a text or to edits of it."""
        body = request.model_dump()
        name, wanted = body.pop("model"), body.pop("fingerprint")
        model = service.model(name)
        if model.state != "ready":
            raise Problem(503, f"the model {name} is being loaded: try again soon", 5)
        if wanted not in (None, model.facts["fingerprint"]):
            raise Problem(
                409,
                f"the model {name} is another one than the one that was explained: "
                "explain the text again",
            )
        service.check_texts(request.text, request.text_pair)
        if request.counts is not None and len(request.counts) > service.limits.rows:
            raise Problem(
                400,
                f"{len(request.counts)} rows of counts were given: "
                f"give up to {service.limits.rows}",
            )
        return schema.Predictions(**await service.quickly(name, "predict", body))

    return routes


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}
