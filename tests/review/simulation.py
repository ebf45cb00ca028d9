"""Reviewers as they are: slow, forgetful, of several minds, gone in the middle of a case; and what must hold anyhow.

They speak HTTP to a console. Afterwards `broken_promises` reads what happened from the events that the database noted.
"""

import asyncio
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import uvicorn
from uuid_utils.compat import uuid7

from demur.review import queue
from demur.review.item import TRANSITIONS, NewCase, Status
from demur.serve.config.file import Config
from demur.traffic import log
from demur.traffic.database import Connection, Database
from demur.traffic.record import Entry, Record

LABELS = ("cat", "dog", "eel")
MODEL = "animals"


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How often a reviewer does what, of the cases that they take."""

    vanish: float = 0.05
    """Is never heard of again. Somebody else comes in their place."""

    dawdle: float = 0.05
    """Answers when the lease has run out."""

    linger: float = 0.05
    """Takes longer than the lease, with heartbeats."""

    give_back: float = 0.03
    repeat: float = 0.10
    """Sends the same answer twice at once, as after a lost response."""

    regret: float = 0.08
    """Takes the answer back, and answers again."""

    cannot_tell: float = 0.03
    mistaken: float = 0.10
    """Gives another label than the true one."""


ORDERLY = Habits(vanish=0, dawdle=0, linger=0, give_back=0, repeat=0, regret=0, cannot_tell=0, mistaken=0)


@dataclass
class Told:
    """What the reviewers were told, to be compared with what is on record."""

    claims: int = 0
    accepted: dict[tuple[UUID, int], Any] = field(default_factory=dict)
    """The label of each answer that was taken, by case and token; those that were taken back are no longer in it."""

    lost: set[tuple[UUID, int]] = field(default_factory=set)
    """Answers that came too late."""

    happened: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)


def configured(*, lease_seconds: float, undo_seconds: float) -> Config:
    model = {
        "host": {"kind": "transformers", "checkpoint": "nowhere"},
        "task": {"kind": "multiclass", "labels": LABELS},
        "scores": ["improbability"],
        "confidence": {"score": "improbability"},
        "policy": {"kind": "threshold", "limit": 0.3},
    }
    review = {"lease_seconds": lease_seconds, "undo_seconds": undo_seconds}
    return Config.model_validate({"models": {MODEL: model}, "review": review})


def truth(case_id: UUID) -> str:
    return LABELS[case_id.int % len(LABELS)]


def held_cases(
    database: Database, n: int, *, several: float = 0.0, seed: int = 0, at_once: int = 5000, model: str = MODEL
) -> list[UUID]:
    """Put so many cases into the queue, a share of them wanting two or three opinions."""
    rng = random.Random(seed)
    start = datetime.now(UTC) - timedelta(hours=1)
    ids = []
    for begin in range(0, n, at_once):
        entries = [_held(start + timedelta(milliseconds=i), model) for i in range(begin, min(begin + at_once, n))]
        with database.transaction() as connection:
            log.append(connection, entries)
            queue.enqueue(
                connection,
                [
                    NewCase(
                        record_id=entry.record.id,
                        model=model,
                        created_at=entry.record.created_at,
                        confidence=entry.record.confidence,
                        opinions_wanted=rng.choice((2, 3)) if rng.random() < several else 1,
                    )
                    for entry in entries
                ],
            )
        ids += [entry.record.id for entry in entries]
    return ids


def _held(at: datetime, model: str) -> Entry:
    id = uuid7()
    record = Record(
        id=id,
        created_at=at,
        model=model,
        artifact="animals-1",
        group=None,
        prediction=LABELS[0],
        top_labels=list(LABELS[:2]),
        top_probabilities=[0.5, 0.3],
        prediction_set=list(LABELS[:2]),
        scores={"improbability": 0.5},
        confidence=(id.int % 1000) / 1000,
        action="review",
        reason="confidence is below the limit",
        label_probability=1.0,
        timings={},
    )
    return Entry(record=record, input="a small animal with fur")


@contextmanager
def served(app: Any, *, sweep: Callable[[], object], every_seconds: float = 0.2) -> Iterator[str]:
    """The address of an application that runs in a thread, with its sweep beside it."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(every_seconds):
            sweep()

    sweeper = threading.Thread(target=work, daemon=True)
    sweeper.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the console did not start")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        ended.set()
        thread.join(10)
        sweeper.join(10)


async def review_all(
    address: str, *, reviewers: int, habits: Habits, lease_seconds: float, seed: int = 0, patience_seconds: float = 600
) -> Told:
    """Let so many people work at once until no case is open."""
    told = Told()
    until = time.monotonic() + patience_seconds
    limits = httpx.Limits(max_connections=reviewers, max_keepalive_connections=reviewers)
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=60) as http:
        await asyncio.gather(
            *(_Seat(http, number, habits, lease_seconds, seed, told).work(until) for number in range(reviewers))
        )
    return told


class _Seat:
    """A place at which people work, one after the other."""

    def __init__(
        self, http: httpx.AsyncClient, number: int, habits: Habits, lease_seconds: float, seed: int, told: Told
    ) -> None:
        self._http = http
        self._number = number
        self._habits = habits
        self._lease = lease_seconds
        self._rng = random.Random(seed * 1000 + number)
        self._told = told
        self._people = 1

    async def work(self, until: float) -> None:
        while True:
            claim = await self._post("next")
            if claim.status_code == 200:
                self._told.claims += 1
                await self._look_at(claim.json())
            elif claim.status_code == 204:
                if (await self._get("backlog")).json()["open"] == 0:
                    return
                if time.monotonic() > until:
                    self._told.unexpected.append("cases are still open, though nobody is at work")
                    return
                self._people += 1  # what waits may wait for somebody who has not spoken yet
                await asyncio.sleep(0.05)
            else:
                self._told.unexpected.append(f"next: {claim.status_code} {claim.text}")
                return

    async def _look_at(self, claim: dict[str, Any]) -> None:
        id, token, habits = UUID(claim["case_id"]), claim["token"], self._habits
        chance, seen = self._rng.random(), self._told.happened
        kinds = ("vanish", "dawdle", "linger", "give_back", "repeat", "regret")
        for kind in kinds:
            chance -= getattr(habits, kind)
            if chance < 0:
                break
        else:
            kind = "plainly"
        seen[kind] += 1
        if kind == "vanish":
            self._people += 1
            return
        if kind == "give_back":
            self._expect(await self._post(f"{id}/release", {"token": token}), 204)
            return
        if kind == "dawdle":
            await asyncio.sleep(1.3 * self._lease)
        if kind == "linger":
            for _ in range(4):
                await asyncio.sleep(0.4 * self._lease)
                if (await self._post(f"{id}/heartbeat", {"token": token})).status_code == 409:
                    seen["lingered too long"] += 1
                    return
        body = self._verdict(id, token)
        replies = await asyncio.gather(*(self._post(f"{id}/answer", body) for _ in range(1 + (kind == "repeat"))))
        for reply in replies:
            self._note(id, token, body, reply)
        if kind == "regret" and replies[0].status_code == 200:
            again = await self._post(f"{id}/undo", {"token": token})
            if again.status_code == 409:
                seen["regretted too late"] += 1
                return
            del self._told.accepted[id, token]
            token = again.json()["token"]
            body = self._verdict(id, token)
            self._note(id, token, body, await self._post(f"{id}/answer", body))

    def _verdict(self, id: UUID, token: int) -> dict[str, Any]:
        if self._rng.random() < self._habits.cannot_tell:
            return {"token": token, "label": None, "reason": "it is dark"}
        wrong = self._rng.random() < self._habits.mistaken
        return {"token": token, "label": self._rng.choice(LABELS) if wrong else truth(id)}

    def _note(self, id: UUID, token: int, body: dict[str, Any], reply: httpx.Response) -> None:
        if reply.status_code == 200:
            self._told.accepted[id, token] = body["label"]
        elif reply.status_code == 409 and reply.json()["error"]["kept"]:
            self._told.lost.add((id, token))
        else:
            self._told.unexpected.append(f"answer: {reply.status_code} {reply.text}")

    def _expect(self, reply: httpx.Response, *statuses: int) -> None:
        if reply.status_code not in (*statuses, 409):
            self._told.unexpected.append(f"{reply.request.url.path}: {reply.status_code} {reply.text}")

    async def _post(self, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        while True:
            reply = await self._http.post(f"/v1/cases/{path}", json=body or {}, headers=self._headers)
            if reply.status_code != 503:
                return reply
            self._told.happened["asked to come back"] += 1  # every connection to the database is taken
            await asyncio.sleep(0.2)

    async def _get(self, path: str) -> httpx.Response:
        return await self._http.get(f"/v1/{path}", headers=self._headers)

    @property
    def _headers(self) -> dict[str, str]:
        return {"X-Demur-Reviewer": f"reviewer {self._number}.{self._people}"}


def broken_promises(connection: Connection, told: Told | None = None) -> list[str]:
    """What the events, the opinions and the outcomes say that must not be; empty when all is well."""
    events: dict[UUID, list[tuple[Any, ...]]] = defaultdict(list)
    for case_id, *event in connection.execute(
        "select case_id, at, actor, from_status, to_status, token from review_events order by id"
    ):
        events[case_id].append(tuple(event))
    opinions: dict[UUID, list[tuple[Any, ...]]] = defaultdict(list)
    for case_id, *opinion in connection.execute(
        "select case_id, token, reviewer, label, undone_at is not null from review_opinions order by case_id, token"
    ):
        opinions[case_id].append(tuple(opinion))
    outcomes: dict[UUID, list[Any]] = defaultdict(list)
    for record_id, label in connection.execute("select record_id, label from outcomes where source = 'review'"):
        outcomes[record_id].append(label)
    found = []
    for case_id, label in connection.execute("select id, label from review_items").fetchall():
        problems = [
            *_broken_history(events[case_id]),
            *_broken_opinions(events[case_id], opinions[case_id]),
        ]
        wanted = [] if label is None else [label]
        if outcomes[case_id] != wanted:
            problems.append(f"its outcomes are {outcomes[case_id]}, and it was resolved to {label}")
        found += [f"{case_id}: {problem}" for problem in problems]
    if told:
        found += told.unexpected
        found += _broken_replies(told, opinions)
    return found


def _broken_history(events: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """A case begins waiting, moves as it may, is held by one at a time, and is resolved once, at the end."""
    before: str | None = None
    last_at, holder, last_token = None, None, 0
    for at, actor, from_status, to_status, token in events:
        if from_status != before:
            yield f"it went from {from_status} to {to_status} while it was {before}"
        if before is not None and to_status not in TRANSITIONS.get(Status(before), set()):
            yield f"it went from {before} to {to_status}"
        if last_at is not None and at < last_at:
            yield f"it became {to_status} before it was {before}"
        if to_status == "claimed":
            if holder is not None and (holder != actor or before != "answered"):
                yield f"{actor} got it while {holder} had it"
            if token <= last_token:
                yield f"the claim of {actor} has the token {token}, and there was {last_token} before"
            holder, last_token = actor, token
        elif to_status == "answered":
            if (actor, token) != (holder, last_token):
                yield f"{actor} answered with the token {token}; {holder} had it with {last_token}"
        else:
            holder = None
        before, last_at = to_status, at
    ends = [to for _, _, _, to, _ in events].count("resolved")
    if ends != 1 or before != "resolved":
        yield f"it was resolved {ends} times, and is {before}"


def _broken_opinions(events: Sequence[tuple[Any, ...]], opinions: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """Each answer is an opinion and each opinion an answer, and nobody counts twice."""
    answered = sorted((token, actor) for _, actor, _, to, token in events if to == "answered")
    if answered != sorted((token, reviewer) for token, reviewer, _, _ in opinions):
        yield "its answers are not its opinions"
    counting = Counter(reviewer for _, reviewer, _, undone in opinions if not undone)
    yield from (f"{reviewer} counts {times} times" for reviewer, times in counting.items() if times > 1)


def _broken_replies(told: Told, opinions: dict[UUID, list[tuple[Any, ...]]]) -> Iterator[str]:
    """What was accepted is there and counts, and nothing else does."""
    counting = {
        (case_id, token): label for case_id, said in opinions.items() for token, _, label, undone in said if not undone
    }
    for key in told.accepted.keys() - counting.keys():
        yield f"{key[0]}: the answer {key[1]} was accepted, and does not count"
    for key in counting.keys() - told.accepted.keys():
        yield f"{key[0]}: the answer {key[1]} counts, and nobody was told so"
    for key in counting.keys() & told.accepted.keys():
        if counting[key] != told.accepted[key]:
            yield f"{key[0]}: the answer {key[1]} was {told.accepted[key]}, and is {counting[key]}"
    for key in told.lost & counting.keys():
        yield f"{key[0]}: the answer {key[1]} was refused, and counts"
