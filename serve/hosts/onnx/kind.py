"""`host: {kind: onnx}`: a graph in ONNX's format."""

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.onnx import OnnxHost
from demur.serve.contract.model import Model
from demur.serve.hosts.kind import BadModel, ModelKind, TrialWords
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.one_thread import OneThread

if TYPE_CHECKING:
    from demur.serve.hosts.onnx.model import OnnxModel

READ_AS = {"input", "layout", "pixels", "output", "gives", "embedding"}
"""Settings that decide what the graph is given, and how it is read."""


async def _load(model: ModelConfig, _: Reviewed | None) -> Model:
    return await OneThread.started(lambda: _made(model))


def _made(model: ModelConfig, *, device: str | None = None) -> "OnnxModel":
    _check_installed()
    from demur.serve.hosts.onnx.model import OnnxModel  # brings onnxruntime, which others do without

    return OnnxModel(_host(model), model.task, device=device)


def _check(model: ModelConfig) -> None:
    """Load the graph and try it, on the CPU: that shows everything but whether there is the device."""
    _made(model, device="cpu")


def _fingerprint(model: ModelConfig) -> str:
    """Hash the graph, its weights, and how it is filled and read."""
    _check_installed()
    from demur.serve.hosts.onnx.files import files_of, fingerprint_of

    host = _host(model)
    told = json.dumps(host.model_dump(mode="json", include=READ_AS), sort_keys=True)
    return fingerprint_of(files_of(host.file), told)


def _is_here(model: ModelConfig) -> bool:
    if find_spec("onnx") is None:
        return False
    from demur.serve.hosts.onnx.files import files_of

    try:
        files_of(_host(model).file)
    except BadModel:
        return False
    return True


def _check_installed() -> None:
    for package in ("onnxruntime", "onnx"):
        if find_spec(package) is None:
            raise BadModel(f"host.kind: the package {package} is missing: {OnnxHost.package[1]}")


def _host(model: ModelConfig) -> OnnxHost:
    assert isinstance(model.host, OnnxHost)
    return model.host


ONNX = ModelKind(
    load=_load,
    check=_check,
    fingerprint=_fingerprint,
    is_here=_is_here,
    apart=TrialWords(
        key="host.file",
        way_out="export the model again, and see whether a session of onnxruntime takes it by hand",
        state=lambda _: "",  # its weights may lie in other files
    ),
)
