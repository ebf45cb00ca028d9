"""Artifacts change roles while two hundred requests are in flight: none is dropped, and none is mixed."""

import asyncio
import json
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

import aiohttp
import numpy as np
import pytest

from demur.calibration_store.artifact import ModelIdentity, pack
from demur.calibration_store.store import ArtifactStore
from demur.policies.threshold import Threshold
from demur.serve.contract import wire
from demur.serve.database.postgres import EmbeddedPostgres
from demur.traffic import log
from demur.traffic.database import Database
from tests.conftest import digit_rows
from tests.system.conftest import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

IN_FLIGHT = 200
NOTICED_SECONDS = 5.0
ENOUGH = 100
"""Requests after each step, to tell what was in force."""

SHARE = 0.3


@dataclass(frozen=True)
class Answer:
    sent: float
    status: int
    body: dict


class Load:
    """As many clients as requests shall be in flight: each asks for the next digit as soon as it has an answer."""

    def __init__(self, url, rows):
        self.url = url
        self.bodies = [json.dumps({"model": "digits", "input": row["input"]}).encode() for row in rows]
        self.answers: list[Answer] = []
        self.stop = False

    async def ask(self, client, at):
        while not self.stop:
            sent = time.monotonic()
            async with client.post("/v1/predict", data=self.bodies[at % len(self.bodies)]) as response:
                self.answers.append(Answer(sent, response.status, await response.json()))
            at += IN_FLIGHT

    async def noticed(self, within=NOTICED_SECONDS):
        """Wait until what has just been done must have been noticed, and enough was asked since."""
        noticed, deadline = time.monotonic() + within, time.monotonic() + PATIENCE_SECONDS
        while len([x for x in self.answers if x.sent > noticed]) < ENOUGH and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        await asyncio.sleep(2)

    async def during(self, steps):
        """Take the steps, one after the other, with time to be noticed; return when each began and was taken, and when
        all was over."""
        steps_taken = []
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT)
        headers = {"content-type": "application/json"}
        async with aiohttp.ClientSession(self.url, connector=connector, headers=headers) as client:
            asking = [asyncio.create_task(self.ask(client, i)) for i in range(IN_FLIGHT)]
            await self.noticed(within=0)  # nothing was done yet
            for step in steps:
                began = time.monotonic()
                await asyncio.to_thread(step)
                steps_taken.append((began, time.monotonic()))
                await self.noticed()
            self.stop = True
            await asyncio.gather(*asking)
        return steps_taken, time.monotonic()


def another(store, artifact, *, limit, scores, slope):
    """Store an artifact that tells itself apart from this one by its limit, its scores and its confidence."""
    selector = artifact.selector
    fitted = artifact.manifest["model"]
    files = pack(
        replace(
            selector,
            scores={name: selector.scores[name] for name in scores},
            calibrator=replace(selector.calibrator, a=selector.calibrator.a * slope),
            policy=Threshold(limit=limit, meaning=f"the limit of {limit}"),
        ),
        model="digits",
        identity=ModelIdentity(
            checkpoint=fitted["checkpoint"], fingerprint=fitted["fingerprint"], labels=tuple(fitted["labels"])
        ),
        facts={},
    )
    store.save("digits", files)
    return store.load("digits", files.name)


def confidence_by(artifact, body):
    """What the artifact makes of the score in this answer."""
    calibrator = artifact.selector.calibrator
    assert calibrator.reads == "score"
    return pytest.approx(calibrator.confidence(np.array([-body["scores"]["softmax_response"]]))[0], rel=1e-9)


def assert_made_by(artifact, body):
    """Everything in the answer is what this artifact says, and no other."""
    selector = artifact.selector
    assert set(body["scores"]) == set(selector.scores)
    assert body["confidence"] == confidence_by(artifact, body)
    assert body["reason"].endswith(selector.policy.meaning)
    assert body["action"] == ("answer" if body["confidence"] >= selector.policy.limit else "review")


def test_promotions_a_canary_and_a_shadow_under_load_drop_and_mix_nothing(service, http, digits):
    store = ArtifactStore(str(service.folder / "var/artifacts"))
    a = store.in_force("digits")
    b = another(store, a, limit=0.9, scores=["softmax_response", "entropy"], slope=0.5)
    c = another(store, a, limit=0.5, scores=["softmax_response"], slope=0.25)
    told = {"by": "tests", "why": "under load", "clock": lambda: datetime.now(UTC)}

    def canary_and_shadow():
        store.start_canary("digits", b.name, share=SHARE, held_between=(0, 1), max_risk=None, **told)
        store.shadow("digits", c.name, **told)

    began = datetime.now(UTC)
    load = Load(service.url, digit_rows(digits))
    steps = [
        lambda: store.promote("digits", b.name, **told),
        lambda: store.promote("digits", a.name, **told),
        canary_and_shadow,
    ]
    (to_b, to_a, mixed), end = asyncio.run(load.during(steps))

    assert {answer.status for answer in load.answers} == {200}
    assert {answer.body["artifact"] for answer in load.answers} == {a.name, b.name}
    for answer in load.answers:
        assert_made_by({a.name: a, b.name: b}[answer.body["artifact"]], answer.body)

    def used(since, until):
        return [x.body["artifact"] for x in load.answers if since + NOTICED_SECONDS < x.sent < until - 1]

    assert set(used(0, to_b[0])) == {a.name}
    assert set(used(to_b[1], to_a[0])) == {b.name}
    assert set(used(to_a[1], mixed[0])) == {a.name}
    drawn = used(mixed[1], end)
    assert abs(drawn.count(b.name) - SHARE * len(drawn)) < 5 * (SHARE * (1 - SHARE) * len(drawn)) ** 0.5

    health = http.get("/healthz").json()["models"]["digits"]
    assert (health["artifact"], health["shadow"]) == (a.name, c.name)
    assert health["canary"] == {"artifact": b.name, "share": SHARE}
    assert health["detail"] == ""
    assert c.name not in json.dumps([answer.body for answer in load.answers])
    assert_on_record(service, load.answers, began, c, [x for x in load.answers if x.sent > mixed[1] + NOTICED_SECONDS])


def assert_on_record(service, answers, began, shadow, shadowed):
    """Every answer is its record, no record is without an answer, and the shadow's decisions stand beside them."""
    with EmbeddedPostgres(service.folder / "var") as server:
        database = Database(server.dsn)
        by_id = {answer.body["id"]: answer.body for answer in answers}
        assert len(by_id) == len(answers)
        with database.transaction() as connection:
            ids = [
                str(row[0])
                for row in connection.execute(
                    "select id from records where model = 'digits' and created_at >= %s", (began,)
                ).fetchall()
            ]
            assert set(ids) == set(by_id)
            for start in range(0, len(ids), 1000):
                for record in log.find(connection, ids[start : start + 1000]).values():
                    assert json.loads(wire.dump(wire.prediction_json(record))) == by_id[str(record.id)]
            rows = connection.execute(
                "select record_id::text, artifact, confidence, action from shadow_decisions where record_id = any(%s)",
                ([UUID(one) for one in ids],),
            ).fetchall()
        database.close()
    assert {artifact for _, artifact, *_ in rows} == {shadow.name}
    assert {answer.body["id"] for answer in shadowed} <= {record_id for record_id, *_ in rows}
    for record_id, _, confidence, action in rows:
        assert confidence == confidence_by(shadow, by_id[record_id])
        assert action == ("answer" if confidence >= 0.5 else "review")
