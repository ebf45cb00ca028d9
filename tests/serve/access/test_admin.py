"""An admin may do all of it, whatever `review.people` says; nobody else may do more for that."""

from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from demur.review import cases, queue
from demur.serve.access.needs import AUDIT, REVIEW
from demur.serve.config.access import AccessConfig, Scope
from demur.serve.config.review import Person
from demur.serve.deployments.guarded import guarded
from demur.serve.web.audit.app import audits_app
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import entry, new_case
from tests.serve.access.doors import bearer, keeper_of, make

pytestmark = pytest.mark.slow  # two applications are made

PEOPLE = {
    "ben": Person(models=("another",)),
    "lea": Person(adjudicates=True, leads=True),
}


@pytest.fixture
def doors(quickstart, database):
    review = quickstart.review.model_copy(update={"people": PEOPLE})
    config = quickstart.model_copy(update={"access": AccessConfig(), "review": review})
    apps = {"/review": (console_app(config, database), REVIEW), "/audit": (audits_app(config, database), AUDIT)}
    return {
        root: TestClient(
            guarded(app, config, keeper_of(database), needed, has_pages=True), root_path=root, follow_redirects=False
        )
        for root, (app, needed) in apps.items()
    }


@pytest.fixture
def case(database):
    one = entry(model="digits", group="north")
    with database.transaction() as connection:
        log.append(connection, [one])
        queue.enqueue(connection, [new_case(one)])
    return one.record.id


def ask(doors, key, method, path, **more):
    return doors[f"/{path.split('/')[1]}"].request(method, path, headers=bearer(key), **more)


RANGE = {"model": "digits", "since": (datetime.now(UTC) - timedelta(days=1)).isoformat()}


def of_those_who_lead(case):
    return [
        ("GET", "/review/overview", {}),
        ("GET", "/review/v1/overview", {}),
        ("GET", "/review/v1/export?model=digits&format=jsonl", {}),
        ("GET", "/review/v1/label-config?model=digits&input=text", {}),
        ("GET", "/review/v1/webhooks", {}),
        ("GET", "/review/webhooks", {}),
        ("GET", f"/review/v1/cases/{case}/events", {}),
        ("POST", "/audit/v1/audits", {"json": RANGE}),
        ("POST", "/audit/audits", {"data": {"model": "digits", "days": "7"}}),
        ("POST", f"/review/v1/cases/{case}/withdraw", {"json": {"why": "done"}}),
    ]


def of_admins_alone():
    return [
        ("POST", "/review/v1/import", {"json": []}),
        ("GET", "/review/access-log", {}),
        ("POST", "/audit/v1/alarms/7/undo", {"json": {"why": "mended"}}),
    ]


def test_an_admin_key_that_people_does_not_name_may_do_all_of_it(doors, database, case):
    key = make(database, Scope.ADMIN, name="robot")
    me = ask(doors, key, "GET", "/review/v1/me").json()
    assert me == {"name": "robot", "models": None, "groups": None, "adjudicates": True, "leads": True}
    assert ask(doors, key, "GET", f"/review/v1/cases/{case}").status_code == 200
    for method, path, more in (*of_admins_alone(), *of_those_who_lead(case)):
        told = ask(doors, key, method, path, **more)
        assert told.status_code in (200, 202, 303, 404), (path, told.text)  # 404: there is no such alarm
    page = ask(doors, key, "GET", "/review/").text
    assert ">Overview</a>" in page
    assert ">Access log</a>" in page


def test_what_an_admin_does_is_on_record_under_the_name_of_the_key(doors, database, case):
    key = make(database, Scope.ADMIN, name="robot")
    token = ask(doors, key, "POST", f"/review/v1/cases/{case}/claim").json()["token"]
    said = ask(doors, key, "POST", f"/review/v1/cases/{case}/answer", json={"token": token, "label": "7"})
    assert said.status_code == 200
    with database.transaction() as connection:
        assert [one.reviewer for one in cases.opinions_of(connection, [case])[case]] == ["robot"]
        assert {event.actor for event in cases.events_of(connection, case)} == {None, "robot"}
    ask(doors, key, "POST", "/audit/v1/audits", json=RANGE)
    with database.transaction() as connection:
        assert connection.execute("select asked_by from audit_runs").fetchall() == [("robot",)]


def test_under_the_name_of_somebody_who_may_less_an_admin_key_is_an_admin(doors, database, case):
    admin, reviewer = make(database, Scope.ADMIN, name="ben"), make(database, Scope.REVIEW, name="ben")
    assert ask(doors, reviewer, "GET", f"/review/v1/cases/{case}").status_code == 403
    assert ask(doors, reviewer, "GET", "/review/v1/me").json()["models"] == ["another"]
    assert ask(doors, admin, "GET", f"/review/v1/cases/{case}").status_code == 200


@pytest.mark.parametrize("name", ["ben", "eve", "robot"])
def test_nobody_else_may_more_than_people_says(doors, database, case, name):
    make(database, Scope.ADMIN, name="robot")  # that there is one under a name makes nobody else of that name one
    key = make(database, Scope.REVIEW, Scope.AUDIT, Scope.PREDICT, name=name)
    for method, path, more in (*of_admins_alone(), *of_those_who_lead(case)):
        assert ask(doors, key, method, path, **more).status_code == 403, path
    assert ask(doors, key, "POST", f"/review/v1/cases/{case}/claim").status_code == 403


def test_verdicts_are_taken_in_of_those_alone_whom_people_names(doors, database, case):
    key = make(database, Scope.ADMIN, name="robot")
    result = [{"type": "choices", "from_name": "label", "value": {"choices": ["3"]}}]
    for who, became in (("mallory", "refused"), ("ben", "refused"), ("lea", "taken")):
        told = [{"data": {"demur_case": str(case)}, "annotations": [{"completed_by": 7, "result": result}]}]
        rows = ask(doors, key, "POST", f"/review/v1/import?person=7%3D{who}", json=told).json()["rows"]
        assert [row["became"] for row in rows] == [became], (who, rows)
