"""How far people have come, and what lists show of inputs."""

from datetime import UTC, datetime, timedelta
from math import inf, isnan

import pytest

from demur.review import progress, queue
from demur.review.item import EVERYTHING, ReviewerScope, ReviewVerdict
from demur.review.pace import pace
from demur.traffic import log
from tests.conftest import entry, new_case, resolve


def put(connection, **changes):
    one = entry(**changes)
    log.append(connection, [one])
    queue.enqueue(connection, [new_case(one)])
    return one.record.id


def test_progress_counts_what_one_person_and_what_all_have_done(database):
    since = datetime.now(UTC) - timedelta(minutes=5)
    with database.transaction() as connection:
        ids = [put(connection, model="toy" if i < 3 else "other") for i in range(5)]
        nothing = progress.progress(connection, "Ada", since, EVERYTHING)
        assert (nothing.answered, nothing.resolved, nothing.resolved_last_hour) == (0, 0, 0)
        assert isnan(nothing.median_seconds)
        assert (pace(connection).hours_for(3), pace(connection).hours_for(0)) == (inf, 0.0)
        for name, case_id in zip(["Ada", "Ada", "Bob", "Bob"], ids, strict=False):
            resolve(connection, case_id, name, "7")
        claim = queue.claim(connection, ids[4], "Ada", lease_seconds=60)
        verdict = ReviewVerdict(label="7", saw_prediction=True)
        queue.answer(connection, ids[4], "Ada", token=claim.token, verdict=verdict, undo_seconds=60)
        queue.undo(connection, ids[4], "Ada", token=claim.token, lease_seconds=60)  # does not count
        found = progress.progress(connection, "Ada", since, EVERYTHING)
        assert (found.answered, found.resolved, found.resolved_last_hour) == (2, 4, 4)
        assert 0 <= found.median_seconds < 60
        assert pace(connection).resolved == 4
        assert pace(connection).hours_for(8) == pytest.approx(2 * pace(connection).seconds / 3600, rel=0.01)
        assert progress.progress(connection, "Ada", since, ReviewerScope(models=("toy",))).resolved == 3
        connection.execute(
            "update review_items set ended_at = ended_at - interval '2 hours' where ended_at is not null"
        )
        later = progress.progress(connection, "Ada", since, EVERYTHING)
        assert (later.resolved, later.resolved_last_hour) == (0, 0)
        earlier = progress.progress(connection, "Ada", since - timedelta(days=1), EVERYTHING)
        assert (earlier.resolved, earlier.resolved_last_hour) == (4, 0)


def test_shelves_hold_what_is_open(database):
    with database.transaction() as connection:
        for group in (None, "b", "a", "b"):
            put(connection, group=group)
        resolve(connection, put(connection, group="c"), "Ada", "7")
        found = [(shelf.group, shelf.open) for shelf in progress.shelves(connection, EVERYTHING)]
        assert found == [(None, 1), ("a", 1), ("b", 2)]
        assert [shelf.group for shelf in progress.shelves(connection, ReviewerScope(groups=("a",)))] == ["a"]


URL = "data:image/png;base64,"


@pytest.mark.parametrize(
    ("value", "glance"),
    [
        ("short", "short"),
        ("x" * 1000, "x" * progress.BEGINNING),
        ([[0.0, 1.0]], [[0.0, 1.0]]),
        ({"a": ["b"]}, {"a": ["b"]}),
        (URL + "iVBO", URL + "iVBO"),
        ("a\x00b", "a\ufffdb"),  # no caller shall keep everybody from the queue
        ({"a": ["\x00"]}, {"a": ["\x00"]}),
        ({"a": "\x00" * 30_000}, ('{"a":"' + "\\ufffd" * 30)[: progress.BEGINNING]),
        (r"C:\\u0000", r"C:\\ufffd"),  # not escaped: only looks like it
    ],
)
def test_glances(database, value, glance):
    with database.transaction() as connection:
        case_id = put(connection, input=value)
        assert progress.glances(connection, [case_id]) == {case_id: glance}


def test_a_glance_of_what_is_large_is_small(database):
    noise = "".join(chr(40 + (i * i) % 50) for i in range(400_000))
    with database.transaction() as connection:
        picture, pile, gone = put(connection, input=URL + noise), put(connection, input={"a": noise}), put(connection)
        connection.execute("delete from payloads where record_id = %s", (gone,))
        found = progress.glances(connection, [picture, pile, gone])
    assert found[picture] == "data:image"
    assert found[pile] == '{"a":"' + noise[: progress.BEGINNING - 6].replace('"', '\\"')[: progress.BEGINNING - 6]
    assert gone not in found
