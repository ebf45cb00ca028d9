"""Markup that was stored is shown as text, on every page, what hides in it as well, and offered to machines as nothing
but data."""

import html
import re
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from demur.audit.visible import visible
from demur.review.cases import opinions_of
from demur.serve.web.audit.app import audits_app
from demur.serve.web.review.app import console_app
from demur.traffic.hidden_characters import spelled_out
from tests.serve.stored_markup import HIDDEN, RAW, SHOWN, config, evil, places, store

SENT_BACK = re.compile(r'(?s) (value|data-model|data-draft|src)="[^"]*"|<textarea.*?</textarea>')
"""What a page holds for the browser alone, and gets back as it was."""


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
        shown = SENT_BACK.sub("", page.text)
        assert spelled_out(shown, lambda character: f"<{ord(character):x}>") == shown, place
        seen += html.unescape(html.unescape(page.text))
    seen = seen.lower()
    assert evil("draft").lower() in seen  # as it was typed, to be gone on with
    missing = [field for field in SHOWN if field != "draft" and visible(evil(field)).lower() not in seen]
    assert not missing, f"no page shows {missing}, so nothing is known about them"


def test_what_the_browser_sends_back_is_as_it_was(site, database):
    client, cases, _ = site
    page = html.unescape(client.get("/review/").text)
    assert f'<option value="{evil("group")}">{visible(evil("group"))}</option>' in page
    only = client.get("/review/", params={"show": "open", "group": evil("group")})
    assert f"/review/cases/{cases[7]}" in only.text
    drafted = client.get(f"/review/cases/{cases[7]}").text
    assert HIDDEN in drafted.partition("<textarea")[2].partition("</textarea>")[0]
    label = re.search(r'name="label" value="(label[^"]*)"', drafted)[1]
    token = drafted.partition('data-token="')[2].partition('"')[0]
    said = client.post(f"/review/cases/{cases[7]}/answer", data={"label": html.unescape(label), "token": token})
    assert said.status_code == 200
    with database.transaction() as connection:
        assert [opinion.label for opinion in opinions_of(connection, [cases[7]])[cases[7]]] == [evil("label")]


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
