"""`host: {kind: classifier}`: a classifier of the transformers library."""

from pathlib import Path
from typing import TYPE_CHECKING

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.classifier import ClassifierHost
from demur.serve.contract.model import Model
from demur.serve.hosts.checkpoint import check_suits, classifier_fingerprint, local_folder
from demur.serve.hosts.garbage import without_collection
from demur.serve.hosts.kind import ModelKind
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.one_thread import OneThread

if TYPE_CHECKING:
    from demur.serve.hosts.classifier.model import Classifier


async def _load(model: ModelConfig, _: Reviewed | None) -> Model:
    def load() -> "Classifier":
        with without_collection():
            from demur.serve.hosts.classifier.model import Classifier  # brings torch, which others do without

        return Classifier(_host(model), model.task)

    return await OneThread.started(load)


def _check(model: ModelConfig) -> None:
    check_suits(_host(model), model.task, _folder(model))


def _fingerprint(model: ModelConfig) -> str:
    return classifier_fingerprint(_host(model), _folder(model))


def _folder(model: ModelConfig) -> Path:
    return local_folder(_host(model).checkpoint, _host(model).revision)


def _is_here(model: ModelConfig) -> bool:
    adapter = _host(model).adapter
    return Path(_host(model).checkpoint).is_dir() and (adapter is None or adapter.is_dir())


def _host(model: ModelConfig) -> ClassifierHost:
    assert isinstance(model.host, ClassifierHost)
    return model.host


CLASSIFIER = ModelKind(load=_load, check=_check, fingerprint=_fingerprint, is_here=_is_here)
