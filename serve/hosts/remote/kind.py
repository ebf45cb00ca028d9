"""`host: {kind: remote}`, as one line of the table of kinds."""

import hashlib
import json

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.remote import RemoteHost
from demur.serve.contract.inputs import example_of, spec_of
from demur.serve.contract.model import Model
from demur.serve.hosts.kind import BadModel, BadModelOutput, ModelKind
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.remote.model import RemoteModel
from demur.serve.hosts.remote.plain_http import paths_of
from demur.serve.hosts.remote.request_body import BodyWriter
from demur.serve.hosts.remote.server import certificates, secret_headers

ASKED = {
    *("protocol", "url", "model", "version", "input", "tensor", "parameters", "request", "table_rows", "layout"),
    *("takes_batches", "output", "output_labels", "embedding", "embedding_size", "gives", "labels"),
}
"""Settings on which it hangs what is said about an input: who is asked, how, and what is read of the reply."""


async def _load(model: ModelConfig, _: Reviewed | None) -> Model:
    remote = RemoteModel(model, _host(model))
    remote.look()
    return remote


def _check(model: ModelConfig) -> None:
    """Raise `BadModel` for what can be seen without asking the server."""
    host = _host(model)
    secret_headers(host)
    certificates(host)
    if host.protocol != "http":
        return
    paths_of(host)
    try:
        BodyWriter(host, model.task.outputs).body([example_of(spec_of(host.input))])
    except BadModelOutput as error:
        raise BadModel(str(error)) from None


def _fingerprint(model: ModelConfig) -> str:
    """Hash who is asked and how. Nobody here can tell when the model behind an address changes: `version` says so."""
    asked = _host(model).model_dump(mode="json", include=ASKED)
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _host(model: ModelConfig) -> RemoteHost:
    assert isinstance(model.host, RemoteHost)
    return model.host


REMOTE = ModelKind(load=_load, check=_check, fingerprint=_fingerprint, is_here=lambda _: True)
