"""The front page: where things stand for people, the paths of what there is for programs."""

import re
from datetime import UTC, datetime
from html import unescape

import pytest
from fastapi.testclient import TestClient

from demur.calibration_store.store import ArtifactStore
from demur.traffic.decision_counts import DecisionCounter

BROWSER = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def site(whole):
    with TestClient(whole, raise_server_exceptions=False) as client:
        yield client


def test_programs_are_told_the_paths(site):
    assert site.get("/").json()["docs"] == "/docs"


def test_people_see_what_was_decided(site, database, clear_digit, doubtful_digit):
    for value in (clear_digit, clear_digit, doubtful_digit):
        assert site.post("/v1/predict", json={"model": "digits", "input": value}).status_code == 200
    DecisionCounter(database, ["digits"]).count()
    page = site.get("/", headers=BROWSER)
    assert page.status_code == 200
    assert "Everything serves" in page.text
    words = " ".join(re.sub(r"<[^>]+>", "", page.text).split())
    assert "2 answered, 1 held in the last 24 hours" in words
    assert "1 open case" in words
    assert "Not audited yet." in words
    for path in ("/try/", "/live/", "/models/", "/review/", "/audit/", "/docs"):
        assert f'href="{path}"' in page.text


def test_the_promises_in_force_are_told(site, quickstart):
    manifest = ArtifactStore(quickstart.artifacts).in_force("digits").manifest
    page = unescape(site.get("/", headers=BROWSER).text)
    assert manifest["promises"]
    for promise in manifest["promises"]:
        assert promise["statement"] in page


@pytest.mark.parametrize("path", ["/", "/live/", "/review/overview", "/audit/"])
def test_every_page_has_the_same_doors(site, path):
    site.cookies.set("demur-reviewer", "Ada")
    page = site.get(path, headers=BROWSER).text
    doors = re.search(r'<nav class="doors".*?</nav>', page, re.S)[0]
    assert re.findall(r">(\w+)</a>", doors) == ["Try", "Live", "Models", "Review", "Audit", "API"]


def test_counting_again_changes_nothing(site, database, clear_digit):
    site.post("/v1/predict", json={"model": "digits", "input": clear_digit})
    for _ in range(3):
        DecisionCounter(database, ["digits"]).count()
    with database.transaction() as connection:
        rows = connection.execute("select answered, held, abstained, minute from decision_minutes").fetchall()
    assert [row[:3] for row in rows] == [(1, 0, 0)]
    assert rows[0][3] <= datetime.now(UTC)
