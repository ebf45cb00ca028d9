"""The road of one request, from its body to its committed answer. Knows no HTTP and no Ray."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from calibration_store.store import ArtifactNotFound
from policies.decision import Action
from review import cases
from review.ended import ended_among
from review.load import NOTHING_EXPECTED, expect, open_cases
from serve import wire
from serve.chat import request as chat
from serve.chat.conversation import BeingSaid, PassedThrough, Said
from serve.chat.proxy import Proxy
from serve.chat.reply import Held
from serve.config.file import Config
from serve.config.hosts import ClassifierHost
from serve.gateway import journal
from serve.gateway.batching import GreedyBatcher, Overloaded
from serve.gateway.cascade import follow
from serve.gateway.controls import Controls
from serve.gateway.entries import entry_of
from serve.gateway.journal import Committed, Writing
from serve.gateway.new_cases import NewCases
from serve.gateway.outcome_watch import OutcomeWatch
from serve.gateway.queue_room import COUNTED_BEYOND, Places, QueueRoom
from serve.gateway.road import Asked, HostClient, ModelNotReady, Road, Row, UnknownModel
from serve.gateway.safeguards import Safeguards
from serve.gateway.spot_checks import SpotChecks
from serve.inputs import InputLimits, InvalidRequest, ModelInput, TooLarge, read_input
from traffic import log
from traffic.database import Database, DatabaseUnavailable
from traffic.draw import Draws
from traffic.record import KeyUse, Outcome

COMMIT_SIZE = 1024

COUNTED_FOR_HEALTH = 10_000
"""Without a limit, open cases are counted up to here."""

Judged = tuple[UUID, wire.PredictRequest, Row, KeyUse | None]
"""What was asked under which id, and what the models said about it."""


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
    ) -> None:
        self._config = config
        self._limits = InputLimits(
            text_characters=config.limits.text_characters, image_pixels=config.limits.image_pixels
        )
        self._keep_inputs = timedelta(days=config.keep_inputs_days) if config.keep_inputs_days else None
        self._roads = {name: Road(name, config.models[name], host) for name, host in hosts.items()}
        self._database = database
        self._clock = clock
        self._new_id = new_id
        self._canary_draws = Draws(draw_key, "canary")
        self._spot_checks = SpotChecks(config.models)
        self._controls = Controls(config.models, clock=clock, new_id=new_id)
        self._safeguards = Safeguards()
        self._room = QueueRoom(config.review.most_waiting)
        self._new_cases = NewCases(draw_key, config.review)
        self._proxy = Proxy()
        self._outcome_watch = OutcomeWatch(database.dsn)
        self._committer = ThreadPoolExecutor(1, "commit")  # its own, so that slow reads never keep a commit waiting
        self._commits: GreedyBatcher[Writing, Committed | Exception] = GreedyBatcher(
            self._commit, max_size=COMMIT_SIZE, in_flight=1, max_queued=64 * COMMIT_SIZE, name="the database"
        )

    async def predict(self, body: bytes, key: str | None) -> Committed:
        """Serve one request. What is returned is on disk; whatever is raised was not acknowledged."""
        request = wire.parse(wire.PredictRequest, body)
        use = _key_use(key, lambda: ["predict", request.as_asked()])
        if use and (stored := await asyncio.to_thread(journal.replays, self._database, use)):
            return stored[0]
        result = (await self._serve([request], [use]))[0]
        if isinstance(result, Exception):
            raise result
        return result

    async def converse(self, body: bytes, key: str | None) -> Said | BeingSaid | PassedThrough:
        """Serve one chat completion. What is `Said` is on disk."""
        content = chat.read_json(body)
        road = self._road(content["model"])
        config, host = road.config, road.config.host
        chat.check_writes(road.name, config)
        assert not isinstance(host, ClassifierHost)  # one cannot write
        if config.chat.proxy:
            return await self._proxy.pass_on(road.name, host, road.host, body, content)
        asked = chat.read_request(content)
        asked.check_limits(host.max_tokens)
        held = Held.of(config)
        request = wire.PredictRequest(
            model=road.name, input=asked.input, group=asked.group, cluster=asked.cluster, review=asked.review
        )
        use = _key_use(key, lambda: ["chat", request.as_asked()])
        if use and (stored := await asyncio.to_thread(journal.replays, self._database, use)):
            return Said(request=asked, held=held, committed=_still_kept(stored[0]))
        if asked.stream and config.chat.stream == "tentative" and not self._safeguards.holds_all(road.name):
            return await self._converse_tentatively(asked, held, request, road, use)
        committed = (await self._serve([request], [use]))[0]
        if isinstance(committed, Exception):
            raise committed
        return Said(request=asked, held=held, committed=_still_kept(committed))

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

    async def close(self) -> None:
        """Let go of what requests have left open."""
        await asyncio.to_thread(self._controls.close, self._database)
        self._outcome_watch.close()
        await self._proxy.close()

    def talking_models(self) -> list[str]:
        """Names of the models that `converse` takes."""
        return [name for name, road in self._roads.items() if road.config.task.writes]

    async def predict_batch(self, body: bytes, key: str | None) -> list[Committed | Exception]:
        """Serve up to `limits.batch` requests; each result is what `predict` would have returned or raised."""
        items = wire.parse(wire.BatchRequest, body).items
        if not items:
            raise InvalidRequest("items: the batch is empty")
        if len(items) > self._config.limits.batch:
            raise TooLarge(f"items: the batch has {len(items):,}; at most {self._config.limits.batch:,} are taken")
        use = _key_use(key, lambda: ["batch", items])
        stored = await asyncio.to_thread(journal.replays, self._database, use) if use else {}
        results: list[Committed | Exception | None] = [stored.get(position) for position in range(len(items))]
        requests, positions = [], []
        for position, item in enumerate(items):
            if results[position] is None:
                try:
                    requests.append(wire.parse_item(item))
                    positions.append(position)
                except InvalidRequest as error:
                    results[position] = error
        uses = [
            KeyUse(key=use.key, position=position, fingerprint=use.fingerprint) if use else None
            for position in positions
        ]
        for position, result in zip(positions, await self._serve(requests, uses), strict=True):
            results[position] = result
        return [result for result in results if result is not None]

    async def prediction(self, record_id: UUID, *, wait_seconds: float = 0.0) -> dict[str, Any]:
        """What became of a prediction: where nothing is known yet and nobody has stopped asking, as soon as that
        changes, or what there is after `wait_seconds`."""
        if wait_seconds <= 0:
            return (await self._became(record_id))[0]
        with self._outcome_watch.waiting(record_id) as news:  # before it is looked, so that nothing is missed
            seen, ended = await self._became(record_id)
            if ended:
                return seen
            await news(wait_seconds)
        return (await self._became(record_id))[0]

    async def _became(self, record_id: UUID) -> tuple[dict[str, Any], bool]:
        """What became of a prediction, and whether there is nothing to wait for any more."""

        def read() -> tuple[dict[str, Any], bool]:
            with self._database.transaction() as connection:
                record = log.find_one(connection, record_id)
                case = cases.find(connection, record_id)
                view = wire.prediction_view_json(
                    record,
                    case,
                    log.outcomes_of(connection, record_id),
                    self._config.precedence(record.model),
                    expect(connection, case, self._config.review.order) if case else NOTHING_EXPECTED,
                )
                return view, bool(ended_among(connection, [record_id]))

        return await asyncio.to_thread(read)

    async def add_outcome(self, record_id: UUID, body: bytes) -> Outcome:
        """Note the truth about a prediction, as somebody outside knows it."""
        told = wire.parse(wire.OutcomeRequest, body)

        def write() -> Outcome:
            with self._database.transaction() as connection:
                record = log.find_one(connection, record_id)
                road = self._roads.get(record.model)
                # a model no longer served is not argued with
                label = wire.checked_label(told.label, record.model, road.config.task) if road else told.label
                return log.add_outcome(connection, record_id, label=label, source=told.source, author=told.author)

        return await asyncio.to_thread(write)

    async def health(self) -> dict[str, Any]:
        """How the database and every model are: `Health`."""

        at_most = COUNTED_BEYOND * (self._room.most or COUNTED_FOR_HEALTH)

        def ask_database() -> tuple[str, int | None]:
            try:
                with self._database.transaction() as connection:
                    return "ok", open_cases(connection, at_most=at_most)
            except DatabaseUnavailable:
                return "unavailable", None

        async def ask(road: Road) -> dict[str, Any]:
            try:
                state = await asyncio.wait_for(road.host.state(), 5)
            except Exception as error:  # any failure to answer is what we want to know
                return {
                    "status": "not ready",
                    "artifact": None,
                    "shadow": None,
                    "canary": None,
                    "detail": str(error) or "no answer within 5 s",
                }
            return {
                "status": "ok" if state.artifact else "no artifact",
                "artifact": state.artifact,
                "shadow": state.shadow,
                "canary": {"artifact": state.canary, "share": state.share} if state.canary else None,
                "detail": state.trouble,
            }

        (database, waiting), *states = await asyncio.gather(
            asyncio.to_thread(ask_database), *(ask(road) for road in self._roads.values())
        )
        models = dict(zip(self._roads, states, strict=True))
        well = database == "ok" and all(state["status"] == "ok" for state in models.values())
        review = {"open": waiting, "most_waiting": self._room.most, "full": self._room.full}
        return {"status": "ok" if well else "not ok", "database": database, "models": models, "review": review}

    async def _serve(
        self, requests: Sequence[wire.PredictRequest], uses: Sequence[KeyUse | None]
    ) -> list[Committed | Exception]:
        results: list[Committed | Exception | None] = [None] * len(requests)
        by_model: dict[str, list[int]] = {}
        inputs: list[ModelInput | None] = [None] * len(requests)
        ids = [self._new_id() for _ in requests]  # before anything is decided, because draws hang on them
        for at, request in enumerate(requests):
            try:
                inputs[at] = read_input(request.input, await self._road(request.model).spec(), self._limits)
                by_model.setdefault(request.model, []).append(at)
            except (InvalidRequest, UnknownModel, ModelNotReady) as error:
                results[at] = error

        async def decide_and_commit(model: str, members: list[int]) -> None:
            now = time.perf_counter()
            try:
                asked = [
                    Asked(inputs[at], requests[at].group, self._canary_draw(ids[at], uses[at]), now)  # type: ignore[arg-type]
                    for at in members
                ]
                rows = await self._roads[model].batcher.submit(asked)
                rows = await follow(model, self._roads, asked, rows, read=partial(self._read_again, requests, members))
                committed = await self._write(
                    [(ids[at], requests[at], row, uses[at]) for at, row in zip(members, rows, strict=True)]
                )
            except (ArtifactNotFound, Overloaded, DatabaseUnavailable) as error:
                committed = [error] * len(members)
            for at, result in zip(members, committed, strict=True):
                results[at] = result

        await asyncio.gather(*(decide_and_commit(model, members) for model, members in by_model.items()))
        return [result for result in results if result is not None]

    async def _converse_tentatively(
        self, asked: chat.ChatRequest, held: Held, request: wire.PredictRequest, road: Road, use: KeyUse | None
    ) -> BeingSaid:
        """Return once the model is being asked; until then it raises as `_serve` does."""
        record_id, at = self._new_id(), self._clock()
        value = read_input(request.input, await road.spec(), self._limits)
        draw = self._canary_draw(record_id, use)
        items = road.stream(Asked(value, request.group, draw, time.perf_counter()))
        first = await anext(items)

        async def pieces() -> AsyncGenerator[str | Committed, None]:
            async with aclosing(items):
                item = first
                while isinstance(item, str):
                    if item:
                        yield item
                    item = await anext(items)
                committed = (await self._write([(record_id, request, _last_word(item), use)]))[0]
                if isinstance(committed, Exception):
                    raise committed
                yield committed

        return BeingSaid(request=asked, held=held, id=record_id, at=at, pieces=pieces())

    async def _read_again(
        self, requests: Sequence[wire.PredictRequest], members: Sequence[int], at: int, road: Road
    ) -> ModelInput:
        """The input of one of the members, as another model takes it."""
        return read_input(requests[members[at]].input, await road.spec(), self._limits)

    async def _commit(self, writings: list[Writing]) -> list[Committed | Exception]:
        return await asyncio.get_running_loop().run_in_executor(
            self._committer, journal.commit, self._database, writings
        )

    def _road(self, model: str) -> Road:
        if model not in self._roads:
            raise UnknownModel(f"model: there is no model {model!r}; there are: {', '.join(self._roads)}")
        return self._roads[model]

    def _canary_draw(self, record_id: UUID, use: KeyUse | None) -> int:
        """Hangs on the Idempotency-Key where there is one, so that a retry meets the artifact of the first try."""
        return self._canary_draws.of(f"{use.key} {use.position}" if use else str(record_id))

    async def _write(self, rows: Sequence[Judged]) -> list[Committed | Exception]:
        """Turn what was said into records and cases, and return what is on disk of them."""
        with self._room.places() as places:
            writings = [self._writing(*row, places) for row in rows]
            committed = await self._commits.submit(writings)
            places.lost = sum(
                writing.case is not None and (isinstance(done, Exception) or done.replayed)
                for writing, done in zip(writings, committed, strict=True)
            )
        return committed

    def _writing(
        self, record_id: UUID, request: wire.PredictRequest, row: Row, use: KeyUse | None, places: Places
    ) -> Writing:
        model = self._config.models[request.model]
        entry = entry_of(
            record_id,
            request,
            row,
            model=model,
            spot_checks=self._spot_checks,
            control=self._controls.of(request.model),
            safeguards=self._safeguards,
            no_room=self._room.why_none,
            now=self._clock(),
            use=use,
            keep_inputs=self._keep_inputs,
        )
        case = self._new_cases.of(entry.record, model, request.review)
        if case:
            self._room.take(places)
        return Writing(entry, case)


def _last_word(row: Row) -> Row:
    """Of a stream: what was streamed is this model's, so nobody else is asked about it."""
    if row.share and row.share.decided.actions[row.index] == Action.ESCALATE:
        return replace(row, why_none="another model was to be asked, and a tentative stream has no time for that")
    return row


def _still_kept(committed: Committed) -> Committed:
    """Raise `InvalidRequest` where a reply is asked for again whose text had its time."""
    record = committed.record
    if record.action == Action.ANSWER and record.reply is None:
        raise InvalidRequest("Idempotency-Key: the reply that was given under it is no longer kept; use a new key")
    return committed


def _key_use(key: str | None, request: Callable[[], Any]) -> KeyUse | None:
    """The use of a key by the first (or only) item of a request; the order of its JSON keys does not matter."""
    checked = wire.checked_key(key)
    if checked is None:
        return None
    canonical = json.dumps(request(), sort_keys=True)  # the input is not checked yet: it may hold anything JSON can
    return KeyUse(key=checked, position=0, fingerprint=hashlib.sha256(canonical.encode()).digest())
