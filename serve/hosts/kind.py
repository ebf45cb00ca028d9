"""What demur must know of a kind of model to load, check and recognise one."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from demur.serve.config.file import ModelConfig
from demur.serve.contract.model import Model
from demur.serve.hosts.language.few_shot import Reviewed


class BadModel(ValueError):
    """A model cannot be served as it is configured. The message says what to do, and begins with the key where one is
    to blame: `host.file: there is no file model.onnx`."""


class BadModelOutput(RuntimeError):
    """A model gave what cannot be read as it should be. The message says what came, and what would be right."""


@dataclass(frozen=True, kw_only=True)
class TrialWords:
    """What is told of a model whose check ended the process that made it."""

    key: str
    """To which the message belongs."""

    way_out: str
    """What to do."""

    state: Callable[[ModelConfig], str]
    """Return what changes with the model's files, so that a check need not be made twice; empty where it is to be."""


@dataclass(frozen=True, kw_only=True)
class ModelKind:
    """A kind of model, as one line of the table in `demur.serve.hosts.kinds`."""

    load: Callable[[ModelConfig, Reviewed | None], Coroutine[Any, Any, Model]]
    """Load a configured model in the running event loop. `Reviewed` gives reviewers' answers, for few-shot examples."""

    check: Callable[[ModelConfig], None]
    """Raise an error that says what to do, `BadModel` for most kinds, unless the model's files are here and are for the
    model's task. No weights are loaded, except of a model of tables, whose file says nowhere else what it takes."""

    fingerprint: Callable[[ModelConfig], str]
    """Return what changes whenever the model would say something else: artifacts are bound to it."""

    is_here: Callable[[ModelConfig], bool]
    """Whether this machine has all files that the fingerprint is made of."""

    apart: TrialWords | None = None
    """Set where `check` opens files or imports code that may end or fill the process: it is then made in another."""
