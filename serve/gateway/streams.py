"""A reply that is shown as it is written, and decided about at its end."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from demur.serve.contract.commit import CommitResult, Pieces
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.rows import ModelRow, PendingRow
from demur.serve.contract.wire import PredictRequest
from demur.serve.gateway.model_client import ModelClient
from demur.serve.gateway.pictures import PictureReader
from demur.serve.gateway.writer import Writer
from demur.serve.telemetry.request_context import VISIT
from demur.traffic.record import KeyUse


class Streams:
    """Opens streams of replies."""

    def __init__(
        self,
        pictures: PictureReader,
        writer: Writer,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], UUID],
    ) -> None:
        self._pictures = pictures
        self._writer = writer
        self._clock = clock
        self._new_id = new_id

    async def open(
        self, client: ModelClient, request: PredictRequest, use: KeyUse | None
    ) -> tuple[UUID, datetime, Pieces]:
        """Return the id of the record, its time, and the reply as it is written, once the model is being asked. Until
        then it raises as `Handler.predict` does."""
        record_id, at = self._new_id(), self._clock()
        with self._pictures.request() as read:
            (checked,) = await read(client.name, [request.input], await client.spec())
        if isinstance(checked, InvalidRequest):
            raise checked
        request = request.model_copy(update={"input": checked.kept})
        row = PendingRow(record_id, request, checked.value, time.perf_counter(), use, VISIT.get())
        items = client.stream(row)
        first = await anext(items)

        async def pieces() -> AsyncGenerator[str | CommitResult, None]:
            async with aclosing(items):
                item = first
                while isinstance(item, str):
                    if item:
                        yield item
                    item = await anext(items)
                committed = (await self._writer.write([row], [_last_word(item)]))[0]
                if isinstance(committed, Exception):
                    raise committed
                yield committed

        return record_id, at, pieces()


def _last_word(row: ModelRow) -> ModelRow:
    """What was streamed is this model's, so nobody else is asked about it."""
    if row.escalates:
        return replace(row, why_none="another model was to be asked, and a tentative stream has no time for that")
    return row
