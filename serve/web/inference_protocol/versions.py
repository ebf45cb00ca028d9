"""Versions of a model, as the protocol has them: the artifacts that decide at present."""

from demur.serve.contract.hosts import HostState
from demur.serve.contract.inputs import InvalidRequest


class UnknownVersion(LookupError):
    """The artifact that was asked for does not decide at present. Leave the version out, or ask for one in force."""


def versions_of(state: HostState) -> list[str]:
    """The one in force, and a canary."""
    return [name for name in (state.artifact, state.canary) if name]


def check_version(model: str, wanted: str, state: HostState) -> None:
    """Raise `UnknownVersion` unless this artifact decides at present."""
    if wanted not in versions_of(state):
        there = ", ".join(versions_of(state)) or "none"
        raise UnknownVersion(f"version: {wanted!r} of model {model!r} is not in force; in force: {there}")


def check_decides_all(model: str, wanted: str, state: HostState) -> None:
    """Check the version as `check_version` does, and raise `InvalidRequest` where another one may decide about a row by
    chance."""
    check_version(model, wanted, state)
    if state.canary:
        raise InvalidRequest(
            f"version: {state.canary!r} decides about a share of the requests at present, drawn by chance; leave the"
            " version out"
        )
