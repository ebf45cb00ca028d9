"""What the gateway does for each kind of request. Knows no HTTP and no Ray; `pipeline.py` has the stages of a row."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from uuid import UUID

from demur.serve.access.caller import Caller
from demur.serve.access.refusals import NotAllowed
from demur.serve.config.file import Config
from demur.serve.contract.body import read_apart
from demur.serve.contract.commit import CommitOutcome, CommitResult, Pieces
from demur.serve.contract.hosts import HostClient
from demur.serve.contract.inputs import InputLimits, InputSpec, InvalidRequest, TooLarge
from demur.serve.contract.upload import Upload, read_upload
from demur.serve.contract.wire import PredictRequest
from demur.serve.gateway import polls
from demur.serve.gateway.controls import Controls
from demur.serve.gateway.finish import Finisher
from demur.serve.gateway.inquiries import Inquiries
from demur.serve.gateway.model_client import ModelClient
from demur.serve.gateway.new_cases import NewCases
from demur.serve.gateway.pictures import PictureReader
from demur.serve.gateway.pipeline import Pipeline, RequestGroup
from demur.serve.gateway.polls import Poll
from demur.serve.gateway.queue_room import QueueRoom
from demur.serve.gateway.reading import batch_of_files, prediction_of_file, read_batch, read_prediction
from demur.serve.gateway.redaction import Redaction
from demur.serve.gateway.replays import Replays
from demur.serve.gateway.safeguards import Safeguards
from demur.serve.gateway.spot_checks import SpotChecks
from demur.serve.gateway.streams import Streams
from demur.serve.gateway.writer import Writer
from demur.serve.telemetry.telemetry import Queue, Telemetry
from demur.traffic.database import Database, DatabaseUnavailable
from demur.traffic.draw import Draws
from demur.traffic.record import KeyUse


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
        self.config = config
        self.database = database
        self.telemetry = telemetry or Telemetry()
        self.telemetry.queues = self.queues
        limits = InputLimits(text_characters=config.limits.text_characters, image_pixels=config.limits.image_pixels)
        self.pictures = PictureReader(limits, config.models)
        self._finisher = Finisher(
            config,
            controls=Controls(config.models, clock=clock, new_id=new_id),
            safeguards=Safeguards(),
            spot_checks=SpotChecks(config.models),
            new_cases=NewCases(draw_key, config.review),
            room=QueueRoom(config.review.most_waiting),
        )
        redaction = Redaction(config.redact) if config.redact else None
        self._writer = Writer(self._finisher, database, redaction, clock=clock, telemetry=self.telemetry)
        draws, then = Draws(draw_key, "canary"), self._writer.write_batch
        models = {
            name: ModelClient(name, config.models[name], host, draws, self.telemetry, then=then)
            for name, host in hosts.items()
        }
        self.pipeline = Pipeline(models, self.pictures, self._writer, new_id=new_id)
        self._streams = Streams(self.pictures, self._writer, clock=clock, new_id=new_id)
        self.inquiries = Inquiries(config, models, database, self._finisher.room)
        self._replays = Replays(database)
        self._closing: list[Callable[[], Awaitable[None]]] = []

    @property
    def models(self) -> Mapping[str, ModelClient]:
        """The models that are served, by name."""
        return self.pipeline.models

    def model(self, name: str) -> ModelClient:
        """Return the way to a model. Raises `UnknownModel`."""
        return self.pipeline.model(name)

    @property
    def polls(self) -> dict[str, Poll]:
        """What is looked at before the first request, and again and again after it."""
        finisher = self._finisher
        return {
            "alarms": Poll(partial(finisher.safeguards.look, self.database), polls.ALARM_SECONDS),
            "counting": Poll(partial(finisher.room.count, self.database), polls.COUNT_SECONDS),
            "control": Poll(partial(finisher.controls.keep, self.database), polls.CONTROL_SECONDS),
            "traffic": Poll(partial(finisher.spot_checks.look, self.database), polls.TRAFFIC_SECONDS),
            "database": Poll(self._look_at_database, polls.DATABASE_SECONDS),
        }

    async def predict(
        self, body: bytes, key: str | None, caller: Caller | None = None, *, form: str | None = None
    ) -> CommitResult:
        """Serve one request. What is returned is on disk; whatever is raised was not acknowledged. `form` is the
        content type of a form with a file in it, and None for JSON."""
        read = partial(read_prediction, body, key, caller)
        if form is not None:
            read = partial(prediction_of_file, *await self._uploaded(body, form, caller), key, caller)
        request, use = await read_apart(len(body), read)
        if caller is not None:
            caller.check_model(request.model)
            caller.take_predictions({request.model: 1})
        if use and (stored := await self.replay(use)):
            return stored
        return await self.predict_one(request, use, caller)

    async def predict_one(self, request: PredictRequest, use: KeyUse | None, caller: Caller | None) -> CommitResult:
        """Serve one request that is read and allowed already. What is returned is on disk."""
        result = (await self.pipeline.run(RequestGroup(requests=[request], uses=[use], caller=caller)))[0]
        if isinstance(result, Exception):
            raise result
        return result

    async def replay(self, use: KeyUse) -> CommitResult | None:
        """Return what was answered under this Idempotency-Key before; None where nothing was."""
        return (await self._replays.of(use)).get(0)

    def may_stream(self, model: str) -> bool:
        """Whether a reply may be shown before it is decided about; not while an alarm holds everything."""
        return not self._finisher.safeguards.holds_all(model)

    async def stream(self, request: PredictRequest, use: KeyUse | None) -> tuple[UUID, datetime, Pieces]:
        """Return the id of the record, its time, and the reply as it is written. Raises as `predict` does."""
        return await self._streams.open(self.model(request.model), request, use)

    async def predict_batch(
        self, body: bytes, key: str | None, caller: Caller | None = None, *, form: str | None = None
    ) -> list[CommitOutcome]:
        """Serve up to `limits.batch` requests; each result is what `predict` would have returned or raised. `form` is
        the content type of a form with files in it, and None for JSON."""
        most = self.config.limits.batch
        read = partial(read_batch, body, key, caller, most=most)
        if form is not None:
            read = partial(batch_of_files, *await self._uploaded(body, form, caller), key, caller, most=most)
        items, use = await read_apart(len(body), read)
        stored = await self._replays.of(use, rows=len(items)) if use else {}
        results: list[CommitOutcome | None] = [stored.get(position) for position in range(len(items))]
        requests: dict[int, PredictRequest] = {}
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
        group = RequestGroup(requests=[*requests.values()], uses=uses, caller=caller)
        for position, result in zip(requests, await self.pipeline.run(group), strict=True):
            results[position] = result
        return [result for result in results if result is not None]

    def check_rows(self, number: int) -> None:
        """Raise `TooLarge` for more rows than a request may have."""
        if number > self.config.limits.batch:
            raise TooLarge(f"the request has {number:,} rows; at most {self.config.limits.batch:,} are taken")

    async def predict_parsed(
        self,
        requests: Sequence[PredictRequest],
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
        stored = await self._replays.of(use, rows=len(requests)) if use else {}
        missing = [at for at in range(len(requests)) if at not in stored]
        uses = [replace(use, position=at) if use else None for at in missing]
        group = RequestGroup(
            requests=[requests[at] for at in missing],
            uses=uses,
            caller=caller,
            together=True,
            by_this_model=by_this_model,
        )
        done = await self.pipeline.run(group)
        results = {**stored, **dict(zip(missing, done, strict=True))}
        for result in results.values():
            if isinstance(result, Exception):
                raise result
        return [results[at] for at in range(len(requests))]  # type: ignore[misc]  # no errors are left

    def follow(self, model: str, *, replicas: int) -> None:
        """A model is served by so many replicas from now on; called again and again, where that follows the load."""
        self.models[model].follow(replicas)

    def queues(self) -> list[Queue]:
        """What waits in the gateway now."""
        waiting = [queue for client in self.models.values() for queue in client.queues()]
        return [*waiting, *self.pictures.queues(), self._replays.queue(), self._writer.queue()]

    def when_closed(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call this as well when the handler closes."""
        self._closing.append(close)

    async def close(self) -> None:
        """Let go of what requests have left open."""
        await asyncio.to_thread(self._finisher.controls.close, self.database)
        self.inquiries.close()
        self.pictures.close()
        for close in self._closing:
            await close()
        if self.telemetry.traces:
            await asyncio.to_thread(self.telemetry.traces.close)

    async def _uploaded(self, body: bytes, form: str, caller: Caller | None) -> tuple[Upload, InputSpec]:
        """The files of a form, and what the model takes that is asked about them."""
        most = self.config.limits.batch
        upload = await read_apart(len(body), partial(read_upload, body, form, most_files=most))
        if caller is not None:
            caller.check_model(upload.model)
        return upload, await self.model(upload.model).spec()

    def _look_at_database(self) -> None:
        try:
            with self.database.transaction() as connection:
                connection.execute("select 1")
        except DatabaseUnavailable:
            self.telemetry.database_up = False
        else:
            self.telemetry.database_up = True
