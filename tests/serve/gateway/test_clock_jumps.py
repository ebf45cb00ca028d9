"""The clock of a gateway jumps back and forth: every prediction is on record once, and the queue does not mind."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from uuid_utils.compat import uuid7

from demur.review import cases, queue
from demur.serve.gateway.handler import Handler
from demur.traffic import log
from tests.serve.conftest import DRAW_KEY

JUMPS = [0, -3600, 7200, -86400 * 400, 86400 * 400, 1, 0, -1]


@pytest.fixture
def jumping(quickstart, local_host, database):
    """A handler whose clock jumps with every look at it, and forgets inputs after a day."""
    looks = iter(range(10**9))

    def clock():
        return datetime.now(UTC) + timedelta(seconds=JUMPS[next(looks) % len(JUMPS)])

    config = quickstart.model_copy(update={"keep_inputs_days": 1.0})
    return Handler(config, {"digits": local_host}, database, clock=clock, new_id=uuid7, draw_key=DRAW_KEY)


def test_a_clock_that_jumps_loses_nothing_and_doubles_nothing(jumping, database, doubtful_digit):
    body = json.dumps({"model": "digits", "input": doubtful_digit}).encode()

    async def main():
        told = []
        for n in range(3 * len(JUMPS)):
            first = await jumping.predict(body, f"key-{n}")
            assert (await jumping.predict(body, f"key-{n}")).record == first.record
            told.append(first.record)
        return told

    told = asyncio.run(main())
    assert len({record.id for record in told}) == len(told)
    assert max(record.created_at for record in told) - min(record.created_at for record in told) > timedelta(days=700)
    with database.transaction() as connection:
        assert connection.execute("select count(*) from records").fetchone() == (len(told),)
        found = log.find(connection, [record.id for record in told])
        assert found == {record.id: record for record in told}
        taken = set()
        while claim := queue.claim_next(connection, f"person {len(taken)}", lease_seconds=60):
            assert claim.lease_until > datetime.now(UTC)  # leases go by the clock of the database
            taken.add(cases.case(connection, claim.case_id).record_id)
        assert taken == {record.id for record in told}
    with database.transaction() as connection:
        assert queue.forget_inputs(connection) == 0  # whatever the clock said, an open case keeps its input
