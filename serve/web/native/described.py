"""What the statuses of the native API mean, for its document."""

from typing import Any

from demur.serve.contract import wire

MEANINGS = {
    400: "The body is not JSON",
    401: "Nobody knows who you are; the message says how to tell",
    403: "Your key may not do this, or is not for this model",
    404: "No such model or prediction",
    408: "The body did not come in time (`limits` in the configuration)",
    409: "The Idempotency-Key was used with another input",
    413: "More than `limits` in the configuration allows",
    422: "Something in the request does not fit; the message says what",
    429: "Your key has used up its rate; try again after `Retry-After` seconds",
    502: "The model's endpoint answers nobody until somebody mends something; waiting does not help",
    503: "Not possible right now; try again after `Retry-After` seconds",
    504: "The time of X-Request-Timeout is over, and nothing was answered",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what the document says of these statuses."""
    return {status: {"model": wire.ProblemResponse, "description": MEANINGS[status]} for status in statuses}
