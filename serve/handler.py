"""The road of one request, from its body to its committed answer. Knows no HTTP and no Ray."""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from calibration_store.store import ArtifactNotFound
from policies.decision import Action
from review import queue
from serve import journal, wire
from serve.batching import GreedyBatcher, Overloaded
from serve.cascade import follow
from serve.config import Config
from serve.inputs import InputLimits, InvalidRequest, ModelInput, TooLarge, read_input
from serve.journal import Committed
from serve.road import Asked, HostClient, ModelNotReady, Road, Row
from traffic import log
from traffic.database import Database, DatabaseUnavailable
from traffic.draw import Draws, limit
from traffic.record import Cost, Entry, KeyUse, Outcome, Record, ShadowDecision

COMMIT_SIZE = 1024


class UnknownModel(LookupError):
    """No model of this name is served."""


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
        self._spot_checks = Draws(draw_key, "spot-check")
        self._committer = ThreadPoolExecutor(1, "commit")  # its own, so that slow reads never keep a commit waiting
        self._commits: GreedyBatcher[Entry, Committed | Exception] = GreedyBatcher(
            self._commit, max_size=COMMIT_SIZE, in_flight=1, max_queued=64 * COMMIT_SIZE, name="the database"
        )

    async def predict(self, body: bytes, key: str | None) -> Committed:
        """Serve one request. What is returned is on disk; whatever is raised was not acknowledged."""
        request = wire.parse(wire.PredictRequest, body)
        use = _key_use(key, lambda: ["predict", request.model_dump()])
        if use and (stored := await asyncio.to_thread(journal.replays, self._database, use)):
            return stored[0]
        result = (await self._serve([request], [use]))[0]
        if isinstance(result, Exception):
            raise result
        return result

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

    async def prediction(self, record_id: UUID) -> dict[str, Any]:
        """What became of a prediction."""

        def read() -> dict[str, Any]:
            with self._database.transaction() as connection:
                return wire.prediction_view_json(
                    log.find_one(connection, record_id),
                    queue.find_item(connection, record_id),
                    log.outcomes_of(connection, record_id),
                )

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

        def ask_database() -> str:
            try:
                with self._database.transaction() as connection:
                    connection.execute("select 1")
                return "ok"
            except DatabaseUnavailable:
                return "unavailable"

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

        database, *states = await asyncio.gather(
            asyncio.to_thread(ask_database), *(ask(road) for road in self._roads.values())
        )
        models = dict(zip(self._roads, states, strict=True))
        well = database == "ok" and all(state["status"] == "ok" for state in models.values())
        return {"status": "ok" if well else "not ok", "database": database, "models": models}

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
                entries = [
                    self._entry(ids[at], requests[at], row, uses[at]) for at, row in zip(members, rows, strict=True)
                ]
                committed = await self._commits.submit(entries)
            except (ArtifactNotFound, Overloaded, DatabaseUnavailable) as error:
                committed = [error] * len(members)
            for at, result in zip(members, committed, strict=True):
                results[at] = result

        await asyncio.gather(*(decide_and_commit(model, members) for model, members in by_model.items()))
        return [result for result in results if result is not None]

    async def _read_again(
        self, requests: Sequence[wire.PredictRequest], members: Sequence[int], at: int, road: Road
    ) -> ModelInput:
        """The input of one of the members, as another model takes it."""
        return read_input(requests[members[at]].input, await road.spec(), self._limits)

    async def _commit(self, entries: list[Entry]) -> list[Committed | Exception]:
        return await asyncio.get_running_loop().run_in_executor(
            self._committer, journal.commit, self._database, entries
        )

    def _road(self, model: str) -> Road:
        if model not in self._roads:
            raise UnknownModel(f"model: there is no model {model!r}; there are: {', '.join(self._roads)}")
        return self._roads[model]

    def _canary_draw(self, record_id: UUID, use: KeyUse | None) -> int:
        """Hangs on the Idempotency-Key where there is one, so that a retry meets the artifact of the first try."""
        return self._canary_draws.of(f"{use.key} {use.position}" if use else str(record_id))

    def _entry(self, record_id: UUID, request: wire.PredictRequest, row: Row, use: KeyUse | None) -> Entry:
        rate = self._config.models[request.model].spot_check
        record = self._record(record_id, request, row, rate)
        not_held = record.action != Action.REVIEW
        return Entry(
            record=record,
            input=request.input,
            input_expires_at=record.created_at + self._keep_inputs if self._keep_inputs else None,
            key=use,
            shadow=_shadow(row),
            spot_check=not_held and rate > 0 and self._spot_checks.of(str(record_id)) < limit(rate),
        )

    def _record(self, record_id: UUID, request: wire.PredictRequest, row: Row, spot_check: float) -> Record:
        decided, i = row.share.decided if row.share else None, row.index
        otherwise = self._config.models[request.model].recipe.policy.otherwise
        action = decided.actions[i] if decided and not row.why_none else otherwise
        first = row.before[0] if row.before else row
        timings = {"queued": round(first.queued_milliseconds, 3)}
        asked = [(one, one.share) for one in (*row.before, row) if one.share]
        if asked:
            timings["model"] = round(sum(share.decided.model_milliseconds for _, share in asked), 3)
        if first.share and first.share.shadow:
            timings["shadow"] = round(first.share.shadow_milliseconds, 3)
        return Record(
            id=record_id,
            created_at=self._clock(),
            model=request.model,
            artifact=decided.artifact if decided else None,
            group=request.group,
            prediction=decided.predictions[i] if decided else None,
            top_labels=decided.top_labels[i] if decided else [],
            top_probabilities=decided.top_probabilities[i] if decided else [],
            label_confidence=decided.label_confidences[i] if decided else None,
            prediction_set=decided.prediction_sets[i] if decided else [],
            scores={name: values[i] for name, values in decided.scores.items()} if decided else {},
            confidence=decided.confidence[i] if decided else None,
            action=action,
            reason=decided.reasons[i] if decided and not row.why_none else row.why_none,
            label_probability=1.0 if action == Action.REVIEW else spot_check,
            timings=timings,
            steps=_steps(request.model, row) if row.before or (decided and decided.asks_next) else None,
            cost=_cost_of_all([share.decided.costs[one.index] for one, share in asked]),
            reply=decided.replies[i] if decided else None,
        )


def _steps(model: str, row: Row) -> list[dict[str, Any]]:
    """What each model of a cascade said, in turn."""
    steps = []
    for one in (*row.before, row):
        if one.share is None:
            continue
        decided, i = one.share.decided, one.index
        steps.append(
            {
                "model": model,
                "prediction": decided.predictions[i],
                "confidence": decided.confidence[i],
                "action": decided.actions[i],
                "reason": decided.reasons[i],
                "scores": {name: values[i] for name, values in decided.scores.items()},
                "cost": decided.costs[i],
            }
        )
        model = decided.asks_next
    return steps


def _cost_of_all(costs: Sequence[Cost | None]) -> Cost | None:
    """Of every step of a cascade that a language model took."""
    known = [cost for cost in costs if cost]
    if not known:
        return None
    return Cost(
        prompt_tokens=sum(cost["prompt_tokens"] for cost in known),
        completion_tokens=sum(cost["completion_tokens"] for cost in known),
        calls=sum(cost["calls"] for cost in known),
        seconds=round(sum(cost["seconds"] for cost in known), 6),
    )


def _shadow(row: Row) -> ShadowDecision | None:
    """Of the model that was asked first: a shadow is not followed further."""
    first = row.before[0] if row.before else row
    if first.share is None or first.share.shadow is None:
        return None
    shadow, i = first.share.shadow, first.index
    return ShadowDecision(
        artifact=shadow.artifact,
        prediction=shadow.predictions[i],
        confidence=shadow.confidence[i],
        action=shadow.actions[i],
        reason=shadow.reasons[i],
        prediction_set=shadow.prediction_sets[i],
    )


def _key_use(key: str | None, request: Callable[[], Any]) -> KeyUse | None:
    """The use of a key by the first (or only) item of a request; the order of its JSON keys does not matter."""
    checked = wire.checked_key(key)
    if checked is None:
        return None
    canonical = json.dumps(request(), sort_keys=True)  # the input is not checked yet: it may hold anything JSON can
    return KeyUse(key=checked, position=0, fingerprint=hashlib.sha256(canonical.encode()).digest())
