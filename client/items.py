"""What a program sends: inputs and outcomes in the forms in which it has them, as JSON."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from demur.client.errors import InvalidRequest
from demur.client.results import Label

ROWS_AT_ONCE = 1000
"""Rows of a table that are made into Python's own values at a time."""

PICTURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"RIFF": "webp"}
"""By the first bytes of a file."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One input with what belongs to it alone. Where nothing does, give the input itself."""

    input: Any = None
    output: Any = None
    """What a model elsewhere said about it; None where the service asks its own model."""

    group: str | None = None
    cluster: str | None = None
    review: Mapping[str, Any] | None = None
    """How soon a person is to look, should one be asked: `{"priority": 1, "due_seconds": 3600}`."""


@dataclass(frozen=True, kw_only=True)
class NewOutcome:
    """The truth about one prediction, as it is to be written."""

    id: str | UUID
    label: Label
    source: str = "api"
    author: str | None = None
    text: str | None = None
    """What should have been written, where the label says that a text is `wrong`."""


def prediction_body(model: str, value: Any, defaults: Item) -> dict[str, Any]:
    """The body that asks for one prediction. An `Item` may say otherwise than `defaults`."""
    item = value if isinstance(value, Item) else Item(input=value)
    body: dict[str, Any] = {"model": model}
    output = defaults.output if item.output is None else item.output
    if item.input is not None or output is None:
        body["input"] = item.input
    if output is not None:
        body["output"] = output
    for name in ("group", "cluster", "review"):
        told = getattr(item, name)
        chosen = getattr(defaults, name) if told is None else told
        if chosen is not None:
            body[name] = chosen
    return body


def outcome_body(told: NewOutcome | Mapping[str, Any]) -> dict[str, Any]:
    """The body that tells one outcome, with the id of its prediction."""
    if isinstance(told, NewOutcome):
        told = {
            "id": str(told.id),
            "label": told.label,
            "source": told.source,
            "author": told.author,
            "text": told.text,
        }
    if not isinstance(told, Mapping):
        raise InvalidRequest("an outcome is a NewOutcome, or an object with the keys id and label")
    return {name: value for name, value in told.items() if value is not None}


def encoded(body: Any) -> bytes:
    """The JSON of a body. Raises `InvalidRequest` where it holds something of which there is none."""
    try:
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False, default=_plain).encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            "a text has half a character in it (a lone surrogate), which UTF-8 does not have"
        ) from None
    except RecursionError:
        raise InvalidRequest("this is nested too deep to be sent as JSON") from None
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"this cannot be sent as JSON: {error}") from None


def rows_of(values: Any) -> Iterator[Any]:
    """Each input of a list, a generator, an array, or a table; each row of a table is an object of its columns."""
    if isinstance(values, str | bytes | Mapping):
        raise InvalidRequest(f"a list of inputs is wanted here, not one {type(values).__name__}; put it in a list")
    if hasattr(values, "iter_rows") and hasattr(values, "columns"):  # polars
        yield from values.iter_rows(named=True)
    elif hasattr(values, "iloc") and hasattr(values, "columns"):  # pandas
        for start in range(0, len(values), ROWS_AT_ONCE):
            yield from _without_gaps(values.iloc[start : start + ROWS_AT_ONCE]).to_dict("records")
    elif hasattr(values, "to_batches"):  # a table of pyarrow
        for batch in values.to_batches(max_chunksize=ROWS_AT_ONCE):
            yield from batch.to_pylist()
    elif hasattr(values, "to_pylist"):  # a column, or a batch, of pyarrow
        yield from values.to_pylist()
    elif isinstance(values, Iterable):
        yield from values
    else:
        raise InvalidRequest(f"a list of inputs is wanted here, not {type(values).__name__}")


def length_of(values: Any) -> int | None:
    """How many inputs there are; None where only reading them tells."""
    try:
        return len(values)
    except TypeError:
        return None


def _plain(value: Any) -> Any:
    """A value of which Python's JSON knows nothing, as one that it knows."""
    if type(value).__name__ in ("NAType", "NaTType"):  # what pandas has where nothing is; the second counts as a time
        return None
    if hasattr(value, "notna") and hasattr(value, "to_dict"):  # a row of pandas
        return _without_gaps(value).to_dict()
    for name in ("tolist", "to_pylist", "as_py"):  # arrays, tensors and scalars of numpy, torch and pyarrow
        if hasattr(value, name):
            return getattr(value, name)()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _picture_url(bytes(value))
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"there is no JSON for {type(value).__name__}")


def _without_gaps(table: Any) -> Any:
    return table.astype(object).where(table.notna(), None)


def _picture_url(content: bytes) -> str:
    kind = next((kind for begins, kind in PICTURES.items() if content.startswith(begins)), None)
    if kind is None:
        raise TypeError("bytes are taken where they are a PNG, a JPEG or a WebP")
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
