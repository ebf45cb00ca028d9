"""Telling what went wrong: as JSON under /v1/, elsewhere on a page."""

import logging
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException

from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.errors import STATUS, problem_json, status_of
from demur.serve.web.problems import in_words, path_of, plain_problem, problem_response
from demur.traffic.log import RecordNotFound

OF_FASTAPI = (RequestValidationError, WebSocketRequestValidationError, HTTPException)
"""What an application tells in its own way unless it is told otherwise."""

Tell = Callable[[Request, Exception], Any]


def problem(request: Request, error: Exception) -> Response:
    """What went wrong, as JSON."""
    return plain_problem(request, error) if isinstance(error, HTTPException) else problem_response(request, error)


def add_problems(
    app: FastAPI, log: logging.Logger, as_json: Callable[[Request, Exception], Response] = problem
) -> None:
    """Tell what goes wrong as JSON under /v1/. Elsewhere it is told by the page that was added for it before, or by
    that for `InvalidRequest`, which there must be."""
    pages: dict[Any, Tell] = dict(app.exception_handlers)

    def teller(kind: type[Exception]) -> Tell:
        page = pages[InvalidRequest] if kind in OF_FASTAPI else pages.get(kind, pages[InvalidRequest])

        async def tell(request: Request, error: Exception) -> Response:
            if isinstance(error, RequestValidationError):
                error = in_words(error)
            if status_of(error) == 500 and not isinstance(error, HTTPException):
                log.error("%s %s failed", request.method, request.url.path, exc_info=error)
            if _for_machines(request):
                return await run_in_threadpool(as_json, request, error)
            response: Response = await page(request, _for_people(request, error))
            return response

        return tell

    for kind in {*STATUS, *pages, *OF_FASTAPI, Exception}:
        app.add_exception_handler(kind, teller(kind))


def _for_machines(request: Request) -> bool:
    return path_of(request.scope).startswith("/v1/")


def _for_people(request: Request, error: Exception) -> Exception:
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return RecordNotFound(f"there is nothing at {request.url.path}")
        return InvalidRequest(f"{request.method} is not possible at {request.url.path}")
    if status_of(error) == 500:
        return RuntimeError(problem_json(error)["message"])
    return error
