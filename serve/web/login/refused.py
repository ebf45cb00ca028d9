"""How a request is told, before any application sees it, that it is refused: in the form that its clients expect."""

from collections.abc import Iterable
from typing import Any

from starlette.types import Scope, Send

from demur.serve.contract.wire import dump
from demur.serve.web.errors import problem_json, retry_after, status_of
from demur.serve.web.openai.errors import problem_of
from demur.serve.web.shared.browser_headers import FOR_MACHINES

OF_OPENAI = ("/v1/chat/", "/v1/models")
"""Where clients expect errors in OpenAI's shape."""

OF_INFERENCE = "/v2"
"""Where clients expect errors as the Open Inference Protocol has them."""

Headers = Iterable[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain; charset=utf-8")


async def send_problem(scope: Scope, error: Exception, send: Send) -> None:
    """Send an error of `demur.serve.web.errors.STATUS` as JSON, in the shape that clients of this path expect."""
    path, status = path_of(scope), status_of(error)
    content: dict[str, Any] = {"error": problem_json(error)}
    if path.startswith(OF_OPENAI):
        status, content = problem_of(error)
    elif path.startswith(OF_INFERENCE):
        content = {"error": problem_json(error)["message"]}
    headers = [JSON]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="demur"'))
    if (seconds := retry_after(error)) is not None:
        headers.append((b"retry-after", b"%d" % seconds))
    await send_whole(send, status, dump(content), headers)


async def send_sentence(error: Exception, send: Send) -> None:
    """Send an error to a person, as a plain sentence."""
    await send_whole(send, status_of(error), f"{problem_json(error)['message']}\n".encode(), [TEXT])


async def send_whole(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send a response that nobody keeps, with what every response tells a browser."""
    always = [(b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store"), *FOR_MACHINES]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *always]})
    await send({"type": "http.response.body", "body": body})


def path_of(scope: Scope) -> str:
    """The path below the prefix under which the application is mounted, as its router takes it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root):
        below = path[len(root) :]
        if below == "" or below[0] == "/":
            return below or "/"
    return path
