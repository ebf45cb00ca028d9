"""The road of a new artifact by the command line: a canary that the service ends, a shadow, promoted, rolled back."""

import json
import time
from itertools import cycle, islice

import pytest
import yaml

from demur.calibration_store.store import ArtifactStore
from tests.conftest import digit_rows

pytestmark = pytest.mark.slow

NOTICED_SECONDS = 10.0  # five are promised; the rest is for a busy machine
STOPPED_SECONDS = 60.0
SHADOWED = 80


class Road:
    """One running service, and somebody who releases."""

    def __init__(self, service, http, rows):
        self.service, self.http, self.rows = service, http, cycle(rows)

    def artifacts(self, *words):
        return self.service.run_here("artifacts", *words)

    def health(self):
        return self.http.get("/healthz").json()["models"]["digits"]

    def wait_until(self, role, value, seconds=NOTICED_SECONDS):
        """Wait until the service says so."""
        deadline = time.monotonic() + seconds
        while (health := self.health())[role] != value:
            assert time.monotonic() < deadline, f"{role} is not {value!r}: {health}\n{self.service.said()[-2000:]}"
            time.sleep(0.1)

    def ask(self, row, key=None):
        headers = {"Idempotency-Key": key} if key else {}
        answer = self.http.post("/v1/predict", json={"model": "digits", "input": row["input"]}, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def deciders(self, n=30):
        """Which artifacts decide about the next requests."""
        return {self.ask(row)["artifact"] for row in islice(self.rows, n)}


@pytest.fixture
def road(service, http, digits, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # so that no cell is broken into lines
    return Road(service, http, digit_rows(digits))


@pytest.fixture
def strict(service, road):
    """An artifact for the running service that holds more than half."""
    content = yaml.safe_load((service.folder / "demur.yaml").read_text())
    content["models"]["digits"]["policy"] = {"kind": "rejection_rate", "rate": 0.6}
    (service.folder / "strict.yaml").write_text(yaml.safe_dump(content))
    printed = service.run_here("fit", "digits", "--config", "strict.yaml")
    return printed.split("promote digits ")[1].split()[0]


def test_a_new_artifact_on_its_road(road, strict, service):
    in_force = road.health()["artifact"]
    store = ArtifactStore(str(service.folder / "var/artifacts"))
    before = len(store.history("digits"))

    bounds = ("--share", "0.5", "--held-between", "0.0", "0.2")
    assert "50% of traffic, 0% to 20% held" in road.artifacts("canary", "digits", strict, *bounds, "--why", "a try")
    road.wait_until("canary", {"artifact": strict, "share": 0.5})
    asked = {}
    deadline = time.monotonic() + STOPPED_SECONDS
    while road.health()["canary"] is not None:
        assert time.monotonic() < deadline, service.said()[-2000:]
        for row in islice(road.rows, 10):
            key = f"request-{len(asked)}"
            asked[key] = row, road.ask(row, key)
        assert road.ask(row, key) == asked[key][1]
        time.sleep(0.1)
    assert {answer["artifact"] for _, answer in asked.values()} == {in_force, strict}
    last = store.history("digits")[-1]
    assert (last.action, last.by, last.standing.in_force) == ("stop_canary", "demur", in_force)
    assert "and was to hold 0.0% to 20.0%" in last.why
    assert "canary off" in road.artifacts("history", "digits")
    assert f"canary {strict} is stopped: it held" in service.said()  # the operator's terminal tells of it
    assert road.deciders() == {in_force}
    for key, (row, answer) in list(asked.items())[:20]:
        assert road.ask(row, key) == answer  # also those of which the canary decided

    assert f"{strict} is the shadow of {in_force}" in road.artifacts("shadow", "digits", strict)
    road.wait_until("shadow", strict)
    told = [(row, road.ask(row)) for row in islice(road.rows, SHADOWED)]
    assert {answer["artifact"] for _, answer in told} == {in_force}
    for row, answer in told:
        noted = road.http.post(f"/v1/predictions/{answer['id']}/outcome", json={"label": row["label"]})
        assert noted.status_code < 300
    printed = road.artifacts("shadow", "digits", "--report", "--since", "10m", "--json", "shadow.json")
    for words in (f"by {in_force} ({SHADOWED})", f"B: the shadow {strict}", "McNemar's exact p-value", "ms"):
        assert words in printed
    found = json.loads((service.folder / "shadow.json").read_text())
    assert (found["n"], found["numbers"]["n_labelled"], found["told_by"]) == (SHADOWED, SHADOWED, {in_force: SHADOWED})
    coverage = found["numbers"]["differences"][0]
    held = sum(answer["action"] != "answer" for _, answer in told)
    assert coverage["a"] == 1 - held / SHADOWED
    assert coverage["upper"] < 0
    assert found["cost"]["n"] == SHADOWED
    assert found["people_shadow"] - found["people_told"] == found["numbers"]["flips"]["cells"]["answer_review"]["n"]

    assert "is no longer the shadow" in road.artifacts("promote", "digits", strict, "--why", "better safe")
    road.wait_until("artifact", strict)
    assert road.deciders() == {strict}
    assert road.health()["shadow"] is None
    assert f"{in_force} is in force again" in road.artifacts("rollback", "digits", "--why", "too strict")
    road.wait_until("artifact", in_force)
    assert road.deciders() == {in_force}
    assert road.health()["detail"] == ""
    actions = [change.action for change in store.history("digits")[before:]]
    assert actions == ["canary", "stop_canary", "shadow", "promote", "rollback"]
