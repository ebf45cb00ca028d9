"""The job behind the monitors, its page and its gauges: with real artifacts and a real database, without Ray."""

import re
from datetime import timedelta
from shutil import rmtree

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from demur.audit.state import alarms, standing
from demur.audit.state.alarms import OnAlarm
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.monitor import MonitorConfig
from demur.serve.config.review import Person
from demur.serve.jobs.monitor_watch import MonitorWatch, promised_risk
from demur.serve.web.audit.app import audits_app
from demur.serve.web.audit.monitors.gauges import OF_ARTIFACTS, OF_SCORES
from demur.traffic.database import DatabaseUnavailable
from tests.audit.monitors.traffic_made import SPOT_CHECK, START, Service

QUICK = {"reference": 200, "window": 200}


def monitored(config, **settings):
    """The same configuration with spot checks, and monitors that are sooner complete."""
    monitor = MonitorConfig(**{**QUICK, **settings})
    digits = config.models["digits"].model_copy(update={"spot_check": SPOT_CHECK, "monitor": monitor})
    return config.model_copy(update={"models": {"digits": digits}})


@pytest.fixture
def watching(two, database):
    """A service of digits that is watched, and the job that does it."""

    def make(**settings):
        config, store, first, second = two
        config = monitored(config, **settings)
        service = Service(database, seed=3, model="digits", artifact=first)
        return config, service, MonitorWatch(config, store, database), second

    return make


@pytest.fixture
def visit(database):
    def visit(config, name=None):
        client = TestClient(audits_app(config, database), root_path="/audit", headers={"sec-fetch-site": "same-origin"})
        if name:
            client.headers["X-Demur-Reviewer"] = name
        return client

    return visit


def in_force(database):
    with database.transaction() as connection:
        return alarms.in_force(connection)


def test_where_nothing_was_promised_there_is_an_interval_and_no_alarm_about_it(watching, database, visit):
    config, service, watch, _ = watching()  # the rule of the digits aims at a risk, and promises none
    service.serve(1000, wrong=0.9)
    watch.look()
    with database.transaction() as connection:
        rows = {row.kind: row for row in standing.all_kept(connection)}
    assert set(rows) == {"risk", "traffic", "comparison"}
    assert rows["risk"].settings == {"target": None, "delta": 0.05, "in_order": True}
    assert {row.role for row in rows.values()} == {"in force"}
    assert in_force(database) == []
    (told,) = visit(config).get("/audit/v1/monitors").json()["monitors"]
    assert told["says"].startswith("Nothing was promised. Of ")
    assert told["risk_lower"] > 0.5
    assert told["log_wealth"] is None


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ([], None),
        ([{"share": "of the answers are wrong", "target": 0.02, "feasible": False, "model": "digits"}], None),
        ([{"share": "of the answers are wrong", "target": 0.02, "feasible": True, "model": "another"}], None),
        ([{"share": "of the right labels are missed", "target": 0.1, "feasible": True, "model": "digits"}], None),
        ([{"share": "of the answers are wrong", "target": 0.02, "feasible": True, "model": "digits"}], 0.02),
    ],
)
def test_what_is_promised(said, target):
    assert promised_risk({"promises": said}, "digits") == target


def test_injected_drift_is_found_and_nothing_is_without_it(watching, database, caplog):
    _, service, watch, _ = watching(max_risk=0.1, on_alarm="hold_all")
    service.serve(1500)
    watch.look()
    assert in_force(database) == []
    service.serve(1500, wrong=0.35, shift=-1.0)
    watch.look()
    found = {alarm.kind: alarm for alarm in in_force(database)}
    assert set(found) == {"risk", "confidence", "held"}
    assert {alarm.action for kind, alarm in found.items() if kind != "risk"} == {OnAlarm.NOTIFY}
    assert found["risk"].action == OnAlarm.HOLD_ALL
    assert "more answers are wrong than was promised" in caplog.text


def test_a_new_artifact_has_monitors_of_its_own_and_the_old_one_is_followed_to_its_end(watching, database):
    config, service, watch, second = watching(max_risk=0.1, on_alarm="hold_all", wait_hours=24 * 365)
    waiting = service.serve(1500, wrong=0.5, labelled=False)
    watch.look()
    store = ArtifactStore(config.artifacts)
    store.promote("digits", second, by="tests", why="another", clock=lambda: START + timedelta(hours=1))
    watch.look()
    service.review(waiting)  # people go on
    watch.look()
    (alarm,) = in_force(database)
    assert alarm.artifact == service.artifact
    assert alarm.action == OnAlarm.NOTIFY  # what no longer decides is no reason to hold what does
    with database.transaction() as connection:
        assert {row.artifact for row in standing.all_kept(connection)} == {second}


def test_a_store_that_is_away_is_noted_and_does_no_harm(watching, database, monkeypatch, visit):
    config, service, watch, _ = watching()
    service.serve(300)
    watch.look()

    def away(model):
        raise DatabaseUnavailable("the artifacts cannot be reached")

    with monkeypatch.context() as patch:
        patch.setattr(watch._store, "standing", away)
        watch.look()
    page = visit(config).get("/audit/monitors").text
    assert "The monitors of model digits see nothing since" in page
    assert gauges(visit(config))["demur_monitor_blind", "digits"] == 1
    watch.look()
    assert gauges(visit(config))["demur_monitor_blind", "digits"] == 0


def test_an_old_artifact_that_nobody_has_any_more_blinds_nobody(watching, database, visit):
    config, service, watch, second = watching(max_risk=0.1)
    service.serve(300)
    watch.look()
    store = ArtifactStore(config.artifacts)
    store.promote("digits", second, by="tests", why="another", clock=lambda: START + timedelta(hours=1))
    rmtree(f"{config.artifacts}/digits/artifacts/{service.artifact}")
    MonitorWatch(config, store, database).look()
    assert gauges(visit(config))["demur_monitor_blind", "digits"] == 0


def test_a_model_that_is_not_watched_is_left_alone(two, database):
    config, store, *_ = two
    MonitorWatch(config, store, database).look()  # no spot checks: not watched by default
    with database.transaction() as connection:
        assert standing.all_kept(connection) == []


def gauges(client):
    """What /metrics tells, by name and values of the labels, the last in the alphabet first."""
    text = client.get("/audit/metrics").text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items(), reverse=True))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_gauges(watching, database, visit):
    config, service, watch, _ = watching(max_risk=0.1, on_alarm="tighten")
    client = visit(config)
    before = gauges(client)
    assert before["demur_alarms_active", "digits", "risk"] == 0
    assert before["demur_monitor_last_look_timestamp_seconds", "digits"] == 0
    said = service.serve(1500)
    watch.look()
    now = gauges(client)
    who = ("digits", service.artifact)
    assert {name for name, *_ in now} >= {*OF_ARTIFACTS, *OF_SCORES} - {
        "demur_monitor_corrected_log_wealth",  # nobody has looked twice
        "demur_monitor_labels_psi",  # there is but one label
        "demur_monitor_labels_p_value",
    }
    assert now["demur_monitor_labelled", *who] == len(said)
    assert now["demur_monitor_records", *who] == 1500
    assert (
        now["demur_monitor_risk_lower", *who]
        <= now["demur_monitor_risk", *who]
        <= now["demur_monitor_risk_upper", *who]
    )
    assert now["demur_monitor_psi", "softmax_response", *who] < 0.25
    service.serve(1000, wrong=0.5)
    watch.look()
    now = gauges(client)
    assert now["demur_alarms_active", "digits", "risk"] == 1
    assert now["demur_safeguards_active", "digits", "tighten"] == 1


def test_the_page_says_how_it_stands(watching, visit):
    config, service, watch, _ = watching(max_risk=0.1)
    page = visit(config).get("/audit/monitors").text
    assert "No alarm is on." in page
    assert "Nobody has looked at the monitors of model digits yet." in page
    service.serve(1500)
    watch.look()
    page = visit(config).get("/audit/monitors").text
    assert page.count("<svg") == 3
    assert "No sign that the promise of at most 10% is broken" in page
    assert "No sign of a change in 1,300 records since the reference" in page
    assert "softmax_response" in page
    told = visit(config).get("/audit/v1/monitors").json()
    assert told["monitors"][0]["artifact"] == service.artifact
    assert told["alarms"] == []


def test_a_person_undoes_an_alarm_on_the_page(watching, database, visit):
    config, service, watch, _ = watching(max_risk=0.1, on_alarm="hold_all")
    service.serve(1500, wrong=0.5)
    watch.look()
    (alarm,) = in_force(database)
    client = visit(config)
    page = client.get("/audit/monitors").text
    assert "Alarms in force" in page
    assert "An alarm is on" not in page  # the banner says on every other page what stands here at length
    banner = client.get("/audit/").text
    assert "An alarm is on" in banner
    assert f'href="/audit/monitors#alarm-{alarm.id}"' in banner
    assert f'id="alarm-{alarm.id}"' in page
    assert re.search(r'action="/audit/monitors/alarms/\d+/undo"', page)
    assert "It holds all answers." in page
    address = f"/audit/monitors/alarms/{alarm.id}/undo"
    assert client.post(address, data={"why": "mended"}).status_code == 422  # by whom?
    assert client.post(address, data={"why": "  ", "name": "ada"}).status_code == 422
    assert len(in_force(database)) == 1
    page = client.post(address, data={"why": "<b>mended</b>", "name": "ada"}).text
    assert "No alarm is on." in page
    assert "undone by ada: &lt;b&gt;mended&lt;/b&gt;" in page
    assert client.post(address, data={"why": "again", "name": "bob"}).status_code == 404


def test_a_program_undoes_an_alarm(watching, database, visit):
    config, service, watch, _ = watching(max_risk=0.1)
    service.serve(1500, wrong=0.5)
    watch.look()
    (alarm,) = in_force(database)
    assert visit(config).post(f"/audit/v1/alarms/{alarm.id}/undo", json={"why": "mended"}).status_code == 401
    done = visit(config, "ada").post(f"/audit/v1/alarms/{alarm.id}/undo", json={"why": "mended"})
    assert (done.status_code, done.json()["undone_by"]) == (200, "ada")
    assert visit(config, "ada").post("/audit/v1/alarms/999/undo", json={"why": "mended"}).status_code == 404


def test_where_it_is_configured_who_leads_only_they_undo(watching, database, visit):
    config, service, watch, _ = watching(max_risk=0.1)
    people = {"ada": Person(leads=True), "bob": Person()}
    config = config.model_copy(update={"review": config.review.model_copy(update={"people": people})})
    service.serve(1500, wrong=0.5)
    watch.look()
    (alarm,) = in_force(database)
    assert visit(config, "bob").post(f"/audit/v1/alarms/{alarm.id}/undo", json={"why": "x"}).status_code == 403
    assert visit(config, "ada").post(f"/audit/v1/alarms/{alarm.id}/undo", json={"why": "x"}).status_code == 200
