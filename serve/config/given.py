"""Which scores go with predictions that were made elsewhere: those that read what each request brings."""

from typing import TYPE_CHECKING

from demur.serve.config.hosts.given import BROUGHT, GivenHost
from demur.uncertainty.combination import COMBINATIONS
from demur.uncertainty.given_scores import GivenScore
from demur.uncertainty.output import Need
from demur.uncertainty.scores import SCORES

if TYPE_CHECKING:
    from demur.serve.config.file import ModelConfig


def given_scores(model: "ModelConfig") -> dict[str, GivenScore]:
    """Return the scores that requests bring as numbers, by name."""
    host = model.host
    if not isinstance(host, GivenHost):
        return {}
    return {
        name: GivenScore(column=column, surer=meaning == "surer")
        for column, (name, meaning) in enumerate(host.scores.items())
    }


def check_names(model: "ModelConfig") -> None:
    """Raise `ValueError` where a number that requests bring is called like a score of demur's."""
    host = model.host
    names = host.scores if isinstance(host, GivenHost) else ()
    if taken := [name for name in names if name in SCORES or name in COMBINATIONS]:
        raise ValueError(f"host.scores.{taken[0]}: demur has a score of this name; choose another one")


def check_given(model: "ModelConfig", kind: str, needs: frozenset[Need], place: str) -> None:
    """Raise `ValueError` for something that reads what requests do not bring."""
    host = model.host
    if not isinstance(host, GivenHost):
        return
    for need in sorted(needs):
        parts = BROUGHT.get(need, ())
        if need not in host.may_give:
            way_out = f"add {' or '.join(map(repr, parts))} there and send it" if parts else "no request can bring that"
            raise ValueError(
                f"{place}: {kind} reads {need.replace('_', ' ')}, and `host.gives` has {', '.join(host.gives)};"
                f" {way_out}, or leave {kind} out"
            )
