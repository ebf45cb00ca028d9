"""Whether the server of a remote model is there, serves what is configured, and says of an input what can be read."""

import asyncio
from collections.abc import Iterator

from demur.serve.commands.http_answer import SECONDS
from demur.serve.commands.trials import Finding, NotTried, Remark, Wrong
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.remote import RemoteHost
from demur.serve.contract.engine import EngineFailed
from demur.serve.hosts.endpoint_http import TimeLimit
from demur.serve.hosts.kind import BadModelOutput
from demur.serve.hosts.outages import EndpointAway
from demur.serve.hosts.remote.metadata import differences
from demur.serve.hosts.remote.model import RemoteModel
from demur.serve.hosts.remote.server import InputRefused

Key = tuple[str, ...]
"""Of a setting of the host."""


def try_remote(name: str, model: ModelConfig, *, offline: bool) -> Iterator[Finding]:
    """Compare what the server says of its model with the configuration, and ask about one input without meaning. What
    can be seen without asking was looked at before."""
    host = model.host
    assert isinstance(host, RemoteHost)
    if offline:
        yield NotTried(f"the server of {name}, {host.model_name} (--offline)")
        return
    wrong, remarks = asyncio.run(_asked(model, host))
    yield from (Remark(f"{name}: {sentence}") for sentence in remarks)
    yield from (Wrong(("models", name, "host", *key), sentence) for key, sentence in wrong)


async def _asked(model: ModelConfig, host: RemoteHost) -> tuple[list[tuple[Key, str]], list[str]]:
    """What would keep predictions from being decided, and what may not."""
    remote = RemoteModel(model, host)
    try:
        return await _looked_at(model, host, remote)
    except EndpointAway as away:
        return [(("url",), str(away))], []
    finally:
        await remote.close()


async def _looked_at(
    model: ModelConfig, host: RemoteHost, remote: RemoteModel
) -> tuple[list[tuple[Key, str]], list[str]]:
    limit = TimeLimit.of(min(SECONDS, host.timeout_seconds))
    remarks: list[str] = []
    try:
        said = await remote.server.metadata(limit)
    except EndpointAway:
        raise
    except (BadModelOutput, EngineFailed) as error:
        said = None
        remarks.append(f"{host.url} does not say what it serves: {error}")
    if said is not None:
        differing = list(differences(said, host, len(model.task.outputs)))
        if differing:
            return [(tuple(key.split(".")), sentence) for key, sentence in differing], remarks
    example, needs = remote.example(), model.recipe.needs & host.may_give - {"probabilities"}
    try:
        await remote.ask([example], needs, TimeLimit.of(limit.seconds))
    except EndpointAway:
        raise
    except InputRefused as error:  # the input has no meaning, and may be refused for that
        remarks.append(f"an input without meaning was not taken, so that no reply was seen: {error}")
    except (BadModelOutput, EngineFailed) as error:
        return [_placed(str(error))], remarks
    return [], remarks


def _placed(error: str) -> tuple[Key, str]:
    """The key that a message begins with, as in `host.output (probabilities): ...`, and the rest of it."""
    place, _, why = error.partition(": ")
    if not place.startswith("host."):
        return ("output",), error
    key, _, beside = place.partition(" ")
    return tuple(key.removeprefix("host.").split(".")), f"{beside.strip('()')}: {why}" if beside else why
