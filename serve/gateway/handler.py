"""The road of one request for a prediction, from its body to its committed answer. Knows no HTTP and no Ray."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from demur.calibration_store.store import ArtifactNotFound
from demur.policies.decision import Action
from demur.serve.access.caller import Caller
from demur.serve.access.refusals import NotAllowed
from demur.serve.config.file import Config
from demur.serve.contract import wire
from demur.serve.contract.batching import GreedyBatcher, Overloaded
from demur.serve.contract.body import read_apart
from demur.serve.contract.commit import CommitResult, Pieces, Writing
from demur.serve.contract.hosts import HostClient, ModelNotReady, UnknownModel
from demur.serve.contract.inputs import InputLimits, InvalidRequest, ModelInput, TooLarge
from demur.serve.contract.reading.inputs import read_input
from demur.serve.gateway import journal
from demur.serve.gateway.cascade import asks_on, follow
from demur.serve.gateway.committer import Committer
from demur.serve.gateway.controls import Controls
from demur.serve.gateway.entries import entry_of
from demur.serve.gateway.inquiries import Inquiries
from demur.serve.gateway.model_client import ModelClient, ModelRow, PendingInput
from demur.serve.gateway.new_cases import NewCases
from demur.serve.gateway.pictures import PictureReader, Read
from demur.serve.gateway.queue_room import Places, QueueRoom
from demur.serve.gateway.reading import read_batch, read_prediction
from demur.serve.gateway.redaction import Redaction, RedactionFailed
from demur.serve.gateway.safeguards import Safeguards
from demur.serve.gateway.spot_checks import SpotChecks
from demur.serve.gateway.upstream import UpstreamProblem, problem_of
from demur.serve.telemetry.request_context import VISIT, RequestContext
from demur.serve.telemetry.stages import stage
from demur.serve.telemetry.telemetry import Queue, Telemetry
from demur.traffic.database import Database, DatabaseUnavailable
from demur.traffic.draw import Draws
from demur.traffic.record import FailedRequest, KeyUse
from demur.uncertainty.generation import Outage

COMMIT_SIZE = 1024
MOST_COMMITS = 64 * COMMIT_SIZE

CANNOT_STAND_IN = (InvalidRequest, UnknownModel, ModelNotReady, ArtifactNotFound)
"""What a model may answer that is asked in the place of another: the caller is then told of the other one."""


@dataclass(slots=True)
class PredictionOrder:
    """One request for a prediction, on its way to its record."""

    id: UUID
    request: wire.PredictRequest
    use: KeyUse | None
    visit: RequestContext | None = None
    passes_to: str | None = None
    """The model that is asked where the one that was asked for is away, if this caller may ask it."""

    instead: str = ""
    """Why this model is asked in the place of another; empty where it was asked for."""


OrderedRow = tuple[PredictionOrder, ModelRow]
"""What was asked, and what the models said about it."""


class Handler:
    """Everything that the gateway does, behind HTTP."""

    def __init__(
        self,
        config: Config,
        hosts: Mapping[str, HostClient],
        database: Database,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], UUID],
        draw_key: str,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._config = config
        self.telemetry = telemetry or Telemetry()
        self.telemetry.queues = self.queues
        self._limits = InputLimits(
            text_characters=config.limits.text_characters, image_pixels=config.limits.image_pixels
        )
        self.pictures = PictureReader(self._limits)
        self._keep_inputs = timedelta(days=config.keep_inputs_days) if config.keep_inputs_days else None
        self._roads = {
            name: ModelClient(name, config.models[name], host, self.telemetry, then=self._settled)
            for name, host in hosts.items()
        }
        self._database = database
        self._clock = clock
        self._new_id = new_id
        self._canary_draws = Draws(draw_key, "canary")
        self._spot_checks = SpotChecks(config.models)
        self._controls = Controls(config.models, clock=clock, new_id=new_id)
        self._safeguards = Safeguards()
        self._room = QueueRoom(config.review.most_waiting)
        self._new_cases = NewCases(draw_key, config.review)
        self._closing: list[Callable[[], Awaitable[None]]] = []
        self.inquiries = Inquiries(config, self._roads, database, self._room)
        self._lookups = ThreadPoolExecutor(2, "keys")  # its own, so that slow reads never keep a prediction waiting
        self._redaction = Redaction(config.redact) if config.redact else None
        self._committer = Committer(database, journal.commit)
        self._commits: GreedyBatcher[Writing, CommitResult | Exception] = GreedyBatcher(
            self._commit, max_size=COMMIT_SIZE, in_flight=1, max_queued=MOST_COMMITS, name="the database"
        )
        self._failures: GreedyBatcher[FailedRequest, None] = GreedyBatcher(
            Committer(database, journal.note_failures).commit,
            max_size=COMMIT_SIZE,
            in_flight=1,
            max_queued=MOST_COMMITS,
            name="the database",
        )

    async def predict(self, body: bytes, key: str | None, caller: Caller | None = None) -> CommitResult:
        """Serve one request. What is returned is on disk; whatever is raised was not acknowledged."""

        request, use = await read_apart(len(body), lambda: read_prediction(body, key, caller))
        if caller is not None:
            caller.check_model(request.model)
            caller.take_predictions({request.model: 1})
        if use and (stored := await self.replay(use)):
            return stored
        return await self.predict_one(request, use, caller)

    async def predict_one(
        self, request: wire.PredictRequest, use: KeyUse | None, caller: Caller | None
    ) -> CommitResult:
        """Serve one request that is read and allowed already. What is returned is on disk."""
        result = (await self._serve([request], [use], caller))[0]
        if isinstance(result, Exception):
            raise result
        return result

    async def replay(self, use: KeyUse) -> CommitResult | None:
        """Return what was answered under this Idempotency-Key before; None where nothing was."""
        return (await self._replays(use)).get(0)

    def may_stream(self, model: str) -> bool:
        """Whether a reply may be shown before it is decided about; not while an alarm holds everything."""
        return not self._safeguards.holds_all(model)

    async def stream(self, request: wire.PredictRequest, use: KeyUse | None) -> tuple[UUID, datetime, Pieces]:
        """Return the id of the record, its time, and the reply as it is written, once the model is being asked. Until
        then it raises as `predict` does."""
        record_id, at = self._new_id(), self._clock()
        road = self.road(request.model)
        value = read_input(request.input, await road.spec(), self._limits)
        draw = self._canary_draw(record_id, use)
        order = PredictionOrder(record_id, request, use, VISIT.get())
        items = road.stream(PendingInput(value, request.group, draw, time.perf_counter(), visit=order.visit))
        first = await anext(items)

        async def pieces() -> AsyncGenerator[str | CommitResult, None]:
            async with aclosing(items):
                item = first
                while isinstance(item, str):
                    if item:
                        yield item
                    item = await anext(items)
                committed = (await self._write([(order, _last_word(item))]))[0]
                if isinstance(committed, Exception):
                    raise committed
                yield committed

        return record_id, at, pieces()

    def count_cases(self) -> None:
        """Learn how many cases are open, where that is limited; called at the start, and again and again."""
        self._room.count(self._database)

    def look_at_traffic(self) -> None:
        """Learn what recent traffic was like; called at the start, and again and again."""
        self._spot_checks.look(self._database)

    def keep_controls(self) -> None:
        """Write, and learn, where the values stand that steer decisions; called at the start, and again and again."""
        self._controls.keep(self._database)

    def look_at_alarms(self) -> None:
        """Learn what alarms hold; called at the start, and again and again."""
        self._safeguards.look(self._database)

    def follow(self, model: str, *, replicas: int) -> None:
        """A model is served by so many replicas from now on; called again and again, where that follows the load."""
        self._roads[model].follow(replicas)

    def look_at_database(self) -> None:
        """Learn whether the database is there; called again and again."""
        try:
            with self._database.transaction() as connection:
                connection.execute("select 1")
        except DatabaseUnavailable:
            self.telemetry.database_up = False
        else:
            self.telemetry.database_up = True

    def when_closed(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call this as well when the handler closes."""
        self._closing.append(close)

    async def close(self) -> None:
        """Let go of what requests have left open."""
        await asyncio.to_thread(self._controls.close, self._database)
        self.inquiries.close()
        self.pictures.close()
        for close in self._closing:
            await close()
        if self.telemetry.traces:
            await asyncio.to_thread(self.telemetry.traces.close)

    def queues(self) -> list[Queue]:
        """What waits in the gateway now."""
        waiting = [queue for road in self._roads.values() for queue in road.queues()]
        return [*waiting, *self.pictures.queues(), ("commits", "", self._commits.queued, MOST_COMMITS)]

    @property
    def roads(self) -> Mapping[str, ModelClient]:
        """The models that are served, by name."""
        return self._roads

    async def predict_batch(
        self, body: bytes, key: str | None, caller: Caller | None = None
    ) -> list[CommitResult | Exception]:
        """Serve up to `limits.batch` requests; each result is what `predict` would have returned or raised."""
        most = self._config.limits.batch
        items, use = await read_apart(len(body), lambda: read_batch(body, key, caller, most=most))
        stored = await self._replays(use) if use else {}
        results: list[CommitResult | Exception | None] = [stored.get(position) for position in range(len(items))]
        requests: dict[int, wire.PredictRequest] = {}
        for position, item in enumerate(items):
            if position in stored:
                model = stored[position].record.model
            elif isinstance(item, InvalidRequest):
                results[position] = item
                continue
            else:
                model, requests[position] = item.model, item
            try:
                if caller is not None:
                    caller.check_model(model)
            except NotAllowed as error:
                results[position] = error
                requests.pop(position, None)
        if caller is not None and requests:
            caller.take_predictions(Counter(request.model for request in requests.values()))
        uses = [replace(use, position=position) if use else None for position in requests]
        for position, result in zip(requests, await self._serve([*requests.values()], uses, caller), strict=True):
            results[position] = result
        return [result for result in results if result is not None]

    def check_rows(self, number: int) -> None:
        """Raise `TooLarge` for more rows than a request may have."""
        if number > self._config.limits.batch:
            raise TooLarge(f"the request has {number:,} rows; at most {self._config.limits.batch:,} are taken")

    async def predict_parsed(
        self,
        requests: Sequence[wire.PredictRequest],
        use: KeyUse | None,
        caller: Caller | None = None,
        *,
        by_this_model: bool = False,
    ) -> list[CommitResult]:
        """Serve up to `limits.batch` requests for one model that another door has read, all or none of them: what does
        not fit one is raised before anything is decided about the others. `use` is by the first. `by_this_model`: no
        other model may be asked in its place."""
        self.check_rows(len(requests))
        if caller is not None:
            caller.take_predictions({requests[0].model: len(requests)})
        stored = await self._replays(use) if use else {}
        missing = [at for at in range(len(requests)) if at not in stored]
        uses = [replace(use, position=at) if use else None for at in missing]
        done = await self._serve(
            [requests[at] for at in missing], uses, caller, together=True, by_this_model=by_this_model
        )
        results = {**stored, **dict(zip(missing, done, strict=True))}
        for result in results.values():
            if isinstance(result, Exception):
                raise result
        return [results[at] for at in range(len(requests))]  # type: ignore[misc]  # no errors are left

    async def _serve(
        self,
        requests: Sequence[wire.PredictRequest],
        uses: Sequence[KeyUse | None],
        caller: Caller | None,
        *,
        together: bool = False,
        by_this_model: bool = False,
        instead: Sequence[str] = (),
    ) -> list[CommitResult | Exception]:
        """With `together`, what does not fit one of them is raised before anything is decided about the others.
        `instead` says why each goes to a model that its caller did not ask for."""
        with self.pictures.request() as read:
            done = await self._serve_read(
                requests, uses, caller, read, together=together, by_this_model=by_this_model, instead=instead
            )
        if any(isinstance(result, UpstreamProblem) and result.passed_to for result in done):
            return await self._passed_on(requests, uses, caller, done)
        return done

    async def _serve_read(
        self,
        requests: Sequence[wire.PredictRequest],
        uses: Sequence[KeyUse | None],
        caller: Caller | None,
        read: Read,
        *,
        together: bool,
        by_this_model: bool,
        instead: Sequence[str],
    ) -> list[CommitResult | Exception]:
        results: list[CommitResult | Exception | None] = [None] * len(requests)
        inputs: list[ModelInput | None] = [None] * len(requests)
        ids = [self._new_id() for _ in requests]  # before anything is decided, because draws hang on them
        asking: dict[str, list[int]] = {}
        for at, request in enumerate(requests):
            asking.setdefault(request.model, []).append(at)
        by_model: dict[str, list[int]] = {}
        for model, members in asking.items():
            try:
                spec = await self.road(model).spec()
                taken = await read(model, [requests[at].input for at in members], spec)
            except (UnknownModel, ModelNotReady, Overloaded) as error:
                for at in members:
                    results[at] = error
                continue
            for at, value in zip(members, taken, strict=True):
                if isinstance(value, InvalidRequest):
                    results[at] = value
                else:
                    inputs[at] = value
                    by_model.setdefault(model, []).append(at)
        for at, refused in enumerate(results if together else ()):
            if isinstance(refused, InvalidRequest) and len(requests) > 1:
                raise type(refused)(f"row {at}: {refused}")
            if isinstance(refused, Exception):
                raise refused

        async def decide_and_commit(model: str, members: list[int]) -> None:
            now, visit = time.perf_counter(), VISIT.get()
            passes_to = None if by_this_model else self._following(model, caller)
            try:
                asked = [
                    PendingInput(
                        inputs[at],  # type: ignore[arg-type]
                        requests[at].group,
                        self._canary_draw(ids[at], uses[at]),
                        now,
                        visit=visit,
                        what=PredictionOrder(
                            ids[at], requests[at], uses[at], visit, passes_to, instead[at] if instead else ""
                        ),
                    )
                    for at in members
                ]
                settled = await self._roads[model].batcher.submit(asked)
                if any(type(one) is ModelRow for one in settled):
                    settled = await self._settled_later(model, asked, settled, read)
                committed = settled
            except (ArtifactNotFound, Overloaded, DatabaseUnavailable) as error:
                committed = [error] * len(members)
            for at, result in zip(members, committed, strict=True):
                results[at] = result

        work = [decide_and_commit(model, members) for model, members in by_model.items()]
        if len(work) == 1:  # which spares the time that it takes to make a task
            await work[0]
        else:
            await asyncio.gather(*work)
        return [result for result in results if result is not None]

    def _following(self, model: str, caller: Caller | None) -> str | None:
        """The model that is asked where this one is away; None where there is none that this caller may ask."""
        following = self._config.models[model].fall_back_to
        if following is None or following not in self._roads:
            return None
        return following if caller is None or caller.models is None or following in caller.models else None

    async def _passed_on(
        self,
        requests: Sequence[wire.PredictRequest],
        uses: Sequence[KeyUse | None],
        caller: Caller | None,
        done: Sequence[CommitResult | Exception],
    ) -> list[CommitResult | Exception]:
        """Ask other models in the place of those that are away. Each decides by its own artifact, and the record is
        its own."""
        results = list(done)
        away = {at: one for at, one in enumerate(done) if isinstance(one, UpstreamProblem) and one.passed_to}
        again = await self._serve(
            [requests[at].model_copy(update={"model": one.passed_to}) for at, one in away.items()],
            [uses[at] for at in away],
            caller,
            instead=[f"asked in the place of {requests[at].model!r}, which was away" for at in away],
        )
        for (at, before), result in zip(away.items(), again, strict=True):
            results[at] = before if isinstance(result, CANNOT_STAND_IN) else result
        return results

    async def _settled(
        self, asked: list[PendingInput], rows: list[ModelRow]
    ) -> list[CommitResult | Exception | ModelRow]:
        """Write together what was decided together. Each is what is on disk, or why nothing is; what needs more than
        that, and would keep its neighbours waiting, is left as it is."""
        if self.telemetry.traces:  # a commit is a span of one request
            return list(rows)
        ended = [at for at, row in enumerate(rows) if not asks_on(row)]
        written = await self._write_or_each([judged(asked[at], rows[at]) for at in ended])
        settled: list[CommitResult | Exception | ModelRow] = list(rows)
        for at, one in zip(ended, written, strict=True):
            settled[at] = one
        return settled

    async def _write_or_each(self, rows: Sequence[OrderedRow]) -> list[CommitResult | Exception]:
        """As `_write`. Where that fails one of them may be to blame, and the others do not pay for it: what is on disk
        already is written again, which changes nothing."""
        try:
            return await self._write(rows)
        except DatabaseUnavailable:
            raise
        except Exception as error:
            return [error] if len(rows) == 1 else [one for row in rows for one in await self._write_or_each([row])]

    async def _settled_later(
        self,
        model: str,
        asked: Sequence[PendingInput],
        settled: Sequence[CommitResult | Exception | ModelRow],
        read: Read,
    ) -> list[CommitResult | Exception]:
        """Ask on where another model is to be asked, and write what `_settled` has left."""
        left = [(member, one) for member, one in zip(asked, settled, strict=True) if isinstance(one, ModelRow)]
        members = [member for member, _ in left]
        rows = await follow(model, self._roads, members, [row for _, row in left], read=partial(self._read_again, read))
        written = iter(await self._write(list(map(judged, members, rows))))
        return [next(written) if isinstance(one, ModelRow) else one for one in settled]

    async def _read_again(self, read: Read, asked: PendingInput, road: ModelClient) -> ModelInput:
        """An input as another model takes it."""
        order: PredictionOrder = asked.what
        (value,) = await read(road.name, [order.request.input], await road.spec())
        if isinstance(value, InvalidRequest):
            raise value
        return value

    async def _replays(self, use: KeyUse) -> dict[int, CommitResult]:
        return await asyncio.get_running_loop().run_in_executor(self._lookups, journal.replays, self._database, use)

    async def _commit(self, writings: list[Writing]) -> list[CommitResult | Exception]:
        began = time.perf_counter()
        try:
            results = await self._committer.commit(writings)
        except Exception:
            self.telemetry.not_committed()
            raise
        self.telemetry.committed(writings, results, time.perf_counter() - began)
        return results

    def road(self, model: str) -> ModelClient:
        """Return the way to a model. Raises `UnknownModel`."""
        if model not in self._roads:
            raise UnknownModel(f"model: there is no model {model!r}; there are: {', '.join(self._roads)}")
        return self._roads[model]

    def _canary_draw(self, record_id: UUID, use: KeyUse | None) -> int:
        """Hangs on the Idempotency-Key where there is one, so that a retry meets the artifact of the first try."""
        return self._canary_draws.of(f"{use.key} {use.position}" if use else str(record_id))

    async def _write(self, rows: Sequence[OrderedRow]) -> list[CommitResult | Exception]:
        """Turn what was said into records and cases, and return what is on disk of them. Of requests about which no
        model could be asked, and whose callers are to be told, it writes that, and returns the error."""
        if any(row.outage is not None for _, row in rows):
            return await self._write_and_fail(rows)
        with self._room.places() as places:
            now = self._clock()
            writings = [self._writing(order, row, places, now) for order, row in rows]
            with stage("commit"):
                submit = self._commits.submit
                committed = await (self._redaction.commit(writings, submit) if self._redaction else submit(writings))
            places.lost = sum(
                writing.case is not None and (isinstance(done, Exception) or done.replayed)
                for writing, done in zip(writings, committed, strict=True)
            )
        return committed

    async def _write_and_fail(self, rows: Sequence[OrderedRow]) -> list[CommitResult | Exception]:
        now = self._clock()
        failures: list[FailedRequest] = []
        problems: list[UpstreamProblem] = []
        for order, row in rows:
            if row.outage is not None:
                problem = problem_of(order.request.model, row.outage, passed_to=order.passes_to)
                problems.append(problem)
                failures.append(_failure(order, row.outage, problem, now))
        if self._redaction:  # an endpoint may repeat what it was sent
            failures = await asyncio.to_thread(_redacted, self._redaction, failures)
        with stage("commit"):
            await self._failures.submit(failures)
        written = iter(await self._write([(order, row) for order, row in rows if row.outage is None]))
        failed = iter(problems)
        return [next(written) if row.outage is None else next(failed) for _, row in rows]

    def _writing(self, order: PredictionOrder, row: ModelRow, places: Places, now: datetime) -> Writing:
        request = order.request
        model = self._config.models[request.model]
        entry = entry_of(
            order.id,
            request,
            row,
            model=model,
            spot_checks=self._spot_checks,
            control=self._controls.of(request.model),
            safeguards=self._safeguards,
            no_room=self._room.why_none,
            now=now,
            use=order.use,
            keep_inputs=self._keep_inputs,
        )
        if order.instead:
            entry.record.reason = f"{entry.record.reason}; {order.instead}"
        case = self._new_cases.of(entry.record, model, request.review)
        if case:
            self._room.take(places)
        return Writing(entry, case)


def judged(asked: PendingInput, row: ModelRow) -> OrderedRow:
    return asked.what, row


def _failure(order: PredictionOrder, outage: Outage, problem: UpstreamProblem, now: datetime) -> FailedRequest:
    return FailedRequest(
        id=order.id,
        created_at=now,
        model=order.request.model,
        group=order.request.group,
        status=problem.status,
        reason=outage.why,
        retry_after=outage.retry_after,
        passed_to=problem.passed_to,
        request_id=order.visit.request_id if order.visit else None,
    )


def _redacted(redaction: Redaction, failures: Sequence[FailedRequest]) -> list[FailedRequest]:
    """The same without what is taken out of everything that is stored; a reason that cannot be redacted is left out."""
    told = []
    for failure in failures:
        try:
            reason = str(redaction.redacted(failure.reason))
        except RedactionFailed:
            reason = "left out, because it could not be redacted"
        told.append(replace(failure, reason=reason))
    return told


def _last_word(row: ModelRow) -> ModelRow:
    """Of a stream: what was streamed is this model's, so nobody else is asked about it."""
    if row.share and row.share.decided.actions[row.index] == Action.ESCALATE:
        return replace(row, why_none="another model was to be asked, and a tentative stream has no time for that")
    return row
