"""Errors in the shape that the protocol wants."""

from typing import Any

from pydantic import BaseModel, Field

from demur.serve.web.errors import problem_json, status_of


class InferProblem(BaseModel):
    """What is wrong, and the way out."""

    error: str = Field(description="One sentence.")


def problem_of(error: Exception) -> tuple[int, dict[str, Any]]:
    """The status of an error and `InferProblem`. What does not fit is a 400 here, where /v1/predict says 422."""
    status = status_of(error)
    return 400 if status == 422 else status, {"error": problem_json(error)["message"]}
