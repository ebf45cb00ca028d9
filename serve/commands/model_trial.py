"""`demur check`, of a model that is not a checkpoint of the transformers library."""

from collections.abc import Iterator
from importlib.util import find_spec

from demur.serve.commands.trials import Finding, Wrong
from demur.serve.config.file import ModelConfig
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.kinds import check_model


def try_model(name: str, model: ModelConfig) -> Iterator[Finding]:
    """Look whether the model's files are here and are for its task, as far as that shows without loading it. A package
    that is missing has a trial of its own."""
    if model.host.package is not None and find_spec(model.host.package[0]) is None:
        return
    try:
        check_model(model)
    except BadModel as error:
        key, _, why = str(error).partition(": ")
        steps = key.split(".") if key.startswith(("host.", "task.")) else []
        yield Wrong(("models", name, *(steps or ["host"])), why if steps else str(error))
