"""An OpenAPI document as the page at /docs shows it: operations in groups, with their fields and working examples."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

DEEPEST = 4
"""Levels of fields that are told; below them stands the name of the schema alone."""

METHODS = ("get", "post", "put", "patch", "delete")

Schemas = Mapping[str, Mapping[str, Any]]
Bodies = Mapping[str, Any]
"""Example bodies by operation, such as `POST /v1/predict`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One field of a body, or one parameter."""

    name: str
    """With the names of the fields around it: `review.priority`; `items[].model` in lists."""

    kind: str
    """The values that the field may hold, in words."""

    required: bool
    description: str
    where: str = "body"
    """`path`, `query` or `header` of a parameter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedReply:
    """What may come back."""

    status: str
    description: str
    fields: list[Field]
    example: str
    """JSON; empty where nothing is known of the body."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    method: str
    path: str
    summary: str
    description: str
    parameters: list[Field]
    body: str
    """JSON to send; empty where nothing is sent."""

    fields: list[Field]
    replies: list[DescribedReply]
    problems: list[DescribedReply]

    @property
    def id(self) -> str:
        """The name of its place on the page, for addresses that end in #."""
        words = "".join(letter if letter.isalnum() else "-" for letter in f"{self.method}{self.path}".lower())
        return words.strip("-")


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationGroup:
    name: str
    operations: list[Operation] = field(default_factory=list)


def groups_of(document: Mapping[str, Any], bodies: Bodies) -> list[OperationGroup]:
    """Return the operations of a document by their first tag, in the order in which they stand there."""
    schemas = document.get("components", {}).get("schemas", {})
    groups: dict[str, OperationGroup] = {}
    for path, methods in document["paths"].items():
        for method in METHODS:
            if (told := methods.get(method)) is not None:
                name = next(iter(told.get("tags", ())), "Others")
                one = _operation(method.upper(), path, told, schemas, bodies)
                groups.setdefault(name, OperationGroup(name=name)).operations.append(one)
    return list(groups.values())


def _operation(method: str, path: str, told: Mapping[str, Any], schemas: Schemas, bodies: Bodies) -> Operation:
    content = told.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    body = bodies.get(f"{method} {path}", None if schema is None else example_of(schema, schemas))
    replies = [_reply(status, reply, schemas) for status, reply in told.get("responses", {}).items()]
    return Operation(
        method=method,
        path=path,
        summary=told.get("summary", ""),
        description=told.get("description", ""),
        parameters=[
            Field(
                name=one["name"],
                kind=kind_of(one.get("schema", {}), schemas),
                required=bool(one.get("required")),
                description=one.get("description", one.get("schema", {}).get("description", "")),
                where=one["in"],
            )
            for one in told.get("parameters", ())
        ],
        body="" if body is None else written(body),
        fields=[] if schema is None else list(fields_of(schema, schemas)),
        replies=[reply for reply in replies if reply.status < "400"],
        problems=[reply for reply in replies if reply.status >= "400"],
    )


def _reply(status: str, told: Mapping[str, Any], schemas: Schemas) -> DescribedReply:
    schema = told.get("content", {}).get("application/json", {}).get("schema")
    return DescribedReply(
        status=status,
        description=told.get("description", ""),
        fields=[] if schema is None else list(fields_of(schema, schemas)),
        example="" if schema is None else written(example_of(schema, schemas)),
    )


def written(value: Any) -> str:
    """JSON for people: indented, lists of numbers on one line."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) < SHORT else json.dumps(value, ensure_ascii=False)


SHORT = 2_000
"""Longer examples, such as images of numbers, stand on one line."""


def resolved(schema: Mapping[str, Any], schemas: Schemas) -> Mapping[str, Any]:
    """Return what a reference stands for; of several forms the first that is not null."""
    while True:
        if "$ref" in schema:
            schema = schemas.get(schema["$ref"].rpartition("/")[2], {})
        elif forms := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
            schema = {
                **next((one for one in forms if one.get("type") != "null"), {}),
                **{key: value for key, value in schema.items() if key in ("description", "default", "title")},
            }
        else:
            return schema


def fields_of(schema: Mapping[str, Any], schemas: Schemas, prefix: str = "", depth: int = 0) -> Iterator[Field]:
    """Yield the fields of an object, and of the objects in it, each after the one around it."""
    whole = resolved(schema, schemas)
    if whole.get("type") == "array":
        yield from fields_of(whole.get("items", {}), schemas, f"{prefix}[]", depth)
        return
    for name, one in whole.get("properties", {}).items():
        path = f"{prefix}.{name}" if prefix else name
        inner = resolved(one, schemas)
        yield Field(
            name=path,
            kind=kind_of(one, schemas),
            required=name in whole.get("required", ()),
            description=one.get("description", inner.get("description", "")),
        )
        if depth + 1 < DEEPEST:
            yield from fields_of(inner, schemas, path, depth + 1)


BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


def kind_of(schema: Mapping[str, Any], schemas: Schemas) -> str:
    """What a value may be, in a few words."""
    forms = schema.get("anyOf") or schema.get("oneOf")
    if forms:
        return " or ".join(dict.fromkeys(kind_of(one, schemas) for one in forms))
    whole = resolved(schema, schemas)
    if "const" in whole:
        return json.dumps(whole["const"])
    if "enum" in whole:
        return ", ".join(json.dumps(one) for one in whole["enum"])
    if whole.get("type") == "array":
        return f"list of {kind_of(whole.get('items', {}), schemas)}"
    words = {"string": "text", "integer": "whole number", "boolean": "true or false", "object": "object"}
    kind = words.get(whole.get("type", ""), whole.get("type", "anything"))
    bounds = [f"{word} {whole[key]:,}" for key, word in BOUNDS.items() if key in whole]
    if "maxLength" in whole and kind == "text":
        bounds.append(f"at most {whole['maxLength']:,} characters")
    return ", ".join([{"date-time": "time", "uuid": "id"}.get(whole.get("format", ""), kind), *bounds])


def example_of(schema: Mapping[str, Any], schemas: Schemas, depth: int = 0) -> Any:
    """Return a value that fits, with what must be there and no more."""
    whole = resolved(schema, schemas)
    for key in ("example", "const", "default"):
        if whole.get(key) is not None:
            return whole[key]
    if whole.get("examples"):
        return whole["examples"][0]
    if whole.get("enum"):
        return whole["enum"][0]
    if whole.get("type") == "array":
        few = [] if depth > DEEPEST else [example_of(whole.get("items", {}), schemas, depth + 1)]
        return few * max(1, min(int(whole.get("minItems", 1)), 2))
    if whole.get("type") == "object" or "properties" in whole:
        needed = [name for name in whole.get("properties", {}) if name in whole.get("required", ())]
        return {} if depth > DEEPEST else {
            name: example_of(whole["properties"][name], schemas, depth + 1) for name in needed
        }  # fmt: skip
    return _example_of_plain(whole)


def _example_of_plain(whole: Mapping[str, Any]) -> Any:
    formats = {"uuid": "019aa2b1-7c30-7c4e-9f5e-0b6c6d2f1a11", "date-time": "2026-11-21T08:30:00Z"}
    kind = whole.get("type")
    if kind == "string":
        return formats.get(whole.get("format", ""), "text")
    if kind in ("number", "integer"):
        least = whole.get("minimum", whole.get("exclusiveMinimum", 0))
        return max(1, least) if kind == "integer" else max(0.5, least)
    return True if kind == "boolean" else None
