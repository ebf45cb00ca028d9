"""What the kinds of models that lie in one file have in common."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from importlib.util import find_spec

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.tabular import TableHost
from demur.serve.contract.model import Model, SyncModel
from demur.serve.hosts.kind import BadModel, ModelKind, TrialWords
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.model_trial import state_of, try_apart
from demur.serve.hosts.one_thread import OneThread


def table_kind(
    opened: Callable[[ModelConfig], SyncModel],
    *,
    family: Callable[[], str],
    way_out: str,
    crashes: bool = False,
) -> ModelKind:
    """Return the kind of model that `opened` reads from its file.

    `family` returns what has to stay as it is beside the file: the versions of a library that read a file alike.
    `way_out` says what to do about a file that cannot be read. `crashes`: the library is known to end the process that
    reads a damaged file, so that the file is tried in another process before it is loaded as well.
    """
    words = TrialWords(key="host.file", way_out=way_out, state=lambda model: state_of(table_host(model).file))

    def open_here(model: ModelConfig) -> SyncModel:
        check_here(table_host(model))
        return opened(model)

    async def load(model: ModelConfig, _: Reviewed | None) -> Model:
        check_here(table_host(model))
        if crashes:
            await asyncio.to_thread(try_apart, model, words)
        return await OneThread.started(lambda: open_here(model))

    def check(model: ModelConfig) -> None:
        open_here(model)  # such a file is small, and what it decides between stands nowhere else

    def fingerprint(model: ModelConfig) -> str:
        host = table_host(model)
        check_file(host)
        columns = [] if host.input is None else list(host.input.columns)
        digest = hashlib.sha256(json.dumps([family(), columns]).encode() + b"\0")
        with host.file.open("rb") as content:
            while chunk := content.read(2**20):
                digest.update(chunk)
        return digest.hexdigest()

    def is_here(model: ModelConfig) -> bool:
        return table_host(model).file.is_file()

    return ModelKind(load=load, check=check, fingerprint=fingerprint, is_here=is_here, apart=words)


def check_here(host: TableHost) -> None:
    """Raise `BadModel` unless the file and the library are on this machine."""
    check_file(host)
    if host.package is not None and find_spec(host.package[0]) is None:
        raise BadModel(f"host.kind: the package {host.package[0]} is missing: {host.package[1]}")


def check_file(host: TableHost) -> None:
    """Raise `BadModel` unless the file is on this machine."""
    if host.file.is_dir():
        raise BadModel(f"host.file: {host.file} is a folder; name the file of the model in it")
    if not host.file.is_file():
        raise BadModel(f"host.file: there is no file {host.file}")


def table_host(model: ModelConfig) -> TableHost:
    """Return the host of a model of such a kind."""
    assert isinstance(model.host, TableHost)
    return model.host
