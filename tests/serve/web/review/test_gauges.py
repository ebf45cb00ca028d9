"""What Prometheus is told of the queue."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from demur.serve.web.review.app import console_app
from demur.serve.web.review.gauges import GAUGES, WEBHOOKS
from tests.review.history import History


def ago(hours: float) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)


@pytest.fixture
def console(quickstart, database):
    return TestClient(console_app(quickstart, database), root_path="/review")


def told(console):
    """The values by metric and model, as a reader of the format finds them."""
    reply = console.get("/review/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/plain; version=")
    families = list(text_string_to_metric_families(reply.text))
    assert all(family.type == "gauge" and family.documentation for family in families)
    return {(sample.name, sample.labels.get("model")): sample.value for family in families for sample in family.samples}


def test_every_model_is_told_of_from_the_start(console):
    found = told(console)
    assert set(found) == {(name, "digits") for name in GAUGES} | {(name, None) for name in WEBHOOKS}
    for (name, _), value in found.items():
        assert math.isnan(value) if name == "demur_review_disagreement_ratio" else value == 0


def test_the_values_are_those_of_the_queue(console, database):
    history = History(database)
    for hours in (5, 3):
        history.case(created=ago(hours))
    history.case(created=ago(9), status="claimed", claimed=ago(0.1), due=ago(1))
    history.case(created=ago(4), status="adjudication", due=ago(1))
    history.case(created=ago(3), ended=ago(0.5))
    history.case(created=ago(3), ended=ago(2), opinions=2)
    history.case(created=ago(30), ended=ago(29), opinions=2, resolution="majority")
    first = history.case(created=ago(300), ended=ago(290), opinions=2, resolution="adjudicated")
    history.re_review(first, created=ago(200), ended=ago(20))
    history.case(model="gone", created=ago(3), ended=ago(0.2))
    found = told(console)
    assert {
        name.removeprefix("demur_review_"): value for (name, model), value in found.items() if model == "digits"
    } == {
        "waiting": 2,
        "claimed": 1,
        "adjudication": 1,
        "oldest_waiting_seconds": pytest.approx(5 * 3600, abs=60),
        "overdue": 2,
        "resolved_per_hour": 1,
        "disagreement_ratio": 1 / 3,
    }
    assert found["demur_review_resolved_per_hour", "gone"] == 1
    assert found["demur_review_waiting", "gone"] == 0
    history.case(created=ago(1))
    assert told(console)["demur_review_waiting", "digits"] == 3  # read anew each time


def test_openmetrics_where_it_is_asked_for(console):
    accept = "application/openmetrics-text; version=1.0.0"
    reply = console.get("/review/metrics", headers={"Accept": accept})
    assert reply.headers["content-type"].startswith(accept)
    assert {family.name for family in openmetrics.text_string_to_metric_families(reply.text)} == {*GAUGES, *WEBHOOKS}


def test_messages_that_have_not_arrived(console, database):
    case = History(database).case(created=ago(3))
    with database.transaction() as connection:
        for address in ("https://a.example/hook", "https://b.example/hook"):
            for event, dead in (("resolved", True), ("overdue", True), ("expired", False)):
                connection.execute(
                    "insert into webhook_deliveries (webhook, event, case_id, dead_at) values (%s, %s, %s, %s)",
                    (address, event, case, ago(1) if dead else None),
                )
    found = told(console)
    assert found["demur_review_webhooks_dead", None] == 4
    assert found["demur_review_webhooks_waiting", None] == 2
    assert "example" not in console.get("/review/metrics").text  # who is told is for those who lead


def test_without_the_database_there_is_an_error_and_no_old_value(quickstart, database):
    console = TestClient(console_app(quickstart, database))
    database.close()
    reply = console.get("/metrics")
    assert reply.status_code == 503
    assert "PostgreSQL" in reply.text
