"""The kinds of model that a host can run. A new kind is a module, a file in `demur.serve.config.hosts`, and a line
here."""

from demur.serve.config.file import ModelConfig
from demur.serve.hosts.classifier.kind import CLASSIFIER
from demur.serve.hosts.given import GIVEN
from demur.serve.hosts.kind import ModelKind
from demur.serve.hosts.language.kind import ENDPOINT, LANGUAGE
from demur.serve.hosts.model_trial import try_apart
from demur.serve.hosts.onnx.kind import ONNX
from demur.serve.hosts.python_class import PYTHON
from demur.serve.hosts.remote.kind import REMOTE
from demur.serve.hosts.tabular.lightgbm_model import LIGHTGBM
from demur.serve.hosts.tabular.sklearn_kind import SKLEARN
from demur.serve.hosts.tabular.xgboost_model import XGBOOST

KINDS: dict[str, ModelKind] = {
    "classifier": CLASSIFIER,
    "python": PYTHON,
    "sklearn": SKLEARN,
    "xgboost": XGBOOST,
    "lightgbm": LIGHTGBM,
    "onnx": ONNX,
    "given": GIVEN,
    "remote": REMOTE,
    "transformers": LANGUAGE,
    "vllm": LANGUAGE,
    "openai": ENDPOINT,
}
"""By `host.kind` in the configuration."""


def kind_of(model: ModelConfig) -> ModelKind:
    """Return the kind of a configured model."""
    return KINDS[model.host.kind]


def check_here(model: ModelConfig) -> None:
    """Raise an error that says what to do, unless the model can be loaded and is for its task. What its files or its
    code do to a process, they do to this one."""
    kind_of(model).check(model)


def check_model(model: ModelConfig) -> None:
    """Raise what `check_here` raises. Files and code of others are tried in a process of their own."""
    kind = kind_of(model)
    if kind.apart is None:
        check_here(model)
    else:
        try_apart(model, kind.apart)
