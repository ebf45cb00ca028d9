"""What one model does not answer goes to the next, until one answers or the last has spoken."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from demur.serve.contract.hosts import ModelNotReady, Step
from demur.serve.contract.inputs import InvalidRequest, ModelInput
from demur.serve.contract.rows import ModelRow, PendingRow
from demur.serve.gateway.model_client import ModelClient

logger = logging.getLogger("demur.gateway")

Read = Callable[[PendingRow, ModelClient], Awaitable[ModelInput]]
"""Gives an input in the form that another model takes."""


async def follow(
    model: str,
    models: Mapping[str, ModelClient],
    asked: Sequence[PendingRow],
    rows: Sequence[ModelRow],
    *,
    read: Read,
) -> list[ModelRow]:
    """Return the last word about each of the rows that `model` decided.

    Every model of a cascade decides by the artifact that the first one named. Where the next one cannot be asked, the
    prediction is held. Raises `Overloaded` where a later model is.
    """
    ended = list(rows)
    while onward := _escalated(ended):
        await asyncio.gather(
            *(_ask(ended, members, models.get(name), Step(model, artifact), asked, read, name)
              for (name, artifact), members in onward.items())
        )  # fmt: skip
    return ended


def _escalated(rows: Sequence[ModelRow]) -> dict[tuple[str, str], list[int]]:
    """Positions of rows for which another model is to be asked, by its name and the artifact that says so."""
    onward: dict[tuple[str, str], list[int]] = {}
    for at, row in enumerate(rows):
        if row.escalates and row.share:
            onward.setdefault((row.share.decided.asks_next, row.share.decided.artifact), []).append(at)
    return onward


async def _ask(
    rows: list[ModelRow],
    members: Sequence[int],
    client: ModelClient | None,
    step: Step,
    asked: Sequence[PendingRow],
    read: Read,
    name: str,
) -> None:
    """Put what the next model says in the place of what the one before said."""
    if client is None:
        logger.error("model %s escalates to %s, which is not served", step.model, name)
        for at in members:
            rows[at] = _held(rows[at], f"model {name} was to be asked and is not served")
        return
    ready, onward = [], []
    for at in members:
        try:
            value = await read(asked[at], client)
            onward.append(replace(asked[at], input=value, at=time.perf_counter(), step=step))
            ready.append(at)
        except (InvalidRequest, ModelNotReady) as error:
            rows[at] = _held(rows[at], f"model {name} was to be asked and could not be: {error}")
    if not ready:
        return
    answers = await client.decide_next(onward)
    for at, answer in zip(ready, answers, strict=True):
        if answer.share is None:
            rows[at] = replace(_held(rows[at], f"model {name} was asked: {answer.why_none}"), outage=answer.outage)
        else:
            rows[at] = replace(answer, before=(*rows[at].before, rows[at]))


def _held(row: ModelRow, why: str) -> ModelRow:
    """The row as the last model that spoke left it, and held."""
    return replace(row, why_none=why)
