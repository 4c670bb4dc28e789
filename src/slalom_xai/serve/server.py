"""The application: its addresses, and how problems are told."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from slalom_xai import __version__
from slalom_xai.errors import SlalomError
from slalom_xai.serve.guard import FAULT, App, Guard
from slalom_xai.serve.routes import (
    data_routes,
    explanation_routes,
    folder_routes,
    job_routes,
    page_routes,
)
from slalom_xai.serve.service import Problem, Service
from slalom_xai.serve.store.file import DAMAGED
from slalom_xai.system.sqlite import Damaged, has_no_room, is_damaged


def application(service: Service) -> App:
    """The whole application, behind its guard."""

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    app = FastAPI(
        title="slalom-xai",
        version=__version__,
        description="Explains text classifiers: a value and an importance for every token.",
        lifespan=running,
        docs_url=None,  # its page would load scripts from another host
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,  # it would name the address that a proxy hides
    )
    for routes in (page_routes, job_routes, explanation_routes, data_routes, folder_routes):
        app.include_router(routes.router(service))
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _wrong_shape)
    app.add_exception_handler(HTTPException, _plain_problem)
    app.add_exception_handler(SlalomError, _cannot)
    app.add_exception_handler(sqlite3.Error, _store_problem)
    app.add_exception_handler(Exception, _fault)
    return Guard(app, service.access, service.limits, log_texts=service.log_texts)


def _answer(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status, headers)


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return _answer(error.status, str(error), headers)


async def _wrong_shape(_: Request, error: Exception) -> Response:
    """The first thing that is wrong with a request, in one line."""
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = dict(error.errors()[0])
    where = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
    more = len(error.errors()) - 1
    also = f" (and {more} more)" if more else ""
    return _answer(422, f"{where[:100]}: {first['msg'][:200]}{also}; see api/openapi.json")


async def _plain_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {
        404: "there is nothing at this address: see api/openapi.json",
        405: f"{request.method} is not for this address: see api/openapi.json",
    }.get(error.status_code, str(error.detail))
    return _answer(error.status_code, message, dict(error.headers or {}))


async def _cannot(_: Request, error: Exception) -> Response:
    return _answer(400, str(error))


async def _store_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, sqlite3.Error)
    if has_no_room(error):
        return _answer(507, "the disk of the server is full: make room there, then try again")
    if is_damaged(error):
        return _answer(500, str(error) if isinstance(error, Damaged) else DAMAGED)
    raise error


async def _fault(_: Request, __: Exception) -> Response:
    """What nobody expected; the guard writes it to the log."""
    return _answer(500, FAULT)
