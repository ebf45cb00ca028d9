"""Requests for predictions on their way to their records: read, decide, finish, commit.

`serve/contract/rows.py` has the shape that a row has after each stage.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from demur.calibration_store.store import ArtifactNotFound
from demur.serve.access.caller import Caller
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.commit import CommitOutcome
from demur.serve.contract.hosts import ModelNotReady, UnknownModel
from demur.serve.contract.inputs import CheckedInput, InvalidRequest, ModelInput
from demur.serve.contract.rows import PendingRow
from demur.serve.contract.wire import PredictRequest
from demur.serve.gateway.cascade import follow
from demur.serve.gateway.model_client import ModelClient
from demur.serve.gateway.pictures import PictureReader, Read
from demur.serve.gateway.reading import value_for, value_or_error
from demur.serve.gateway.upstream import UpstreamProblem
from demur.serve.gateway.writer import Writer
from demur.serve.telemetry.request_context import VISIT
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.record import KeyUse

CANNOT_STAND_IN = (InvalidRequest, UnknownModel, ModelNotReady, ArtifactNotFound)
"""What a model may answer that is asked in the place of another: the caller is then told of the other one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestGroup:
    """Requests that came together."""

    requests: Sequence[PredictRequest]
    uses: Sequence[KeyUse | None]
    """Of each, the use of an Idempotency-Key."""

    caller: Caller | None = None
    together: bool = False
    """Whether what does not fit one of them is raised before anything is decided about the others."""

    by_this_model: bool = False
    """Whether no other model may be asked in the place of one that is away."""

    instead: Sequence[str] = ()
    """Why each goes to a model that its caller did not ask for; empty where each asks its own."""


class Pipeline:
    """Serves groups of requests."""

    def __init__(
        self,
        models: Mapping[str, ModelClient],
        pictures: PictureReader,
        writer: Writer,
        *,
        new_id: Callable[[], UUID],
    ) -> None:
        self.models = models
        self._pictures = pictures
        self._writer = writer
        self._new_id = new_id

    def model(self, name: str) -> ModelClient:
        """Return the way to a model. Raises `UnknownModel`."""
        if name not in self.models:
            raise UnknownModel(f"model: there is no model {name!r}; there are: {', '.join(self.models)}")
        return self.models[name]

    async def run(self, group: RequestGroup) -> list[CommitOutcome]:
        """Return for each request what is on disk, or why nothing is."""
        with self._pictures.request() as read:
            rows = await self._read(group, read)
            by_model = _by_model([row for row in rows if isinstance(row, PendingRow)])
            work = [self._decide_and_write(model, members, read) for model, members in by_model.items()]
            # one alone is awaited, which spares the time that it takes to make a task
            parts = [await work[0]] if len(work) == 1 else await asyncio.gather(*work)
        if len(parts) == 1 and len(parts[0]) == len(rows):
            outcomes = parts[0]
        else:
            written = dict(zip(by_model, map(iter, parts), strict=True))
            outcomes = [next(written[row.request.model]) if isinstance(row, PendingRow) else row for row in rows]
        if any(isinstance(one, UpstreamProblem) and one.passed_to for one in outcomes):
            return await self._ask_instead(group, outcomes)
        return outcomes

    async def _read(self, group: RequestGroup, read: Read) -> list[PendingRow | Exception]:
        """The stage `read`: each request with its input as its model takes it, or what is wrong with it."""
        ids = [self._new_id() for _ in group.requests]  # before anything is decided, because draws hang on them
        inputs = await self._inputs(group.requests, read)
        at, visit = time.perf_counter(), VISIT.get()
        rows: list[PendingRow | Exception] = []
        for n, (request, use, value) in enumerate(zip(group.requests, group.uses, inputs, strict=True)):
            if isinstance(value, Exception):
                if group.together:
                    raise _of_row(n, value) if len(inputs) > 1 else value
                rows.append(value)
                continue
            if value.kept is not request.input:
                request = request.model_copy(update={"input": value.kept})
            rows.append(
                PendingRow(
                    ids[n],
                    request,
                    value.value,
                    at,
                    use,
                    visit,
                    passes_to=None if group.by_this_model else self._following(request.model, group.caller),
                    instead=group.instead[n] if group.instead else "",
                )
            )
        return rows

    async def _inputs(self, requests: Sequence[PredictRequest], read: Read) -> list[CheckedInput | Exception]:
        """The inputs of one model are read together."""
        models = dict.fromkeys(request.model for request in requests)
        if len(models) == 1:
            return list(await self._inputs_of(requests[0].model, requests, read))
        inputs: dict[str, Iterator[CheckedInput | Exception]] = {}
        for model in models:
            members = [request for request in requests if request.model == model]
            inputs[model] = iter(await self._inputs_of(model, members, read))
        return [next(inputs[request.model]) for request in requests]

    async def _inputs_of(
        self, model: str, requests: Sequence[PredictRequest], read: Read
    ) -> Sequence[CheckedInput | Exception]:
        try:
            client = self.model(model)
            spec = await client.spec()
            values = [value_or_error(request, given=client.config.host.is_given) for request in requests]
            found = iter(await read(model, [one for one in values if not isinstance(one, Exception)], spec))
            return [one if isinstance(one, Exception) else next(found) for one in values]
        except (UnknownModel, ModelNotReady, Overloaded) as error:
            return [error] * len(requests)

    def _following(self, model: str, caller: Caller | None) -> str | None:
        """The model that is asked where this one is away; None where there is none that this caller may ask."""
        following = self.models[model].config.fall_back_to
        if following is None or following not in self.models:
            return None
        return following if caller is None or caller.models is None or following in caller.models else None

    async def _decide_and_write(self, model: str, rows: list[PendingRow], read: Read) -> list[CommitOutcome]:
        """The stages `decide`, `finish` and `commit` for the rows of one model. The last two happen for a whole batch
        in `Writer.write_batch`, before this goes on; what is open after that is ended here."""
        try:
            outcomes = await self.models[model].decide(rows)
            left = [n for n, outcome in enumerate(outcomes) if outcome.done is None]
            if left:
                pending = [rows[n] for n in left]
                last = await follow(
                    model, self.models, pending, [outcomes[n].row for n in left], read=partial(_read_again, read)
                )
                for n, done in zip(left, await self._writer.write(pending, last), strict=True):
                    outcomes[n].done = done
        except (ArtifactNotFound, Overloaded, DatabaseUnavailable) as error:
            return [error] * len(rows)
        return [outcome.done for outcome in outcomes if outcome.done is not None]

    async def _ask_instead(self, group: RequestGroup, outcomes: Sequence[CommitOutcome]) -> list[CommitOutcome]:
        """Ask other models in the place of those that are away. Each decides by its own artifact, and the record is
        its own."""
        results = list(outcomes)
        away = {n: one for n, one in enumerate(outcomes) if isinstance(one, UpstreamProblem) and one.passed_to}
        again = RequestGroup(
            requests=[group.requests[n].model_copy(update={"model": one.passed_to}) for n, one in away.items()],
            uses=[group.uses[n] for n in away],
            caller=group.caller,
            instead=[f"asked in the place of {group.requests[n].model!r}, which was away" for n in away],
        )
        for (n, before), result in zip(away.items(), await self.run(again), strict=True):
            results[n] = before if isinstance(result, CANNOT_STAND_IN) else result
        return results


def _by_model(rows: list[PendingRow]) -> dict[str, list[PendingRow]]:
    models = dict.fromkeys(row.request.model for row in rows)
    if len(models) == 1:
        return dict.fromkeys(models, rows)
    return {model: [row for row in rows if row.request.model == model] for model in models}


def _of_row(n: int, error: Exception) -> Exception:
    """Say which row it is that cannot be served."""
    return type(error)(f"row {n}: {error}") if isinstance(error, InvalidRequest) else error


async def _read_again(read: Read, row: PendingRow, client: ModelClient) -> ModelInput:
    """An input as another model takes it."""
    wanted = (
        value_for(row.request, given=client.config.host.is_given) if row.request.output is None else row.request.input
    )
    (value,) = await read(client.name, [wanted], await client.spec())
    if isinstance(value, InvalidRequest):
        raise value
    return value.value
