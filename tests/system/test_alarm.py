"""A service that is watched: quiet while all is well; it raises an alarm when its answers go wrong, and holds them."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import digit_rows
from tests.system.conftest import Callers

pytestmark = pytest.mark.slow

NOTICED_SECONDS = 60
N = 300


@pytest.fixture
def http(watched):
    with Callers(watched.url, headers={"X-Demur-Reviewer": "ada"}) as client:
        yield client


def review(http, truth):
    """Answer every case that waits: by the truth about the record where it is told, else as the model did."""

    def work():
        n = 0
        while (claim := http.post("/review/v1/cases/next", json={})).status_code == 200:
            case, token = (claim.json()[name] for name in ("case_id", "token"))
            label = truth.get(case) or http.get(f"/v1/predictions/{case}").json()["prediction"]
            answered = http.post(f"/review/v1/cases/{case}/answer", json={"token": token, "label": label})
            assert answered.status_code == 200, answered.text
            n += 1
        return n

    with ThreadPoolExecutor(4) as pool:
        return sum(future.result() for future in [pool.submit(work) for _ in range(4)])


def monitor(http):
    (one,) = http.get("/audit/v1/monitors").json()["monitors"]
    return one


def until(what):
    """Wait until it holds."""
    deadline = time.monotonic() + NOTICED_SECONDS
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    return found


def alarms(http, kind="risk"):
    return [one for one in http.get("/audit/v1/monitors").json()["alarms"] if one["kind"] == kind]


def serve_and_review(http, rows, truth_of):
    items = [{"model": "digits", "input": row["input"]} for row in rows]
    results = [one["prediction"] for one in http.post("/v1/predict/batch", json={"items": items}).json()["results"]]
    truth = {one["id"]: truth_of(row["label"]) for one, row in zip(results, rows, strict=True)}
    return results, review(http, truth)


def test_quiet_then_alarm_then_held_then_undone(watched, http, digits):
    """The service has answered other tests before, all of it right."""
    rows = digit_rows(digits)
    until(lambda: http.get("/audit/v1/monitors").json()["monitors"])
    review(http, {})
    before = monitor(http)
    clean, checked = serve_and_review(http, rows[:N], lambda label: label)
    assert sum(one["action"] == "answer" for one in clean) > N / 2
    assert checked > N / 4
    until(lambda: monitor(http)["records"] >= before["records"] + N)
    until(lambda: monitor(http)["labelled"] > before["labelled"] + N / 5)
    assert alarms(http) == []
    assert "No alarm is on." in http.get("/audit/monitors").text

    # what the digits mean has changed: the model is as sure as ever, and no score shows anything
    wrong, _ = serve_and_review(http, rows[:N], lambda label: str((int(label) + 1) % 10))
    assert sum(one["action"] == "answer" for one in wrong) > N / 2
    (alarm,) = until(lambda: alarms(http))
    assert alarm["action"] == "hold_all"
    assert alarms(http, "confidence") == []

    def is_held():
        one = http.post("/v1/predict", json={"model": "digits", "input": rows[0]["input"]}).json()
        return one if one["action"] == "review" else None

    held = until(is_held)
    assert held["reason"].startswith(f"held by alarm {alarm['id']}, which holds all answers of digits")
    page = http.get("/audit/monitors").text
    assert "Alarms in force" in page
    assert "It holds all answers." in page
    assert 'demur_alarms_active{kind="risk",model="digits"} 1.0' in http.get("/audit/metrics").text
    assert f"alarm {alarm['id']} about model digits" in watched.said()

    listed = watched.run_here("alarms", "list")
    assert "hold_all" in listed
    said = watched.run_here(
        "alarms", "undo", str(alarm["id"]), "--why", "labels were permuted, and are no more", "--by", "ada"
    )
    assert "is undone by ada: labels were permuted, and are no more" in said

    def is_answered():
        one = http.post("/v1/predict", json={"model": "digits", "input": rows[0]["input"]}).json()
        return one["action"] == "answer"

    until(is_answered)
    assert alarms(http) == []
    assert "No alarm is on." in http.get("/audit/monitors").text


@pytest.mark.long  # one start of many that are alike
def test_what_an_alarm_holds_is_still_held_after_everything_was_killed(watched, http, digits):
    rows = digit_rows(digits)
    time.sleep(6)  # what was decided before the undoing counts no more
    serve_and_review(http, rows[:N], lambda label: str((int(label) + 1) % 10))
    (alarm,) = until(lambda: alarms(http))
    watched.kill_everything()
    watched.start()
    held = http.post("/v1/predict", json={"model": "digits", "input": rows[0]["input"]}).json()
    assert held["action"] == "review"
    assert held["reason"].startswith(f"held by alarm {alarm['id']}")
    assert [one["id"] for one in alarms(http)] == [alarm["id"]]
