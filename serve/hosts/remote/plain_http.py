"""A server that takes JSON of any shape and gives JSON of any shape, asked."""

from collections.abc import Sequence
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from demur.serve.config.hosts.remote import RemoteSettings
from demur.serve.contract.body import read_apart
from demur.serve.contract.inputs import ModelInput
from demur.serve.hosts.endpoint_http import TimeLimit
from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.remote.input_values import about_bytes
from demur.serve.hosts.remote.metadata import RemoteMetadata
from demur.serve.hosts.remote.replies import RemoteReply, read_json, shown
from demur.serve.hosts.remote.request_body import BodyWriter
from demur.serve.hosts.remote.server import RemoteHttp


class PlainHttp:
    """A `RemoteServer`."""

    def __init__(self, host: RemoteSettings, labels: Sequence[str]) -> None:
        """Raises `BadModel` where the request, a path, a secret or a certificate cannot be used."""
        self._host = host
        self._paths = paths_of(host)
        self._bodies = BodyWriter(host, labels)
        self._http = RemoteHttp(host)

    async def close(self) -> None:
        await self._http.close()

    async def ask(self, inputs: Sequence[ModelInput], limit: TimeLimit) -> RemoteReply:
        body = await read_apart(about_bytes(inputs), lambda: self._bodies.body(inputs))
        answer = await self._http.post(self._host.url, body, limit, {"Accept": "application/json"})
        return await read_apart(len(answer.content), lambda: self._reply(answer.content))

    async def metadata(self, limit: TimeLimit) -> RemoteMetadata | None:  # noqa: ARG002 - such a server tells none
        return None

    def _reply(self, content: bytes) -> RemoteReply:
        said = read_json(content)
        return RemoteReply(parts={part: self._found(part, path, said) for part, path in self._paths.items()})

    def _found(self, part: str, path: ParsedResult, said: Any) -> Any:
        try:
            found = path.search(said)
        except (JMESPathError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadModelOutput(
                f"host.{part}: {path.expression!r} cannot be applied to the reply: {reason[:200]}"
            ) from None
        if found is None:
            keys = f"an object with {', '.join(map(shown, list(said)[:10]))}" if isinstance(said, dict) else shown(said)
            raise BadModelOutput(f"host.{part}: {path.expression!r} finds nothing in the reply, which is {keys}")
        return found


def paths_of(host: RemoteSettings) -> dict[str, ParsedResult]:
    """Return where each part of the output is. Raises `BadModel` for what is no JMESPath."""
    found = {}
    for part, place in host.parts.items():
        try:
            found[part] = jmespath.compile(place or "@")
        except JMESPathError as error:
            raise BadModel(f"host.{part}: {place!r} is no JMESPath: {str(error).splitlines()[0]}") from None
    return found
