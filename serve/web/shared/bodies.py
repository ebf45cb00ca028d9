"""Bodies that are read and parsed by hand, once: how far they are read, and what the document says of them."""

from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from demur.serve.contract.inputs import TooLarge
from demur.serve.contract.wire import Body
from demur.serve.gateway.intake import CallerLeft


async def read_whole(receive: Receive, limit: int) -> bytes:
    """The whole body, read no further than the limit. Raises `TooLarge` or `CallerLeft`."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise CallerLeft("the caller went away before the body had come")
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise TooLarge(f"the body has more than {limit:,} bytes, which is what is taken (limits.body_bytes)")
        parts.append(part)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def whole_body(request: Request, limit: int) -> bytes:
    """The whole body of a request, read no further than the limit. Raises `TooLarge`."""
    try:
        return await read_whole(request.receive, limit)
    except CallerLeft as left:
        raise ClientDisconnect from left


def takes(body: type[Body], *, required: bool = True, form: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a route takes, for its document. `form` is the schema of a form with files that it takes as well."""
    reference = {"$ref": f"#/components/schemas/{body.__name__}"}
    content: dict[str, Any] = {"application/json": {"schema": reference}}
    if form is not None:
        content["multipart/form-data"] = {"schema": form}
    return {"requestBody": {"required": required, "content": content}}


def describe(schemas: dict[str, Any], *bodies: type[Body]) -> None:
    """Add bodies that are parsed by hand to the schemas of a document."""
    for body in bodies:
        described = body.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(described.pop("$defs", {}))
        schemas[body.__name__] = described
