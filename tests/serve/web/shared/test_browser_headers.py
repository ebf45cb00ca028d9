"""Every response tells a browser what it may do with it, problems and files included."""

import asyncio
import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from demur.serve.web.audit.app import audits_app
from demur.serve.web.native.app import gateway_app
from demur.serve.web.review.app import console_app
from demur.serve.web.shared.browser_headers import ALWAYS, NOTHING_AT_ALL, BrowserHeaders
from tests.serve.conftest import make_handler
from tests.serve.web.audit.traffic import config_of

PLACES = {
    "": ("/", "/docs", "/docs/docs.js", "/docs/style.css", "/try/", "/live/", "/models/", "/static/x/front.css",
         "/v1/live", "/openapi.json", "/healthz", "/v1/models", "/nowhere",
         "/v1/predictions/7"),
    "/review": ("/", "/hello", "/docs", "/static/x/style.css", "/static/x/nothing", "/v1/me", "/v1/cases/7", "/metrics",
                "/overview", "/webhooks", "/nowhere", "/openapi.json"),
    "/audit": ("/", "/docs", "/monitors", "/control", "/v1/monitors", "/metrics", "/nowhere", "/reports/7"),
}  # fmt: skip


@pytest.fixture
def client(database):
    config = config_of("digits")
    app = Starlette()
    app.mount("/review", console_app(config, database))
    app.mount("/audit", audits_app(config, database))
    app.mount("", gateway_app(make_handler(config, {}, database), max_body_bytes=10_000))
    return TestClient(app, headers={"X-Demur-Reviewer": "ada"}, raise_server_exceptions=False)


@pytest.mark.parametrize("root", PLACES)
def test_every_response_carries_them(client, root):
    for place in PLACES[root]:
        told = client.get(root + place)
        for name, value in ALWAYS:
            assert told.headers.get_list(name.decode()) == [value.decode()], place
        (policy,) = told.headers.get_list("content-security-policy")
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";") if rule.strip())
        assert rules["default-src"] == "'none'", place
        assert rules["frame-ancestors"] == "'none'", place
        assert "unsafe" not in rules.get("script-src", ""), place
        if not told.headers.get("content-type", "").startswith("text/html"):
            assert policy == NOTHING_AT_ALL.decode(), place


def test_what_nobody_foresaw_carries_them_too(database):
    app = gateway_app(make_handler(config_of("digits"), {}, database), max_body_bytes=10_000)

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("nobody foresaw it")

    told = TestClient(app, raise_server_exceptions=False).get("/broken")
    assert told.status_code == 500
    assert told.headers["content-security-policy"] == NOTHING_AT_ALL.decode()


def test_pages_without_pictures_have_no_style_of_their_own(client):
    assert "unsafe-inline" not in client.get("/review/").headers["content-security-policy"]
    assert "unsafe-inline" not in client.get("/docs").headers["content-security-policy"]


def test_the_docs_page_holds_no_script(client):
    for root in ("", "/review", "/audit"):
        page = client.get(f"{root}/docs").text
        assert "<script>" not in page
        assert f'src="{root}/docs/docs.js"' in page
        assert not re.search(r'(src|href|action)="[a-z]*:?//', page)
        assert client.get(f"{root}/docs/docs.css").status_code == 200
        assert client.get(f"{root}/docs/..%2f..%2fcore.py").status_code == 404


def test_other_messages_pass_as_they_are():
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x"})
        await send({"type": "lifespan.startup.complete"})

    async def send(message):
        sent.append(message)

    asyncio.run(BrowserHeaders(app)({"type": "http"}, None, send))
    assert [message["type"] for message in sent] == [
        "http.response.start",
        "http.response.body",
        "lifespan.startup.complete",
    ]
    assert (b"x-content-type-options", b"nosniff") in sent[0]["headers"]
