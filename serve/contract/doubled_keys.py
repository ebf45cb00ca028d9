"""Objects in which a key is there twice: JSON keeps the last, and nobody knows which of them was meant."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import orjson

from demur.library.nearest import shown
from demur.serve.contract.inputs import InvalidRequest


def check_keys_once(body: bytes, sent: Any, rows: Sequence[Any]) -> None:
    """Raise `InvalidRequest` where a key is there twice, in a body that brings numbers of a model by their labels.

    `rows` are its requests, as they were parsed, within `sent`, all of it. Colons are counted: a key that was there
    twice has lost one on the way. Only where they differ is it looked which key that is.
    """
    objects = lists = False
    for row in rows:
        if type(row) is dict:
            if type(output := row.get("output")) is dict:
                for part in output.values():
                    objects |= type(part) is dict
                    lists |= type(part) is list
            lists |= type(row.get("input")) is list
    if not objects:
        return
    if lists:
        sent = [0 if sent is rows[0] else {"items": 0}, [_without_numbers(row) for row in rows]]
    check_each_key(body, sent)


def check_each_key(body: bytes, sent: Any) -> None:
    """Raise `InvalidRequest` where a key is there twice in a body that was parsed as `sent`; of that, parts without
    colons may be left out."""
    with suppress(orjson.JSONEncodeError):  # nested too deeply for it
        if orjson.dumps(sent).count(b":") == body.count(b":"):
            return
    try:
        json.loads(body, object_pairs_hook=_once)
    except RecursionError:
        return


def _without_numbers(row: Any) -> Any:
    """A request without long lists of numbers, in which there is no colon."""
    if type(row) is not dict:
        return row
    output = row.get("output")
    bare = {**row, "input": _short(row.get("input"))} if "input" in row else dict(row)
    if type(output) is dict:
        bare["output"] = {name: _short(part) for name, part in output.items()}
    return bare


def _short(value: Any) -> Any:
    return 0 if type(value) is list and value and type(value[0]) in (int, float) else value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidRequest(
            f"the key {shown(twice)} is twice in an object; send it once, with the value that is meant"
        )
    return found
