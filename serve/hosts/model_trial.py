"""Checks of models, each in a process of its own."""

from pathlib import Path
from typing import Any

from demur.serve.config.file import ModelConfig
from demur.serve.hosts.kind import BadModel, TrialWords
from demur.serve.hosts.trial_process import ProcessEnded, TrialLimits, answer_with, done_apart

_passed: set[tuple[str, str]] = set()
"""Models whose check went well in this process, by configuration and by the state of their files."""


def try_apart(model: ModelConfig, words: TrialWords, limits: TrialLimits | None = None) -> None:
    """Raise `BadModel` unless the model passes its check, in a process that ends with it."""
    state = words.state(model)
    if (known := (model.model_dump_json(), state)) in _passed:
        return
    try:
        done_apart(__name__, model.model_dump(mode="json"), limits)
    except ProcessEnded as error:
        raise BadModel(f"{words.key}: {model.host.model_name} {error}; {words.way_out}") from None
    if state:
        _passed.add(known)


def state_of(file: Path) -> str:
    """Return what changes when a file is written anew; empty for one that is not there."""
    try:
        found = file.stat()
    except OSError:
        return ""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def _check(told: Any) -> None:
    from demur.serve.hosts.kinds import check_here

    check_here(ModelConfig.model_validate(told))


if __name__ == "__main__":
    answer_with(_check)
