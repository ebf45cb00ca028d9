"""`demur check`, of a model that is a class of the user's own."""

from collections.abc import Iterator

from demur.serve.commands.trials import Finding, Wrong
from demur.serve.config.file import ModelConfig
from demur.serve.hosts.kinds import check_model
from demur.serve.hosts.python_class import BadModelClass


def try_class(name: str, model: ModelConfig) -> Iterator[Finding]:
    """Look whether the class can be imported and has what a model must have, and whether its files are here."""
    try:
        check_model(model)
    except BadModelClass as error:
        key, _, why = str(error).partition(": ")
        yield Wrong(
            ("models", name, *(["host", key.removeprefix("host.")] if key.startswith("host.") else ["host"])), why
        )
