"""The estimate without labels on the page of the monitors, and in its JSON."""

import pytest
from fastapi.testclient import TestClient

from demur.calibration_store.store import ArtifactStore
from demur.serve.config.monitor import MonitorConfig
from demur.serve.jobs.monitor_watch import MonitorWatch
from demur.serve.web.audit.app import audits_app
from tests.audit.monitors.traffic_made import SPOT_CHECK, Service

pytestmark = pytest.mark.slow


def test_it_is_shown_with_what_it_assumes_and_struck_through_after_a_drift(quickstart, database):
    monitor = MonitorConfig(max_risk=0.1, reference=200, window=200)
    digits = quickstart.models["digits"].model_copy(update={"spot_check": SPOT_CHECK, "monitor": monitor})
    config = quickstart.model_copy(update={"models": {"digits": digits}})
    store = ArtifactStore(config.artifacts)
    service = Service(database, seed=3, model="digits", artifact=store.name_in_force("digits"))
    watch = MonitorWatch(config, store, database)
    client = TestClient(audits_app(config, database))
    service.serve(1_000)
    watch.look()
    (told,) = client.get("/v1/monitors").json()["monitors"]
    assert 0 < told["expected_risk"] < 0.5
    assert 0 < told["expected_answers"] <= 200
    assert "if the confidence is still calibrated. That is an estimate and no finding" in client.get("/monitors").text
    with database.transaction() as connection:
        connection.execute("update monitors set updated_at = updated_at - interval '1 hour' where kind = 'comparison'")
    service.serve(600, shift=-2.0)
    watch.look()
    (told,) = client.get("/v1/monitors").json()["monitors"]
    assert told["expected_unlike"]
    assert "<s>Without labels" in client.get("/monitors").text
