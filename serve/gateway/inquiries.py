"""Questions about what was predicted, and about how things stand: everything about a prediction but making it."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from demur.review import cases, erasing
from demur.review.ended import ended_among
from demur.review.load import NOTHING_EXPECTED, expect, open_cases
from demur.serve.access.caller import Caller, owner_of
from demur.serve.config.file import Config
from demur.serve.contract import wire
from demur.serve.contract.hosts import ModelFailed, UnknownModel
from demur.serve.gateway.database_calls import DatabaseCalls, DatabaseThreads
from demur.serve.gateway.model_client import ModelClient
from demur.serve.gateway.outcome_watch import OutcomeWatch
from demur.serve.gateway.outcome_writer import OutcomeOrError, OutcomeResult, OutcomeWriter
from demur.serve.gateway.queue_room import COUNTED_BEYOND, QueueRoom
from demur.traffic import log
from demur.traffic.database import Database, DatabaseUnavailable

HEALTH_SECONDS = 5.0
"""So long a host has to say how it is, and the database."""

ASKED_AT_A_TIME = 4
"""Questions about what was predicted, and outcomes, at which the database is at once; others wait for one to end."""

COUNTED_FOR_HEALTH = 10_000
"""Without a limit, open cases are counted up to here."""


class Inquiries:
    """What became of a prediction, what somebody knows about it, what is to be forgotten of it; and how well all is."""

    def __init__(self, config: Config, models: Mapping[str, ModelClient], database: Database, room: QueueRoom) -> None:
        self._config = config
        self._models = models
        self._room = room
        self._threads = DatabaseThreads(database, threads=ASKED_AT_A_TIME, name="inquiries")
        self._outcomes = OutcomeWriter(config, self._threads)
        self._open_cases = DatabaseCalls(
            database, _open_cases, done="counted the open cases", threads=2, patience_seconds=HEALTH_SECONDS
        )
        self._outcome_watch = OutcomeWatch(database.dsn, share=config.limits.share_per_key)

    def close(self) -> None:
        """Wake everybody who waits."""
        self._outcome_watch.close()

    async def prediction(
        self, record_id: UUID, *, wait_seconds: float = 0.0, caller: Caller | None = None
    ) -> dict[str, Any]:
        """What became of a prediction: where nothing is known yet and nobody has stopped asking, as soon as that
        changes, or what there is after `wait_seconds`."""
        if wait_seconds <= 0:
            return (await self._became(record_id, caller))[0]
        with self._outcome_watch.waiting(
            record_id, owner_of(caller)
        ) as news:  # before it is looked, so that nothing is missed
            seen, ended = await self._became(record_id, caller)
            if ended:
                return seen
            await news(wait_seconds)
        return (await self._became(record_id, caller))[0]

    async def _became(self, record_id: UUID, caller: Caller | None) -> tuple[dict[str, Any], bool]:
        """What became of a prediction, and whether there is nothing to wait for any more."""

        def read(database: Database) -> tuple[dict[str, Any], bool]:
            with database.transaction() as connection:
                record = log.find_one(connection, record_id)
                if caller is not None:
                    caller.check_model(record.model)
                ended = bool(ended_among(connection, [record_id]))  # first: what ended it is in what is read then
                case = cases.find(connection, record_id)
                view = wire.prediction_view_json(
                    record,
                    case,
                    log.outcomes_of(connection, record_id),
                    self._config.precedence(record.model),
                    expect(connection, case, self._config.review.order) if case else NOTHING_EXPECTED,
                    erasing.erased(connection, record_id),
                )
                return view, ended

        return await self._threads.run(read, done="told what became of a prediction")

    async def add_outcome(
        self, record_id: UUID, body: bytes, caller: Caller | None = None, key: str | None = None
    ) -> OutcomeResult:
        """Note the truth about a prediction, as somebody outside knows it."""
        return await self._outcomes.add(record_id, body, key, caller)

    async def add_outcomes(
        self, body: bytes, caller: Caller | None = None, key: str | None = None
    ) -> list[OutcomeOrError]:
        """Note the truth about many predictions; each is written, or refused, by itself."""
        return await self._outcomes.add_many(body, key, caller)

    async def erase(self, record_id: UUID, *, by_whom: str, caller: Caller | None = None) -> dict[str, Any]:
        """Delete the input and the reply of a prediction: `ErasedView`. Doing it again changes nothing."""

        def write(database: Database) -> dict[str, Any]:
            with database.transaction() as connection:
                if caller is not None:
                    caller.check_model(log.find_one(connection, record_id).model)
                return wire.erased_json(erasing.erase(connection, record_id, by_whom))

        return await self._threads.run(write, done="deleted an input")

    async def health(self) -> dict[str, Any]:
        """How the database and every model are: `Health`."""

        (database, waiting), *states = await asyncio.gather(
            self._database_health(), *(_health_of(client) for client in self._models.values())
        )
        models = dict(zip(self._models, states, strict=True))
        missing = [name for name, state in models.items() if state["status"] != "ok"]
        serves = database == "ok" and len(missing) < len(models)
        return {
            "status": "not ok" if not serves else "degraded" if missing else "ok",
            "database": database,
            "not_serving": missing,
            "models": models,
            "review": {"open": waiting, "most_waiting": self._room.most, "full": self._room.full},
        }

    async def _database_health(self) -> tuple[str, int | None]:
        """Whether it is there, and how many cases are open."""
        try:
            (waiting,) = await self._open_cases.call([COUNTED_BEYOND * (self._room.most or COUNTED_FOR_HEALTH)])
        except DatabaseUnavailable:
            return "unavailable", None
        return "ok", waiting

    async def model_health(self, model: str) -> dict[str, Any]:
        """How one model is: `ModelHealth`. Raises `UnknownModel`."""
        if model not in self._models:
            raise UnknownModel(f"there is no model {model!r}; there are: {', '.join(self._models)}")
        return await _health_of(self._models[model])


def _open_cases(database: Database, limits: list[int]) -> list[int]:
    with database.transaction() as connection:
        return [open_cases(connection, at_most=limit) for limit in limits]


async def _health_of(client: ModelClient) -> dict[str, Any]:
    """`ModelHealth`."""
    try:
        state = await asyncio.wait_for(client.host.state(), HEALTH_SECONDS)
    except Exception as error:  # any failure to answer is what we want to know
        return {
            "status": "failed" if isinstance(error, ModelFailed) else "not ready",
            "artifact": None,
            "shadow": None,
            "canary": None,
            "differs": [],
            "detail": str(error) or f"no answer within {HEALTH_SECONDS:g} s",
        }
    return {
        # what is only passed through needs none
        "status": "ok" if state.artifact or client.config.chat.proxy else "no artifact",
        "artifact": state.artifact,
        "shadow": state.shadow,
        "canary": {"artifact": state.canary, "share": state.share} if state.canary else None,
        "differs": list(state.differs),
        "detail": state.trouble,
    }
