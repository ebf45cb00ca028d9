"""The page about controls says what is averaged and that nothing more is promised; and so do JSON and Prometheus."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient
from uuid_utils.compat import uuid7

from demur.audit.state import control_states
from demur.audit.state.control_states import Point
from demur.policies.control import ControlledValue
from demur.serve.config.control import first_course, settings_of
from demur.serve.config.file import Config
from demur.serve.web.audit.app import audits_app
from tests.serve.scripted import settings

SETS = {
    "host": {"kind": "classifier", "checkpoint": "none"},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
    "prediction_set": {"kind": "split", "keep_predicted": False},
}
CONTROLS = {
    "price": ({"kind": "review_price", "capacity": 0.1}, {}),
    "rate": ({"kind": "review_rate", "target": 0.1}, {}),
    "risk": ({"kind": "tracked_limit", "max_risk": 0.02}, {}),
    "sets": ({"kind": "adaptive_sets", "alpha": 0.1}, SETS),
}


def config_of(**controls):
    return Config.model_validate(
        {
            "models": {
                name: settings("multiclass", control=control, spot_check=0.05, **sections)
                for name, (control, sections) in controls.items()
            }
        }
    )


def put(database, config, name, *, value, n, total, lanes=1, at=None):
    """A lane, or some, that came to a value in some steps."""
    model, now = config.models[name], at or datetime.now(UTC)
    start = first_course(model.control).value
    for _ in range(lanes):
        with database.transaction() as connection:
            state = control_states.begin(
                connection,
                uuid7(),
                model=name,
                settings=settings_of(model),
                course=asdict(ControlledValue(start=start, value=value, n=n, total=total)),
                holder=uuid7(),
                now=now,
            )
            for part in range(5):
                point = Point(
                    at=now - timedelta(minutes=5 - part),
                    value=start + (value - start) * part / 4,
                    average=total / n if part else None,
                    n=n * part // 4,
                )
                control_states.add_point(connection, state.lane, point)


@pytest.fixture
def open_app(database):
    def opened(config):
        return TestClient(audits_app(config, database), base_url="http://127.0.0.1")

    return opened


def test_without_a_control_the_page_says_so(open_app, database):
    page = open_app(config_of(plain=(None, {}))).get("/control")
    assert page.status_code == 200
    assert "Nothing is controlled" in page.text
    assert "<b>plain</b>: its artifact decides alone." in page.text
    assert "control: {kind: review_price, capacity: 0.1}" in page.text


def test_models_that_are_not_controlled_are_named(open_app):
    page = open_app(config_of(**CONTROLS, plain=(None, {}), other=(None, {}))).get("/control")
    assert "<b>plain</b>, <b>other</b>: their artifacts decide alone." in page.text
    assert "Nothing is controlled" not in page.text


def test_the_page_says_long_run_average_and_never_guarantee(open_app, database):
    config = config_of(**CONTROLS)
    for name, value in (("price", 0.2), ("rate", 0.8), ("risk", 0.3), ("sets", 0.07)):
        put(database, config, name, value=value, n=1000, total=80.0)
    page = open_app(config).get("/control").text
    assert "long-run average" in page
    assert "Nothing is promised for a day, a group or a record" in page
    assert "guarantee" not in page.lower()
    assert page.count("<svg") == 4
    for said in (
        "<b>0.2</b>: people are asked about confidences below 0.7<",
        "<b>0.8</b>: below 0.8 nothing is answered<",
        "<b>0.7</b>: below 0.7 nothing is answered<",
        "<b>0.07</b>: sets as if 7% of them were to miss<",
        "<b>8%</b> of 1,000: predictions sent to review",
        "at most 19.1% after 1,000",  # 0.1 + (1 - 0.1 + 0.01) / (0.01 * 1000)
    ):
        assert said in page, said


def test_gateways_are_averaged_by_what_they_decided(open_app, database):
    config = config_of(price=CONTROLS["price"])
    put(database, config, "price", value=0.2, n=1000, total=80.0)
    put(database, config, "price", value=0.1, n=3000, total=360.0)
    client = open_app(config)
    (view,) = client.get("/v1/controls").json()["controls"]
    assert (view["n"], view["average"], view["target"]) == (4000, pytest.approx(0.11), 0.1)
    assert view["upper"] == pytest.approx(0.1 + 2 * 0.91 / 0.01 / 4000)
    assert len(view["lanes"]) == 2
    assert "Each gateway by itself" in client.get("/control").text


def test_before_the_first_prediction_nothing_is_known(open_app, database):
    config = config_of(**CONTROLS)
    client = open_app(config)
    assert client.get("/control").text.count("There is nothing to show under these settings yet") == 4
    views = client.get("/v1/controls").json()
    assert [view["average"] for view in views["controls"]] == [None] * 4
    assert views["about"].startswith("Averages over the whole stream in the long run.")
    put(database, config, "risk", value=-0.1, n=1, total=0.0)
    put(database, config, "rate", value=0.5, n=1, total=0.0, at=datetime.now(UTC) - timedelta(hours=1))
    page = client.get("/control").text
    assert "Nothing has been written for 1 h" in page
    assert "<b>1.1</b>: nothing is answered, for about 5,000 requests<" in page  # 0.1 / (0.02 * 0.05 * 0.02)


def test_gauges(open_app, database):
    config = config_of(**CONTROLS)
    put(database, config, "price", value=0.2, n=1000, total=80.0, at=datetime.fromtimestamp(1.8e9, UTC))
    told = open_app(config).get("/metrics").text
    assert 'demur_control_value{kind="review_price",model="price"} 0.2' in told
    assert 'demur_control_average{kind="review_price",model="price"} 0.08' in told
    assert 'demur_control_average_bound{kind="review_price",model="price"} 0.191' in told
    assert 'demur_control_last_write_timestamp_seconds{kind="review_price",model="price"} 1.8e+09' in told
    assert 'demur_control_value{kind="adaptive_sets",model="sets"} NaN' in told
    assert 'demur_control_target{kind="adaptive_sets",model="sets"} 0.1' in told


def test_a_new_artifact_is_named_escaped(open_app, database):
    config = config_of(price=CONTROLS["price"])
    put(database, config, "price", value=0.2, n=10, total=1.0)
    with database.transaction() as connection:
        connection.execute("update control_states set artifact = '<b>x'")
    assert "&lt;b&gt;x" in open_app(config).get("/control").text
