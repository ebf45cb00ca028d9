"""Callers that keep asking a service, a note of everything that each was told, and whether the database agrees.

Every request says in `cluster` which one it is. So the log itself tells how often it was recorded.
"""

import http.client
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

COMPARED = ("id", "model", "artifact", "prediction", "action", "confidence", "reason", "prediction_set")
"""What an answer and its record both tell."""

PATIENCE_SECONDS = 90.0

IMPATIENT = 32
"""So many callers ask again at once when they are refused; more of them wait for as long as they are told, up to a
second."""

WINDOW_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Told:
    """What came of one try."""

    request: str
    at: float
    """When it came to its end, on the clock of `time.monotonic`."""

    seconds: float
    status: int
    """0 where no whole response came."""

    said: Any
    """The body where it is JSON; else what went wrong, in a word."""

    retry_after: float = 0.0
    """After how many seconds the service wants to be asked again, where it says so."""

    @property
    def trouble(self) -> str:
        """In a word, what this is where it is no answer."""
        if isinstance(self.said, dict):
            return f"{self.status} {self.said.get('error', {}).get('kind', '')}".strip()
        return f"{self.status} {self.said}".strip() if self.status else str(self.said)


class Load:
    """So many callers at a time, from `with` on until its end. Every second one has an Idempotency-Key for each of its
    requests, and asks again until there is an answer."""

    def __init__(
        self,
        url: str,
        inputs: Sequence[Any],
        *,
        callers: int = 8,
        model: str = "digits",
        timeout_seconds: float = 30.0,
        headers: dict[str, str] | None = None,
        pause_seconds: float = 0.0,
    ) -> None:
        self._address = urlsplit(url)
        self._inputs = inputs
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._headers = headers or {}
        self._pause_seconds = pause_seconds
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n,), daemon=True) for n in range(callers)]
        self._name = f"{time.time_ns():x}"
        self.told: list[Told] = []
        self.asked: list[str] = []
        """Every request that was sent, whatever came of it."""

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let every caller come to the end of what it asks."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    @property
    def answered(self) -> list[Told]:
        return [one for one in list(self.told) if one.status == 200]

    @property
    def troubles(self) -> Counter[str]:
        """What callers met that is no answer, and how often."""
        return Counter(one.trouble for one in list(self.told) if one.status != 200)

    def wait_for(self, answers: int, *, patience: float = PATIENCE_SECONDS) -> None:
        """Come back when there are so many more answers than now."""
        wanted = len(self.answered) + answers
        deadline = time.monotonic() + patience
        while len(self.answered) < wanted:
            assert time.monotonic() < deadline, f"{wanted - len(self.answered)} answers are missing: {self.troubles}"
            time.sleep(0.05)

    def _ask(self, caller: int) -> None:
        connection = None
        for n in itertools.count():
            request = f"{self._name}-{caller}-{n}"
            body = {
                "model": self._model,
                "input": self._inputs[(caller * 50 + n) % len(self._inputs)],
                "cluster": request,
            }
            headers = {"content-type": "application/json", **self._headers}
            if caller % 2:
                headers["Idempotency-Key"] = request
            self.asked.append(request)
            while not self._stopped.is_set():
                if connection is None:
                    connection = http.client.HTTPConnection(
                        self._address.hostname or "", self._address.port, timeout=self._timeout_seconds
                    )
                told = self._try(connection, request, json.dumps(body), headers)
                self.told.append(told)
                if told.status == 0:
                    connection.close()
                    connection = None
                if told.status != 200:
                    self._stopped.wait(max(0.05, min(told.retry_after, 1.0) if caller >= IMPATIENT else 0.0))
                if told.status == 200 or not caller % 2:
                    break
            if self._stopped.is_set():
                break
            if self._pause_seconds:
                time.sleep(self._pause_seconds)
        if connection:
            connection.close()

    def _try(self, connection: http.client.HTTPConnection, request: str, body: str, headers: dict[str, str]) -> Told:
        began = time.monotonic()
        retry_after = 0.0
        try:
            connection.request("POST", f"{self._address.path}/v1/predict", body, headers)
            response = connection.getresponse()
            status, content = response.status, response.read()
            retry_after = float(response.headers.get("Retry-After", 0.0))
            said = json.loads(content) if response.headers.get_content_type() == "application/json" else "not JSON"
        except ConnectionRefusedError:
            status, said = 0, "connection refused"
        except TimeoutError:
            status, said = 0, f"nothing for {self._timeout_seconds:g} s"
        except (OSError, http.client.HTTPException):
            status, said = 0, "connection broken"
        now = time.monotonic()
        return Told(request, now, now - began, status, said, retry_after)


@dataclass
class Account:
    """What callers were told, beside what is on record."""

    acknowledged: int = 0
    held: int = 0
    lost: list[str] = field(default_factory=list)
    """Acknowledged, and not on record."""

    altered: list[str] = field(default_factory=list)
    """On record with other contents."""

    doubled: list[str] = field(default_factory=list)
    """Requests that were recorded more than once."""

    unqueued: list[str] = field(default_factory=list)
    """Held on record, and not once in the queue; or without their input."""

    unanswered: int = 0
    """On record, and nobody was told: the answer was lost on its way. No harm is done."""

    @property
    def clean(self) -> bool:
        return not (self.lost or self.altered or self.doubled or self.unqueued)


def account_of(dsn: str, *loads: Load) -> Account:
    """Compare every answer with the record of that id, every request with the number of its records, and every held
    record with the queue."""
    account = Account()
    with psycopg.connect(dsn) as connection:
        for load in loads:
            _compare(connection, load, account)
    return account


def _compare(connection: psycopg.Connection, load: Load, account: Account) -> None:
    columns = ", ".join(f"r.{name}" for name in COMPARED)
    rows = connection.execute(
        f"select {columns}, r.cluster, (select count(*) from payloads p where p.record_id = r.id),"
        " (select count(*) from review_items i where i.record_id = r.id and i.kind = 'held')"
        " from records r where r.cluster = any(%s)",
        (load.asked,),
    ).fetchall()
    recorded = {row[0]: row for row in rows}
    per_request = Counter(row[-3] for row in rows)
    account.doubled += [request for request, n in per_request.items() if n > 1]
    account.unqueued += [
        str(row[0]) for row in rows if row[-2] != 1 or row[-1] != (row[COMPARED.index("action")] == "review")
    ]
    answers = {UUID(told.said["id"]): told for told in load.answered}
    account.acknowledged += len(answers)
    account.held += sum(told.said["action"] == "review" for told in answers.values())
    for record_id, told in answers.items():
        row = recorded.get(record_id)
        if row is None:
            account.lost.append(f"{record_id} by {told.said['artifact']}")
        elif _plain(row) != _plain(tuple(told.said[name] for name in COMPARED)) or row[-3] != told.request:
            account.altered.append(str(record_id))
    account.unanswered += len(recorded.keys() - answers.keys())


def _plain(values: Iterable[Any]) -> list[Any]:
    return [str(value) if isinstance(value, UUID) else value for value in list(values)[: len(COMPARED)]]


def recovery_seconds(load: Load, fault: float, *, share: float = 0.7) -> float:
    """After how many seconds answers flow again at `share` of the rate from before the fault; 0 where they never fell
    to half of it, infinity where they did not come back."""
    times = sorted(told.at for told in load.answered)
    if not times:
        return float("inf")
    end = max(told.at for told in load.told)
    before = [at for at in times if at < fault]
    usual = len(before) / max(fault - times[0], 0.1)

    def rate(since: float) -> float:
        return sum(since <= at < since + WINDOW_SECONDS for at in times) / WINDOW_SECONDS

    fallen = False
    since = fault
    while since + WINDOW_SECONDS <= end:
        now = rate(since)
        if not fallen and now < 0.5 * usual:
            fallen = True
        elif fallen and now >= share * usual:
            return since - fault
        since += 0.1
    return float("inf") if fallen else 0.0


def longest_silence(load: Load, since: float) -> float:
    """The longest time after `since` in which nobody got an answer."""
    times = [since, *sorted(told.at for told in load.answered if told.at > since)]
    return max((after - before for before, after in itertools.pairwise(times)), default=float("inf"))
