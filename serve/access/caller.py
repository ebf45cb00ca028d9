"""Who asks, and what they may do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil
from time import monotonic
from typing import Any

from demur.serve.access.rates import Bucket
from demur.serve.access.refusals import NotAllowed, TooOften
from demur.serve.config.access import Scope

CALLER = "demur.caller"
"""Where an ASGI scope holds the caller. It is there, as None for a stranger at an open door, wherever access is on."""


class Via(StrEnum):
    KEY = "key"
    SESSION = "session"
    PROXY = "proxy"


class RateBuckets:
    """What a key has left of its rates in this process."""

    def __init__(
        self,
        requests: Bucket | None = None,
        predictions: Bucket | None = None,
        models: Mapping[str, Bucket] | None = None,
    ) -> None:
        self.requests, self.predictions, self.models = requests, predictions, dict(models or {})


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Somebody who has shown who they are."""

    name: str
    """Stands beside what they do."""

    scopes: frozenset[Scope]
    via: Via
    key_id: str | None = None
    """Of the key, also where it was used to log in; None for people who came another way."""

    session_id: str | None = None
    models: frozenset[str] | None = None
    """What may be asked, and asked about; None for all."""

    buckets: RateBuckets | None = field(default=None, repr=False, compare=False)

    @property
    def owner(self) -> str:
        """Under which name keys, places and bytes are theirs. A key that is made in the place of another one, under the
        same name, is the same owner."""
        return f"{self.via} {self.name}"

    def may(self, needs: Scope) -> bool:
        return needs in self.scopes or Scope.ADMIN in self.scopes

    def check_model(self, model: str) -> None:
        """Raise `NotAllowed` for a model that this caller may not ask."""
        if self.models is not None and model not in self.models:
            raise NotAllowed(
                f"model: this key is not for {model!r}; it is for: {', '.join(sorted(self.models)) or 'none'}"
            )

    def take_request(self) -> None:
        """Count one request, or raise `TooOften`."""
        if self.buckets is not None and (bucket := self.buckets.requests) is not None:
            _take({"requests": (bucket, 1)})

    def take_predictions(self, asked: Mapping[str, int]) -> None:
        """Count predictions by model, or raise `TooOften` and count none. Models are checked before."""
        if self.buckets is None:
            return
        wanted: dict[str, tuple[Bucket, int]] = {}
        if self.buckets.predictions is not None:
            wanted["predictions"] = (self.buckets.predictions, sum(asked.values()))
        for model, n in asked.items():
            if model in self.buckets.models:
                wanted[f"predictions of {model}"] = (self.buckets.models[model], n)
        if wanted:
            _take(wanted)


def _take(wanted: Mapping[str, tuple[Bucket, int]]) -> None:
    now = monotonic()
    waits = {what: bucket.wait(n, now) for what, (bucket, n) in wanted.items()}
    what, longest = max(waits.items(), key=lambda item: item[1])
    if longest > 0:
        rate = wanted[what][0].rate
        refused = TooOften(
            f"this key may ask for {rate.per_second:g} {what} per second, {rate.burst:g} at once; try again in"
            f" {ceil(longest)} s"
        )
        refused.seconds = longest
        raise refused
    for bucket, n in wanted.values():
        bucket.take(n)


def caller_of(scope: Mapping[str, Any]) -> Caller | None:
    """Who sends this ASGI request; None for a stranger, and for everybody where access is off."""
    caller: Caller | None = scope.get(CALLER)
    return caller


def owner_of(caller: Caller | None) -> str:
    """Return `Caller.owner`; empty where nobody is asked who they are, because all callers are then one."""
    return "" if caller is None else caller.owner


def access_is_on(scope: Mapping[str, Any]) -> bool:
    """Whether somebody stands at the door: if not, everybody may do everything."""
    return CALLER in scope
