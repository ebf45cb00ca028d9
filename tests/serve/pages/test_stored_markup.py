"""Markup that was stored is shown as text, on every page, and offered to machines as nothing but data."""

import html
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from serve.audits.app import audits_app
from serve.console.app import console_app
from tests.serve.stored_markup import RAW, SHOWN, config, evil, places, store


@pytest.fixture
def site(database):
    cases, reports = store(database)
    app = Starlette()
    app.mount("/review", console_app(config(), database))
    app.mount("/audit", audits_app(config(), database))
    return TestClient(app, headers={"X-Demur-Reviewer": "ada"}), cases, reports


def test_no_page_takes_data_for_markup(site):
    client, cases, reports = site
    seen = ""
    for place in places(cases, reports):
        page = client.get(place)
        assert page.status_code < 500, place
        assert page.headers["content-type"].startswith("text/html"), place
        for raw in RAW:
            assert raw not in page.text, f"{raw} stands in {place}"
        seen += html.unescape(html.unescape(page.text))
    missing = [field for field in SHOWN if evil(field).lower() not in seen.lower()]
    assert not missing, f"no page shows {missing}, so nothing is known about them"


def test_a_name_is_shown_as_text(site):
    client, cases, _ = site
    name = "<img src=x onerror=demurFired=1>"
    client.headers["X-Demur-Reviewer"] = quote(name)
    for place in ("/review/", f"/review/cases/{cases[7]}", "/audit/"):
        page = client.get(place).text
        assert html.escape(name) in page
        assert name not in page


def test_what_machines_get_is_no_page(site):
    client, cases, reports = site
    asked = [
        "/review/v1/cases?glance=true",
        *(f"/review/v1/cases/{case}" for case in cases),
        *(f"/review/v1/export?model=mood&format={form}" for form in ("jsonl", "csv", "label-studio")),
        "/review/v1/label-config?model=mood&input=text",
        "/audit/v1/monitors",
        "/audit/v1/reports",
        f"/audit/v1/reports/{reports[0]}",
        f"/audit/reports/{reports[0]}/report.json",
        "/review/v1/cases/%3Cscript%3E",
    ]
    for place in asked:
        told = client.get(place)
        assert told.status_code < 500, place
        assert "html" not in told.headers["content-type"], place
        assert told.headers["x-content-type-options"] == "nosniff", place
    labels = client.get("/review/v1/label-config?model=mood&input=text").text
    assert not any(raw in labels for raw in RAW)
