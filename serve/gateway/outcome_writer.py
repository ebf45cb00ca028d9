"""The truth about predictions, told one by one or many at a time: checked, and written once for an Idempotency-Key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from demur.serve.access.caller import Caller
from demur.serve.access.refusals import NotAllowed
from demur.serve.config.file import Config
from demur.serve.contract import wire
from demur.serve.contract.body import read_apart
from demur.serve.contract.corrections import checked_text
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.gateway.database_calls import DatabaseThreads
from demur.serve.gateway.reading import read_outcome, read_outcomes
from demur.serve.gateway.redaction import Redaction, RedactionFailed
from demur.traffic import corrected_replies, log, outcome_log
from demur.traffic.database import Connection, Database
from demur.traffic.log import RecordNotFound
from demur.traffic.outcome_log import NewOutcome
from demur.traffic.record import Answer, KeyUse, Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeResult:
    """An outcome that is on disk."""

    outcome: Outcome
    replayed: bool
    """Whether it was written before, under the same key."""


OutcomeOrError = OutcomeResult | Exception


class OutcomeWriter:
    """Writes what callers say about predictions."""

    def __init__(self, config: Config, threads: DatabaseThreads) -> None:
        self._config = config
        self._threads = threads
        self._redaction = Redaction(config.redact) if config.redact else None

    async def add(self, record_id: UUID, body: bytes, key: str | None, caller: Caller | None) -> OutcomeResult:
        """Note the truth about one prediction. Raises what is wrong with it."""
        item, use = await read_apart(len(body), lambda: read_outcome(record_id, body, key, caller))
        (result,) = await self._written([item], use, caller)
        if isinstance(result, Exception):
            raise result
        return result

    async def add_many(self, body: bytes, key: str | None, caller: Caller | None) -> list[OutcomeOrError]:
        """Note up to `limits.batch` outcomes in one transaction; each result is what `add` would have returned or
        raised."""
        most = self._config.limits.batch
        items, use = await read_apart(len(body), lambda: read_outcomes(body, key, caller, most=most))
        return await self._written(items, use, caller)

    async def _written(
        self, items: Sequence[wire.OutcomeItem | InvalidRequest], use: KeyUse | None, caller: Caller | None
    ) -> list[OutcomeOrError]:
        return await self._threads.run(
            lambda database: self._write(database, items, use, caller), done="written an outcome"
        )

    def _write(
        self,
        database: Database,
        items: Sequence[wire.OutcomeItem | InvalidRequest],
        use: KeyUse | None,
        caller: Caller | None,
    ) -> list[OutcomeOrError]:
        results: dict[int, OutcomeOrError] = {}
        told: dict[int, NewOutcome] = {}
        with database.transaction() as connection:
            models = outcome_log.models_of(connection, [one.id for one in items if isinstance(one, wire.OutcomeItem)])
            for at, item in enumerate(items):
                if isinstance(item, InvalidRequest):
                    results[at] = item
                    continue
                try:
                    told[at] = self._checked(item, models, caller)
                except (RecordNotFound, NotAllowed, InvalidRequest, RedactionFailed) as error:
                    results[at] = error
            if use is not None:
                before = _written_before(connection, use, told)
                results |= before
                told = {at: one for at, one in told.items() if at not in before}
            for at in _without_reply(connection, told):
                del told[at]
                results[at] = InvalidRequest("text: the reply is no longer kept, so no other one is; leave it out")
            written = outcome_log.append(connection, list(told.values()))
        results |= {at: OutcomeResult(outcome=one, replayed=False) for at, one in zip(told, written, strict=True)}
        return [results[at] for at in range(len(items))]

    def _checked(self, item: wire.OutcomeItem, models: Mapping[UUID, str], caller: Caller | None) -> NewOutcome:
        model = models.get(item.id)
        if model is None:
            raise RecordNotFound(f"there is no prediction with the id {item.id}")
        if caller is not None:
            caller.check_model(model)
        label, text = item.label, item.text
        if model in self._config.models:  # a model that is no longer served is not argued with
            task = self._config.models[model].task
            label = wire.checked_label(label, model, task)
            if text is not None:
                text = checked_text(text, label, model, task, None)
        if text is not None and self._redaction is not None:
            text = self._redaction.text(text)
        return NewOutcome(record_id=item.id, label=label, source=item.source, author=item.author, text=text)


def _written_before(connection: Connection, use: KeyUse, told: Mapping[int, NewOutcome]) -> dict[int, OutcomeOrError]:
    """Those of the outcomes that were written under this key before; the key is taken for the others. Raises
    `KeyReused`."""
    found = log.find_by_key(connection, use)
    free = {at: one.record_id for at, one in told.items() if at not in found}
    taken = outcome_log.claim(connection, use, free) if free else set()
    if taken != set(free):
        log.find_by_key(connection, use)  # somebody took the key meanwhile, perhaps for something else
    before = {at: one for at, one in told.items() if at not in taken}
    written = outcome_log.outcomes_of(connection, [one.record_id for one in before.values()]) if before else {}
    return {
        at: OutcomeResult(outcome=_the_same(one, written[one.record_id]), replayed=True) for at, one in before.items()
    }


def _without_reply(connection: Connection, told: Mapping[int, NewOutcome]) -> list[int]:
    """Those of the outcomes whose text nobody can keep, because the reply in whose place it stands is gone. None of the
    other replies goes before the transaction ends."""
    texts = {at: one.record_id for at, one in told.items() if one.text is not None}
    kept = corrected_replies.hold_replies(connection, list(texts.values())) if texts else set()
    return [at for at, record_id in texts.items() if record_id not in kept]


def _the_same(told: NewOutcome, outcomes: Sequence[Outcome]) -> Outcome:
    """The one of a record's outcomes that says this. The task may have other labels now than when it was written, and
    a text may have had its time."""
    said: tuple[Answer, str, str | None] = (told.label, told.source, told.author)
    like = [one for one in outcomes if (one.label, one.source, one.author) == said] or outcomes[:1]
    return next((one for one in like if one.text == told.text), like[0])
