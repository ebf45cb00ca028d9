"""A client for programs with `await`: as `Client`, with coroutines."""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack, cast, overload
from uuid import UUID

import httpx

from demur.client.artifacts import AsyncArtifacts
from demur.client.batches import Batch
from demur.client.bulk import Bulk, BulkOptions, PredictOptions, bulk_outcomes, bulk_predictions
from demur.client.errors import CLOSED, ClientClosed, DemurError
from demur.client.files import whole_file
from demur.client.ids import Id
from demur.client.items import Item, NewOutcome, length_of, rows_of
from demur.client.progress import shown_progress
from demur.client.results import Erasure, Health, Label, Outcome, Prediction, PredictionView, Report
from demur.client.settings import CONNECTIONS, SECONDS, Settings
from demur.client.steps import Reply, Send, Steps
from demur.client.transfer import GRACE, TROUBLE, ReplyReader, no_reply, request_of

T = TypeVar("T")


class AsyncClient:
    """Asks one service, for programs with `await`. Close it, or use it in an `async with` block.

    `url` and `key` come from DEMUR_URL and DEMUR_KEY where they are not given; without either it is port 8000 of this
    machine. `timeout` is for how many seconds one thing is asked for, with all retries; None is no limit.
    `concurrency` is how many connections there are at most. `name` says who you are to a service that asks nobody for
    keys.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        name: str | None = None,
        timeout: float | None = SECONDS,
        concurrency: int = CONNECTIONS,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._settings = Settings(url, key, name=name, timeout=timeout, concurrency=concurrency, clock=clock)
        self._api = self._settings.api
        self._sleep = sleep
        self.artifacts = AsyncArtifacts(self._settings.artifact_api, self._do)
        """What was fitted, and which of it decides: see `AsyncArtifacts`."""
        self._http = httpx.AsyncClient(**self._settings.http, transport=transport)

    def __repr__(self) -> str:
        return f"AsyncClient({self._settings.shown!r})"

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def predict(
        self,
        model: str,
        input: Any = None,
        *,
        output: Any = None,
        group: str | None = None,
        cluster: str | None = None,
        review: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Prediction:
        """Ask for one prediction. `output` is what a model elsewhere said, for services that take that. `review` says
        how soon a person is to look: `{"priority": 1, "due_seconds": 3600}`."""
        item = Item(input=input, output=output, group=group, cluster=cluster, review=review)
        return await self._do(self._api.predict(model, item, key=idempotency_key, seconds=timeout))

    @overload
    async def predict_many(
        self, model: str, inputs: Any, *, on_error: Literal["raise"] = "raise", **options: Unpack[PredictOptions]
    ) -> list[Prediction]: ...

    @overload
    async def predict_many(
        self, model: str, inputs: Any, *, on_error: Literal["return"], **options: Unpack[PredictOptions]
    ) -> list[Prediction | DemurError]: ...

    async def predict_many(self, model: str, inputs: Any, *, on_error: Any = "raise", **options: Any) -> Any:
        """Predict each input of a list, an array or a table, and return the predictions in order.

        Inputs go out in batches, `batch_size` at a time and `concurrency` batches at once. An input that the service
        refuses is raised, or with `on_error="return"` stands as an exception in its place. What nobody answers at all
        is raised in any case. `PredictOptions` in `demur.client.bulk` describes all options.
        """
        return [one async for one in self.predict_iter(model, inputs, on_error=on_error, **options)]

    @overload
    def predict_iter(
        self, model: str, inputs: Any, *, on_error: Literal["raise"] = "raise", **options: Unpack[PredictOptions]
    ) -> AsyncGenerator[Prediction]: ...

    @overload
    def predict_iter(
        self, model: str, inputs: Any, *, on_error: Literal["return"], **options: Unpack[PredictOptions]
    ) -> AsyncGenerator[Prediction | DemurError]: ...

    def predict_iter(self, model: str, inputs: Any, *, on_error: Any = "raise", **options: Any) -> Any:
        """Do what `predict_many` does, but yield each prediction as soon as those before it are there.

        Of the inputs no more are in memory than the batches that are under way. An exception among the inputs stands
        for one that is refused already, and comes back in its place."""
        told = cast("PredictOptions", options)
        bulk = bulk_predictions(self._api, model, on_error, told, self._settings.connections)
        return self._each(bulk, inputs, f"asking {model}")

    async def prediction(self, id: Id) -> PredictionView:
        """What became of a prediction."""
        return await self._do(self._api.prediction(id))

    async def wait(self, id: Id, timeout: float | None = None) -> PredictionView:
        """Wait until a person has said what is true of a prediction, or nobody is asked about it any more; raise
        `StillWaiting` after so many seconds. What was never held comes back at once."""
        return await self._do(self._api.wait(id, timeout))

    async def add_outcome(
        self,
        id: Id,
        label: Label,
        source: str = "api",
        author: str | None = None,
        *,
        text: str | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Tell what is true of a prediction. `text` is what should have been written in the place of a text that is
        `wrong`."""
        return await self._do(self._api.add_outcome(id, label, source, author, text, key=idempotency_key))

    @overload
    async def add_outcomes(
        self,
        outcomes: Iterable[NewOutcome | Mapping[str, Any]],
        *,
        on_error: Literal["raise"] = "raise",
        **options: Unpack[BulkOptions],
    ) -> list[Outcome]: ...

    @overload
    async def add_outcomes(
        self,
        outcomes: Iterable[NewOutcome | Mapping[str, Any]],
        *,
        on_error: Literal["return"],
        **options: Unpack[BulkOptions],
    ) -> list[Outcome | DemurError]: ...

    async def add_outcomes(self, outcomes: Any, *, on_error: Any = "raise", **options: Any) -> Any:
        """Tell what is true of many predictions: `NewOutcome`s, or objects with `id`, `label`, and perhaps `source` and
        `author`. Options are as for `predict_many`."""
        return [one async for one in self.outcomes_iter(outcomes, on_error=on_error, **options)]

    def outcomes_iter(
        self,
        outcomes: Iterable[NewOutcome | Mapping[str, Any] | DemurError],
        *,
        on_error: Literal["raise", "return"] = "raise",
        **options: Unpack[BulkOptions],
    ) -> AsyncGenerator[Outcome | DemurError]:
        """Do what `add_outcomes` does, but yield each outcome as soon as those before it are written. An exception
        among them stands for one that is refused already, and comes back in its place."""
        return self._each(
            bulk_outcomes(self._api, on_error, options, self._settings.connections), outcomes, "telling outcomes"
        )

    async def erase(self, id: Id) -> Erasure:
        """Erase the input and the reply of a prediction. Its record stays."""
        return await self._do(self._api.erase(id))

    async def health(self) -> Health:
        """How the service and its models are."""
        return await self._do(self._api.health())

    async def models(self) -> list[str]:
        """Names of the models that may be asked."""
        return await self._do(self._api.models())

    async def export(
        self,
        model: str,
        to: str | Path,
        *,
        format: Literal["label-studio", "csv", "parquet", "jsonl"] = "jsonl",
        statuses: Iterable[str] = (),
        with_predictions: bool = False,
    ) -> int:
        """Write the review cases of a model to a file, and return how many were left out because their input is no
        longer kept. `statuses`: only these, such as `["waiting"]`."""
        with whole_file(Path(to)) as file:
            steps = self._api.export(model, file, format=format, statuses=statuses, with_predictions=with_predictions)
            return await self._do(steps)

    async def reports(self, model: str | None = None, *, limit: int = 50) -> list[Report]:
        """Reports of audits, newest first."""
        return await self._do(self._api.reports(model, limit))

    async def report(self, id: str | UUID) -> Report:
        """One report with every number, in `raw`."""
        return await self._do(self._api.report(id))

    async def _each(self, bulk: Bulk[T], values: Any, what: str) -> AsyncGenerator[T | DemurError]:
        with shown_progress(bulk.progress, length_of(values), what) as advance:
            async with aclosing(self._in_order(bulk, values)) as answers:
                async for results in answers:
                    for result in results:
                        yield bulk.checked(result)
                    advance(len(results))

    async def _in_order(self, bulk: Bulk[T], values: Any) -> AsyncGenerator[list[T | DemurError]]:
        """The answers of each batch, in order, while later batches are under way."""
        gate = asyncio.Semaphore(bulk.concurrency)
        waiting: deque[asyncio.Task[list[T | DemurError]]] = deque()

        async def ask(batch: Batch[T]) -> list[T | DemurError]:
            async with gate:
                return await self._do(bulk.steps(batch))

        try:
            async for value in _each_of(values):
                waiting.extend(asyncio.create_task(ask(batch)) for batch in bulk.builder.add(value))
                while waiting and (waiting[0].done() or len(waiting) >= bulk.most_waiting):
                    yield await waiting.popleft()
            waiting.extend(asyncio.create_task(ask(batch)) for batch in bulk.builder.rest())
            while waiting:
                yield await waiting.popleft()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _do(self, steps: Steps[T]) -> T:
        """Do one step after the other, until they come to an end."""
        try:
            step = next(steps)
            while True:
                if not isinstance(step, Send):
                    await self._sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    reply = await self._reply_to(step)
                except TROUBLE as error:
                    step = steps.throw(no_reply(error, self._settings.shown))
                else:
                    step = steps.send(reply)
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def _reply_to(self, step: Send) -> Reply:
        try:
            async with asyncio.timeout(step.seconds + GRACE if math.isfinite(step.seconds) else None):
                return await self._read_reply(step)
        except TimeoutError:  # also of headers that come drop by drop
            raise httpx.ReadTimeout("the reply did not end in time") from None

    async def _read_reply(self, step: Send) -> Reply:
        try:
            response = await self._http.send(request_of(self._http, step), stream=True)
        except RuntimeError:
            if self._http.is_closed:
                raise ClientClosed(CLOSED) from None
            raise
        try:
            received = ReplyReader(step, response, self._settings.clock)
            async for part in response.aiter_bytes():
                received.take(part)
        finally:
            await response.aclose()
        return received.reply()


async def _each_of(values: Any) -> AsyncIterator[Any]:
    """Each input, also of what has to be awaited."""
    if isinstance(values, AsyncIterable):
        async for value in values:
            yield value
        return
    for value in rows_of(values):
        yield value
