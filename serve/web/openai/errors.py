"""Errors in the shape in which OpenAI's clients expect them."""

import re
from typing import Any

from demur.serve.web.errors import problem_json, status_of


def problem_of(error: Exception) -> tuple[int, dict[str, Any]]:
    """The status of an error and `ChatProblemResponse`. OpenAI's clients expect a 400 where /v1/predict says 422."""
    problem, status = problem_json(error), status_of(error)
    message = problem["message"].removeprefix("input.")
    place = re.match(r"([a-z_]+(?:\.[a-z_0-9]+)*): ", message)
    return (
        400 if status == 422 else status,
        {
            "error": {
                "message": message,
                "type": "invalid_request_error" if status < 500 else "server_error",
                "param": place.group(1) if place else None,
                "code": problem["kind"],
            }
        },
    )
