"""What a browser without scripts sends from the page to try a model, as the request that it stands for."""

from collections.abc import Mapping
from typing import Any

import orjson

from demur.serve.config.input import ColumnConfig
from demur.serve.contract.examples import Example
from demur.serve.contract.inputs import InputSpec, InvalidRequest

MOST_FIELDS = 2_000
"""Fields of a form: a row of a table has one for each column."""


def kind_of_form(spec: InputSpec) -> str:
    """Return which form the page has for a model: `image` takes a file, `json` whatever else there is no form for."""
    known = ("image", "text", "chat", "text_pair", "choice")
    return "table" if spec.kind == "table" and spec.columns else spec.kind if spec.kind in known else "json"


def request_of(spec: InputSpec, fields: Mapping[str, str], examples: list[Example]) -> tuple[dict[str, Any], Any]:
    """Return what a form brings, without the model, and the truth where it is an example. Raises `InvalidRequest`."""
    if (number := fields.get("example", "")).isdecimal() and len(number) < 4:
        if int(number) >= len(examples):
            raise InvalidRequest("example: there is none with this number; load the page again")
        example = examples[int(number)]
        return example.body, example.label
    return _typed(spec, fields), None


def _typed(spec: InputSpec, fields: Mapping[str, str]) -> dict[str, Any]:
    kind = kind_of_form(spec)
    if kind in ("text", "chat"):
        return {"input": _text(fields, "text")}
    if kind == "text_pair":
        return {"input": {"text": _text(fields, "text"), "text_pair": _text(fields, "text_pair")}}
    if kind == "choice":
        options = [line.strip() for line in fields.get("options", "").splitlines()]
        return {"input": {"question": _text(fields, "question"), "options": [one for one in options if one]}}
    if kind == "table":
        told = enumerate(spec.columns.items())
        return {"input": {name: _cell(column, fields.get(f"column-{at}", "")) for at, (name, column) in told}}
    if kind == "json":
        try:
            brings = orjson.loads(fields.get("json", ""))
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"json: this is no JSON: {error}") from None
        if not isinstance(brings, dict):
            raise InvalidRequest('json: an object is wanted here, such as {"input": …}')
        return {key: value for key, value in brings.items() if key != "model"}
    raise InvalidRequest("file: choose a picture, or one of the examples")


def _text(fields: Mapping[str, str], key: str) -> str:
    if not fields.get(key, "").strip():
        raise InvalidRequest(f"{key}: write something")
    return fields[key].replace("\r\n", "\n")


def _cell(column: ColumnConfig, text: str) -> Any:
    told = text.strip()
    if not told:
        return None
    if column.kind in ("boolean", "numeric") and told.lower() in ("true", "false"):
        return told.lower() == "true"
    if column.is_numeric:
        try:
            number = float(told)
        except ValueError:
            return told  # the service says what is wrong with it
        return int(number) if number.is_integer() and told.lstrip("+-").isdecimal() else number
    return told
