"""`host: {kind: sklearn}` without scikit-learn, which only a host that has such a model needs."""

from importlib.metadata import version

from demur.serve.config.file import ModelConfig
from demur.serve.contract.model import SyncModel
from demur.serve.hosts.tabular.kind import table_kind


def _opened(model: ModelConfig) -> SyncModel:
    from demur.serve.hosts.tabular.sklearn_model import SklearnModel  # brings scikit-learn, which others do without

    return SklearnModel(model)


def _family() -> str:
    """The versions of scikit-learn that read a file alike: saved models are meant for one minor version."""
    return "sklearn " + ".".join(version("scikit-learn").split(".")[:2])


SKLEARN = table_kind(
    _opened,
    family=_family,
    way_out="load it by hand in Python to see why, and save the model again with `skops.io.dump(model, path)`",
)
