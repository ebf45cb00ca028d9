"""What is wrong with a request, in the shape that clients of its address expect: one renderer for each protocol."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from demur.serve.config.pydantic_words import sentence
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.wire import dump
from demur.serve.web.errors import problem_json, retry_after, status_of
from demur.serve.web.inference_protocol import errors as inference
from demur.serve.web.openai import errors as openai

logger = logging.getLogger("demur.http")

Renderer = Callable[[Exception], tuple[int, dict[str, Any]]]
"""Gives the status of an error, and the content of the response."""


def native(error: Exception) -> tuple[int, dict[str, Any]]:
    """The status of an error from the table, and `wire.ProblemResponse`."""
    return status_of(error), {"error": problem_json(error)}


RENDERERS: tuple[tuple[str, Renderer], ...] = (
    ("/v1/chat/", openai.problem_of),
    ("/v1/models", openai.problem_of),
    ("/v2", inference.problem_of),
    ("/", native),
)
"""By the beginning of the address; the first that fits counts."""


@dataclass(frozen=True, slots=True)
class RenderedProblem:
    """A response without a framework."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """Beside type and length of the body."""


def rendered(error: Exception, path: str) -> RenderedProblem:
    """Render an error for clients of an address below the prefix of its application."""
    render = next((render for begins, render in RENDERERS if path.startswith(begins)), native)
    status, content = render(error)
    seconds = retry_after(error)
    headers = () if seconds is None else ((b"retry-after", b"%d" % seconds),)
    return RenderedProblem(status, dump(content), headers)


def problem_response(request: Request, error: Exception) -> Response:
    """Tell a client what is wrong."""
    problem = rendered(error, path_of(request.scope))
    response = Response(problem.body, problem.status, media_type="application/json")
    response.raw_headers.extend(problem.headers)
    return response


def logged_problem(request: Request, error: Exception) -> Response:
    """Tell a client what is wrong, and the log what nobody foresaw."""
    if status_of(error) == 500:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(request, error)


async def as_problem(request: Request, error: Exception) -> Response:
    """Handle an error of ours, or one that nobody foresaw."""
    return logged_problem(request, error)


async def as_invalid_request(request: Request, error: Exception) -> Response:
    """Handle what FastAPI refuses in an address or its parameters."""
    assert isinstance(error, RequestValidationError)
    return problem_response(request, in_words(error))


async def as_plain_problem(request: Request, error: Exception) -> Response:
    """Handle unknown paths and wrong methods."""
    assert isinstance(error, HTTPException)
    return plain_problem(request, error)


def in_words(error: RequestValidationError) -> InvalidRequest:
    """What does not fit in an address or its parameters."""
    return InvalidRequest(
        "; ".join(
            f"{'.'.join(map(str, e['loc'][1:]))}: {sentence(e['type'], e.get('ctx', {}))}" for e in error.errors()
        )
    )


def plain_problem(request: Request, error: HTTPException) -> Response:
    """Unknown paths and wrong methods, in the same form as every other problem."""
    told = {
        404: ("NotFound", f"there is nothing at {request.url.path}; see /docs"),
        405: ("MethodNotAllowed", f"{request.method} is not possible at {request.url.path}; see /docs"),
    }
    kind, message = told.get(error.status_code, ("HttpError", str(error.detail)))
    as_text = request.url.path.startswith("/v2/")  # where errors are texts
    return Response(
        dump({"error": message if as_text else {"kind": kind, "message": message}}),
        error.status_code,
        error.headers,
        "application/json",
    )


def path_of(scope: Scope) -> str:
    """The path below the prefix under which the application is mounted, as its router takes it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root):
        below = path[len(root) :]
        if below == "" or below[0] == "/":
            return below or "/"
    return path
