"""Ids and keys as callers give them."""

import re
from uuid import UUID, uuid4

from demur.client.errors import InvalidRequest
from demur.client.results import Prediction

Id = str | UUID | Prediction
"""A prediction, or its id."""

KEY = re.compile(r"[\x21-\x7e]{1,200}")


def id_of(told: Id) -> str:
    """The id of a prediction, as it stands in an address."""
    text = told.id if isinstance(told, Prediction) else str(told)
    try:
        return str(UUID(text))
    except ValueError:
        raise InvalidRequest(
            f"id: {text[:50]!r} is none; one such as 01939f2e-5b7a-7cc3-98c4-dc0c0c07398f is wanted"
        ) from None


def key_of(told: str | None) -> str:
    """An Idempotency-Key that can be sent: this one, else a new one. A batch adds numbers to it."""
    if told is None:
        return uuid4().hex
    if not KEY.fullmatch(told):
        raise InvalidRequest(f"idempotency_key: {told[:50]!r} is none; 1 to 200 printable ASCII characters are taken")
    return told
