"""The page of artifacts: what it tells, and that each change takes a reason and stays on record."""

import pytest
from fastapi.testclient import TestClient

from demur.calibration_store.refusals import RefusedFit, RefusedFits
from demur.serve.web.native.app import gateway_app
from tests.serve.conftest import make_handler


@pytest.fixture
def site(two, local_host, database):
    config, store, first, second = two
    app = gateway_app(make_handler(config, {"digits": local_host}, database), max_body_bytes=100_000)
    with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
        yield client, store, first, second


def test_it_lists_what_was_fitted(site):
    client, _, first, second = site
    page = client.get("/models/?model=digits").text
    assert first in page
    assert second in page
    assert "in force" in page
    assert "None" not in page


def test_a_promotion_takes_a_reason_and_is_on_record(site):
    client, store, first, second = site
    refused = client.post("/models/digits/promote", data={"artifact": second, "why": "  "})
    assert refused.status_code == 422
    assert "type a reason" in refused.text
    assert store.name_in_force("digits") == first
    done = client.post("/models/digits/promote", data={"artifact": second, "why": "better <b>on</b> March"})
    assert (done.status_code, done.headers["location"]) == (303, "/models/?model=digits&done=true")
    assert store.name_in_force("digits") == second
    page = client.get(done.headers["location"]).text
    assert "better &lt;b&gt;on&lt;/b&gt; March" in page
    assert "Done, and on record." in page
    assert client.post("/models/digits/rollback", data={"why": "worse after all"}).status_code == 303
    assert store.name_in_force("digits") == first


def test_a_shadow_and_a_canary_begin_and_end(site):
    client, store, _, second = site
    assert client.post("/models/digits/shadow", data={"artifact": second, "why": "to look"}).status_code == 303
    assert store.standing("digits").shadow == second
    assert client.post("/models/digits/shadow", data={"why": "seen enough"}).status_code == 303
    assert store.standing("digits").shadow is None
    bounds = {"share": "0.1", "low": "0", "high": "0.5"}
    told = {"artifact": second, "why": "to try", **bounds}
    assert client.post("/models/digits/canary", data={**told, "share": "a lot"}).status_code == 422
    assert client.post("/models/digits/canary", data={**told, "share": "7"}).status_code == 422
    assert client.post("/models/digits/canary", data=told).status_code == 303
    assert store.standing("digits").canary.artifact == second
    assert client.post("/models/digits/canary", data={"why": "enough"}).status_code == 303
    assert store.standing("digits").canary is None


@pytest.mark.parametrize("artifact", ["../../etc", "nothing", ""])
def test_an_artifact_that_is_not_there_is_refused(site, artifact):
    client, store, first, _ = site
    refused = client.post("/models/digits/promote", data={"artifact": artifact, "why": "why not"})
    assert refused.status_code in (404, 422)
    assert store.name_in_force("digits") == first


def test_two_artifacts_stand_beside_each_other_with_what_differs_marked(site):
    client, store, first, second = site
    page = client.get(f"/models/?model=digits&a={first}&b={second}").text
    assert "Two artifacts beside each other" in page
    found = client.get(f"/v1/artifacts/digits/{first}/diff", params={"to": second}).json()
    rows = {f"{section['name']}: {row['key']}": row for section in found["sections"] for row in section["rows"]}
    fitted = str(store.load("digits", first).manifest["n_fitted"])
    assert rows["Promise and rows: fitted on rows"] == {
        "key": "fitted on rows",
        "values": [fitted, "–"],  # the second was not fitted
        "differs": True,
    }
    assert page.count("≠") == sum(row["differs"] for row in rows.values())


def test_an_artifact_stands_beside_what_is_configured_now(site):
    client, _, first, _ = site
    page = client.get(f"/models/?model=digits&a={first}").text
    assert "configured now" in page
    assert "Settings: nothing differs" in page
    found = client.get(f"/v1/artifacts/digits/{first}/diff").json()
    assert {row["differs"] for section in found["sections"] for row in section["rows"]} == {False}


@pytest.mark.parametrize("a", ["../../etc", "nothing"])
def test_only_artifacts_of_the_model_are_compared(site, a):
    client, _, first, _ = site
    page = client.get("/models/", params={"model": "digits", "a": a, "b": first})
    assert (page.status_code, "there is no artifact" in page.text.lower()) == (200, True)
    assert client.get(f"/v1/artifacts/digits/{first}/diff", params={"to": a}).status_code == 404


def test_the_last_refused_fit_is_shown_until_a_fit_succeeds(site):
    client, store, first, _ = site
    why = "<b>too few</b> labels: 120 would do"
    RefusedFits(store.url).note("digits", RefusedFit(at="2999-01-01T00:00:00+00:00", why=why, data="march.csv"))
    page = client.get("/models/?model=digits").text
    assert "The last fit was refused, 2999-01-01 00:00, on march.csv" in page
    assert "&lt;b&gt;too few&lt;/b&gt; labels" in page
    told = client.get("/v1/artifacts/digits").json()
    assert told["refused_fit"]["why"] == why
    assert told["standing"]["in_force"] == first
    RefusedFits(store.url).note("digits", RefusedFit(at="2001-01-01T00:00:00+00:00", why=why, data="march.csv"))
    assert client.get("/v1/artifacts/digits").json()["refused_fit"] is None
    assert "was refused" not in client.get("/models/?model=digits").text


def test_a_replay_is_asked_for(site):
    client, _, _, second = site
    assert client.post("/models/digits/replay", data={"artifact": second}).status_code == 303
    assert f"replay of {second}" in client.get("/models/?model=digits").text


def test_a_model_that_is_not_there(site):
    client, *_ = site
    assert "There is no model nobody." in client.get("/models/?model=nobody").text
    assert client.post("/models/nobody/rollback", data={"why": "x"}).status_code == 404
