"""How a request is told, before any application sees it, that it is refused: in the form that its clients expect."""

from collections.abc import Iterable

from starlette.types import Scope, Send

from demur.serve.web.errors import problem_json, status_of
from demur.serve.web.problems import path_of, rendered
from demur.serve.web.shared.browser_headers import FOR_MACHINES

Headers = Iterable[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain; charset=utf-8")


async def send_problem(scope: Scope, error: Exception, send: Send) -> None:
    """Send an error of `demur.serve.web.errors.STATUS` as JSON, in the shape that clients of this path expect."""
    problem = rendered(error, path_of(scope))
    headers = [JSON]
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="demur"'))
    await send_whole(send, problem.status, problem.body, [*headers, *problem.headers])


async def send_sentence(error: Exception, send: Send) -> None:
    """Send an error to a person, as a plain sentence."""
    await send_whole(send, status_of(error), f"{problem_json(error)['message']}\n".encode(), [TEXT])


async def send_whole(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send a response that nobody keeps, with what every response tells a browser."""
    always = [(b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store"), *FOR_MACHINES]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *always]})
    await send({"type": "http.response.body", "body": body})
