"""The body of a request over plain HTTP: a mapping with placeholders, or a Jinja template. No code of anybody runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from jinja2 import StrictUndefined, Template, TemplateError, Undefined, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from demur.library.nearest import one_of
from demur.serve.config.hosts.remote import RemoteSettings
from demur.serve.contract.inputs import ModelInput
from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.remote.input_values import json_value

PLACE = "$"
"""Before the name of what is put in."""

LONGEST = 64 * 2**20
"""Bytes of a body."""


class BodyWriter:
    """Writes bodies for one server."""

    def __init__(self, host: RemoteSettings, labels: Sequence[str]) -> None:
        """Raises `BadModel` for a template or a mapping that cannot be used."""
        self._host = host
        self._around = {"model": host.model, "version": host.version, "labels": list(host.labels or labels)}
        self._names = [*self._around, "inputs" if host.takes_batches else "input"]
        request = host.request
        if isinstance(request, str):
            self._template = self._read(request)
        elif not self._check(request):
            raise BadModel(f"host.request: the inputs are not in it; write {PLACE}{self._names[-1]} where they belong")

    def body(self, inputs: Sequence[ModelInput]) -> bytes:
        """Return the JSON for these inputs; one of them where the server takes no batches. Raises `BadModelOutput`."""
        values = [json_value(value, self._host) for value in inputs]
        given = {**self._around, self._names[-1]: values if self._host.takes_batches else values[0]}
        if not isinstance(self._host.request, str):
            return orjson.dumps(_filled(self._host.request, given))
        try:
            content = self._template.render(given)
            body = orjson.dumps(orjson.loads(content))
        except TemplateError as error:
            raise BadModelOutput(f"host.request: the template failed: {error}") from None
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
            raise BadModelOutput(
                f"host.request: the template gave no JSON: {error}; values are written as JSON by themselves, so put no"
                " quotes around {{ }}"
            ) from None
        if len(body) > LONGEST:
            raise BadModelOutput(f"host.request: the body has {len(body):,} bytes; at most {LONGEST:,} are sent")
        return body

    def _read(self, text: str) -> Template:
        environment = _environment()
        try:
            template, used = environment.from_string(text), meta.find_undeclared_variables(environment.parse(text))
        except TemplateError as error:
            raise BadModel(f"host.request: the template cannot be read: {error}") from None
        if unknown := sorted(used - {*self._names, *environment.globals}):
            raise BadModel(f"host.request: {one_of(unknown[0], self._names)}")
        if self._names[-1] not in used:
            name = self._names[-1]
            raise BadModel(f"host.request: the inputs are not in it; write {{{{ {name} }}}} where they belong")
        return template

    def _check(self, part: Any) -> bool:
        """Whether the inputs are in a part of the mapping. Raises `BadModel` for a name that is not known."""
        if isinstance(part, str) and part.startswith(PLACE) and not part.startswith(PLACE * 2):
            if part[1:] not in self._names:
                known = [f"{PLACE}{name}" for name in self._names]
                raise BadModel(
                    f"host.request: {one_of(part, known)}. A text that begins with {PLACE} is written as {PLACE}{part}"
                )
            return part[1:] == self._names[-1]
        within = part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
        found = [self._check(one) for one in within]  # all of them, for the names
        return any(found)


def _filled(part: Any, given: Mapping[str, Any]) -> Any:
    if isinstance(part, Mapping):
        return {key: _filled(one, given) for key, one in part.items()}
    if isinstance(part, list):
        return [_filled(one, given) for one in part]
    if isinstance(part, str) and part.startswith(PLACE):
        return part[1:] if part.startswith(PLACE * 2) else given[part[1:]]
    return part


def _environment() -> ImmutableSandboxedEnvironment:
    """Templates whose every `{{ }}` writes JSON, with `tojson` or without: no input can end a text and begin a key."""
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, finalize=_written, autoescape=False)
    environment.filters["tojson"] = _written
    return environment


class WrittenJson(str):
    """A part of a body that is JSON already."""

    __slots__ = ()


def _written(value: Any) -> WrittenJson:
    if isinstance(value, WrittenJson):
        return value
    if isinstance(value, Undefined):
        str(value)  # raises an error that says which
    return WrittenJson(orjson.dumps(value).decode())
