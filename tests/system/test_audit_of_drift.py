"""What an audit of a running service says while all is well, and after its answers have gone wrong."""

import time
from datetime import UTC, datetime

import httpx
import pytest
import yaml

from demur.policies.promise import ANSWERS_WRONG
from tests.conftest import digit_rows
from tests.system.conftest import Service
from tests.system.test_alarm import alarms, monitor, serve_and_review, until

pytestmark = [pytest.mark.slow, pytest.mark.long]

N = 300
MAX_RISK = 0.1
MADE_SECONDS = 180


@pytest.fixture(scope="module")
def audited(digits):
    """A service of digits that promises and watches the same, and checks half of its answers."""
    running = Service(digits)
    path = running.folder / "demur.yaml"
    content = yaml.safe_load(path.read_text())
    content["models"]["digits"] |= {
        "policy": {"kind": "selective_risk", "max_risk": MAX_RISK, "delta": 0.1},
        "prediction_set": {"alpha": 0.05},
        "spot_check": 0.5,
        "monitor": {"max_risk": MAX_RISK, "on_alarm": "notify"},
    }
    content["review"] |= {"undo_seconds": 0}
    path.write_text(yaml.safe_dump(content))
    try:
        running.start(patience=300)  # the machine may be busy
        yield running
    finally:
        running.remove()


@pytest.fixture
def http(audited):
    with httpx.Client(base_url=audited.url, timeout=30, headers={"X-Demur-Reviewer": "ada"}) as client:
        yield client


def audit_since(http, moment):
    """The report that an auditor gets who asks the service for one now."""
    time.sleep(0.1)
    asked = http.post("/audit/v1/audits", json={"model": "digits", "since": moment.isoformat()})
    assert asked.status_code == 202, asked.text
    deadline = time.monotonic() + MADE_SECONDS
    while (run := http.get(f"/audit/v1/audits/{asked.json()['id']}").json())["status"] in ("waiting", "running"):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert run["report"], run
    return http.get(f"/audit/v1/reports/{run['report']}").json()


def answers_in(report):
    """What was judged of the promise about wrong answers."""
    (found,) = [one for one in report["document"]["headline"]["judgements"] if one["share"] == ANSWERS_WRONG]
    assert found["target"] == MAX_RISK
    return found


@pytest.mark.long  # one start of many that are alike
def test_an_audit_shows_what_the_monitor_alarms_about(http, digits):
    rows = digit_rows(digits)[:N]
    until(lambda: http.get("/audit/v1/monitors").json()["monitors"])
    before = datetime.now(UTC)
    serve_and_review(http, rows, lambda label: label)
    until(lambda: monitor(http)["records"] == N and monitor(http)["labelled"] > N / 5)
    calm = audit_since(http, before)
    assert answers_in(calm)["verdict"] == "kept"  # of the sets too few labels are there to tell
    assert calm["verdict"] != "broken"
    assert alarms(http) == []

    drift = datetime.now(UTC)
    serve_and_review(http, rows, lambda label: str((int(label) + 1) % 10))
    (alarm,) = until(lambda: alarms(http))
    assert alarm["action"] == "notify"
    broken = audit_since(http, drift)
    assert broken["verdict"] == "broken"
    risk = next(one for one in broken["document"]["estimates"] if one["name"] == "selective_risk")
    assert risk["lower"] > 0.9  # every answer is wrong now
    assert risk["n"] > N / 2
    assert risk["labelled"] < risk["n"]

    whole = audit_since(http, before)
    assert whole["verdict"] == "broken"
    assert answers_in(whole)["estimate"]["lower"] > MAX_RISK
