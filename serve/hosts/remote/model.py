"""A classifier that another server serves, as a model like any other."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.remote import RemoteHost
from demur.serve.contract.engine import EngineFailed
from demur.serve.contract.inputs import InputSpec, ModelInput, example_of, spec_of
from demur.serve.contract.model import ModelRequest
from demur.serve.hosts.endpoint_http import TimeLimit
from demur.serve.hosts.kind import BadModelOutput
from demur.serve.hosts.outages import EndpointAway, Rest
from demur.serve.hosts.remote.metadata import differences
from demur.serve.hosts.remote.oip_grpc import OipGrpc
from demur.serve.hosts.remote.oip_rest import OipRest
from demur.serve.hosts.remote.plain_http import PlainHttp
from demur.serve.hosts.remote.replies import ReplyReader
from demur.serve.hosts.remote.server import RemoteServer
from demur.uncertainty.generation import as_column
from demur.uncertainty.output import Need, Output

log = logging.getLogger("demur.remote")

METADATA_SECONDS = 5.0
"""How long a server may take to say what it serves. Nothing waits for that."""

MOST_VERSIONS = 100


class RemoteModel:
    """A `Model`. One request asks about a whole batch; where that is refused, each input is asked about alone."""

    def __init__(self, model: ModelConfig, host: RemoteHost) -> None:
        """Raises `BadModel`."""
        self._host, self._labels = host, len(model.task.outputs)
        self.server = server_of(model, host)
        self._reader = ReplyReader(model.task, host, host.model_name)
        self._spec = spec_of(host.input)
        self._rest = Rest()
        self._differences: list[str] = []
        self._versions: dict[str, None] = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def spec(self) -> InputSpec:
        return self._spec

    def example(self) -> ModelInput:
        return example_of(self._spec)

    def look(self) -> None:
        """Compare in the background what the server says of its model with what is configured. A server that is away
        keeps nobody from starting."""
        self._looking = asyncio.create_task(self._look())

    async def run(self, request: ModelRequest) -> Output:
        """Rows about which the server could not be asked say so, and so do those that it refused."""
        limit = TimeLimit.of(self._host.timeout_seconds)
        if self._host.takes_batches:
            return await self._together(request.inputs, request.needs, limit)
        return await self._one_by_one(request.inputs, request.needs, limit)

    async def ask(self, inputs: Sequence[ModelInput], needs: frozenset[Need], limit: TimeLimit) -> Output:
        """Ask about inputs in one request. Raises `EndpointAway` or `BadModelOutput`, and `EngineFailed` where a reply
        is too long."""
        try:
            reply = await self.server.ask(inputs, limit)
        except EndpointAway as away:
            if self._rest.failed(away.outage, asyncio.get_running_loop().time()):
                log.warning("%s", away)
            raise
        if self._rest.answered():
            log.warning("%s answers again", self._host.url)
        if reply.version and len(self._versions) < MOST_VERSIONS:
            self._versions[reply.version] = None
        return self._reader.output(reply, len(inputs), needs)

    async def check_health(self) -> None:
        """Nothing: a server that is away does not come back because this process is started anew."""

    def remarks(self) -> list[str]:
        away = self._rest.in_words
        changed = (
            f"{self._host.url} has answered with versions {', '.join(map(repr, self._versions))} of its model; name one"
            " in host.version and fit for it"
            if len(self._versions) > 1
            else None
        )
        return [*filter(None, (away, changed)), *self._differences]

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        await self.server.close()

    async def _together(self, inputs: Sequence[ModelInput], needs: frozenset[Need], limit: TimeLimit) -> Output:
        try:
            return await self.ask(inputs, needs, limit)
        except EndpointAway as away:
            return self._away(away, len(inputs), needs)
        except (BadModelOutput, EngineFailed) as error:
            if len(inputs) > 1:  # one of them may be to blame
                return await self._one_by_one(inputs, needs, limit)
            log.warning("%s: %s", self._host.model_name, error)
            return self._unknown([f"the model's server gave no prediction: {error}"], needs)

    async def _one_by_one(self, inputs: Sequence[ModelInput], needs: frozenset[Need], limit: TimeLimit) -> Output:
        alone = await asyncio.gather(*(self._together([value], needs, limit) for value in inputs))
        return alone[0] if len(alone) == 1 else Output.concatenate(alone)

    def _away(self, away: EndpointAway, n: int, needs: frozenset[Need]) -> Output:
        unknown = self._unknown([f"the model could not be asked: {away}"] * n, needs)
        return replace(unknown, outages=as_column([away.outage] * n))

    def _unknown(self, whys: Sequence[str], needs: frozenset[Need]) -> Output:
        return replace(self._reader.nothing(len(whys), needs), unreadable=as_column(list(whys)))

    async def _look(self) -> None:
        try:
            said = await self.server.metadata(TimeLimit.of(METADATA_SECONDS))
        except (EndpointAway, BadModelOutput, EngineFailed) as error:
            log.info("%s does not say what it serves: %s", self._host.url, error)
            return
        if said is None:
            return
        for key, sentence in differences(said, self._host, self._labels):
            self._differences.append(f"host.{key}: {sentence}")
            log.warning("%s: host.%s: %s", self._host.model_name, key, sentence)


def server_of(model: ModelConfig, host: RemoteHost) -> RemoteServer:
    """Return the server of a model, opened in the running loop. Raises `BadModel`."""
    if host.protocol == "http":
        return PlainHttp(host, model.task.outputs)
    return OipGrpc(host) if host.protocol == "oip_grpc" else OipRest(host)
