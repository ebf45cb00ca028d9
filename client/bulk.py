"""How much is asked for at once: options, their defaults, and what becomes of each batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

from demur.client.api import OUTCOMES, PREDICTIONS, Api
from demur.client.batches import Batch, BatchBuilder, BatchKind
from demur.client.errors import DemurError
from demur.client.ids import key_of
from demur.client.items import Item
from demur.client.progress import Progress
from demur.client.results import Outcome, Prediction
from demur.client.settings import seconds_of
from demur.client.steps import Steps

T = TypeVar("T")

BATCH_SIZE = 64
BATCH_SECONDS = 600.0

AHEAD = 2
"""Batches for each connection that are under way, or wait for their turn to be handed out."""


class BulkOptions(TypedDict, total=False):
    """Options of everything that is sent in batches."""

    batch_size: int
    """Items of a batch, 64 by default; a batch of large inputs has fewer. The service takes up to 1,024."""

    concurrency: int
    """Batches at a time, at most as many as the client has connections; by default as many."""

    timeout: float | None
    """Seconds for one batch with all its retries, 600 by default; None is no limit."""

    progress: Progress
    """True: a bar, where there is a terminal; or a function of how many are done, and of how many."""

    idempotency_key: str
    """The beginning of each batch's key, by default a new one. The same inputs, batch size and key again give what is
    on record."""

    first: int
    """The number of the first input, 0 by default: it is a part of the keys, for whoever goes on in the middle."""


class PredictOptions(BulkOptions, total=False):
    """Options of predictions. Each holds for every input that is not an `Item` which says otherwise."""

    group: str | None
    cluster: str | None
    review: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Bulk(Generic[T]):
    """Many items that are asked about in batches."""

    api: Api
    kind: BatchKind[T]
    builder: BatchBuilder[T]
    key: str
    seconds: float
    concurrency: int
    progress: Progress
    raises: bool

    @property
    def most_waiting(self) -> int:
        """Batches that may be under way, or answered and not handed out yet."""
        return AHEAD * self.concurrency

    def steps(self, batch: Batch[T]) -> Steps[list[T | DemurError]]:
        """What is to be done for one batch."""
        return self.api.batch(self.kind, batch, key=self.key, seconds=self.seconds)

    def checked(self, result: T | DemurError) -> T | DemurError:
        """Return what became of an item, or raise it, as the caller wishes."""
        if self.raises and isinstance(result, DemurError):
            raise result
        return result


def bulk_predictions(
    api: Api, model: str, on_error: str, options: PredictOptions, connections: int
) -> Bulk[Prediction]:
    """Many inputs for one model."""
    defaults = Item(group=options.get("group"), cluster=options.get("cluster"), review=options.get("review"))
    builder = api.predictions(model, defaults, size=_size(options), first=options.get("first", 0))
    return _bulk(api, PREDICTIONS, builder, on_error, options, connections)


def bulk_outcomes(api: Api, on_error: str, options: BulkOptions, connections: int) -> Bulk[Outcome]:
    """Many outcomes."""
    builder = api.outcomes(size=_size(options), first=options.get("first", 0))
    return _bulk(api, OUTCOMES, builder, on_error, options, connections)


def _bulk(
    api: Api, kind: BatchKind[T], builder: BatchBuilder[T], on_error: str, options: BulkOptions, connections: int
) -> Bulk[T]:
    if unknown := sorted(options.keys() - PredictOptions.__optional_keys__):
        raise TypeError(
            f"there is no option {', '.join(map(repr, unknown))}; PredictOptions lists those that there are"
        )
    seconds, concurrency = seconds_of(options.get("timeout", BATCH_SECONDS)), options.get("concurrency", connections)
    if on_error not in ("raise", "return"):
        raise ValueError(f"on_error is 'raise' or 'return', not {on_error!r}")
    if concurrency < 1:
        raise ValueError("concurrency is at least 1")
    return Bulk(
        api=api,
        kind=kind,
        builder=builder,
        key=key_of(options.get("idempotency_key")),
        seconds=seconds,
        concurrency=min(concurrency, connections),
        progress=options.get("progress", False),
        raises=on_error == "raise",
    )


def _size(options: BulkOptions) -> int:
    size = options.get("batch_size", BATCH_SIZE)
    if size < 1:
        raise ValueError("batch_size is at least 1")
    return size
