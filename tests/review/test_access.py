"""Who was shown which case is written down, and never changed."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from starlette.testclient import TestClient

from demur.review.access import note, views
from tests.fuzz.served import mounted, served


@pytest.fixture
def site(database):
    apps, known = served(database)
    with TestClient(mounted(apps), headers={"X-Demur-Reviewer": "ada"}) as client:
        yield client, known, database


def seen(database, **which):
    with database.transaction() as connection:
        return [(one.person, one.through, one.shown) for one in views(connection, limit=100, **which)]


def test_each_way_in_which_a_case_is_shown_is_noted(site):
    client, known, database = site
    case = known.records[0]
    client.get(f"/review/cases/{case}")
    client.get(f"/review/v1/cases/{case}", headers={"X-Demur-Reviewer": "bob"})
    client.get("/review/v1/cases")  # without beginnings: nothing of an input is shown
    client.get("/review/v1/cases?glance=true")
    client.get("/review/")  # the same beginnings again
    client.get("/review/v1/export?model=words&format=jsonl")
    assert seen(database, case_id=case) == [
        ("ada", "export", ["everything"]),
        ("ada", "list", ["beginning"]),
        ("bob", "api", ["input", "prediction"]),
        ("ada", "page", ["input", "prediction"]),
    ]
    assert set(_cases(database, "ada")) == set(known.records)
    assert seen(database, person="bob") == [("bob", "api", ["input", "prediction"])]
    assert seen(database, since=datetime.now(UTC) + timedelta(hours=1)) == []


def test_what_is_refused_was_not_shown(site):
    client, known, database = site
    assert client.get("/review/v1/cases/01a1fc62-8cc6-75fc-8ec8-67f7c8edc89a").status_code == 404
    assert client.get(f"/review/v1/cases/{known.reports[0]}").status_code == 404
    assert seen(database) == []


@pytest.mark.parametrize("change", ["delete from case_views", "update case_views set person = 'nobody'"])
def test_it_is_only_ever_added_to(site, change):
    _, known, database = site
    with database.transaction() as connection:
        note(connection, [known.records[0]], "ada", through="page", shown=["input"])
    with pytest.raises(psycopg.errors.CheckViolation), database.transaction() as connection:
        connection.execute(change)
    assert len(seen(database)) == 1


def _cases(database, person):
    with database.transaction() as connection:
        return [one.case_id for one in views(connection, person=person, limit=100)]
