"""Who sees what of the pages at the root, and what a session may do at a gateway."""

import pytest
from starlette.testclient import TestClient

from demur.serve.access.keys import Rates
from demur.serve.access.needs import GATEWAY
from demur.serve.access.own_hosts import OwnHosts
from demur.serve.access.rates import Rate
from demur.serve.access.sessions import LoggedInPerson, LoginRefused, begin_session
from demur.serve.config.access import AccessConfig, Scope
from demur.serve.web.login.access_middleware import AccessMiddleware
from demur.serve.web.login.browser_guard import BrowserGuard
from demur.serve.web.login.login import Logins
from demur.serve.web.native.app import gateway_app
from demur.serve.web.native.fast_path import FastPath
from tests.serve.access.doors import keeper_of, make

COOKIE = "demur-session"
BROWSER = {"accept": "text/html", "host": "localhost"}
LATER = "2100-01-01T00:00:00Z"
FROM_HERE = {"sec-fetch-site": "same-origin", "host": "localhost"}


@pytest.fixture
def site(handler, quickstart, database):
    app = FastPath(handler, max_body_bytes=2**20).before(gateway_app(handler, max_body_bytes=2**20))
    door = AccessMiddleware(app, keeper_of(database), GATEWAY, cookie=COOKIE)
    guard = BrowserGuard(door, OwnHosts(["localhost"], url=None, any_name=False), has_pages=True)
    return TestClient(guard, raise_server_exceptions=False, follow_redirects=False)


@pytest.fixture
def log_in(site, database):
    """Let somebody with these scopes use the browser."""

    def as_one_who_may(*scopes):
        person = LoggedInPerson(name="Ada", scopes=scopes)
        with database.transaction() as connection:
            token = begin_session(connection, person, by="code", idle_seconds=3600, expires_at=LATER)
        site.cookies.set(COOKIE, token.text)

    return as_one_who_may


def test_a_stranger_sees_no_model(site):
    page = site.get("/", headers=BROWSER)
    assert page.status_code == 200
    assert "digits" not in page.text
    assert "/review/login" in page.text


@pytest.mark.parametrize("path", ["/try/", "/live/", "/models/"])
def test_a_stranger_is_sent_to_the_login(site, path):
    sent = site.get(path, headers=BROWSER)
    assert (sent.status_code, sent.headers["location"].partition("?")[0]) == (303, "/review/login")
    assert site.get("/v1/live", headers=BROWSER).status_code == 401


def test_doors_that_are_closed_are_not_shown(site, log_in):
    log_in(Scope.REVIEW)
    page = site.get("/", headers=BROWSER).text
    assert 'href="/review/"' in page
    for path in ("/try/", "/live/", "/models/", "/audit/"):
        assert f'href="{path}' not in page
    assert "answered" not in page


def test_rows_to_try_are_shown_to_whoever_may_predict_alone(site, log_in):
    assert "digits" not in site.get("/docs", headers=BROWSER).text
    log_in(Scope.REVIEW, Scope.AUDIT)
    assert "digits" not in site.get("/docs", headers=BROWSER).text
    log_in(Scope.PREDICT)
    assert "&#34;model&#34;: &#34;digits&#34;" in site.get("/docs", headers=BROWSER).text


def test_a_session_predicts_from_a_page_of_ours_and_from_no_other(site, log_in, clear_digit):
    log_in(Scope.PREDICT)
    body = {"model": "digits", "input": clear_digit}
    assert site.post("/v1/predict", json=body, headers=FROM_HERE).status_code == 200
    for elsewhere in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"origin": "http://evil"}, {}):
        headers = {"host": "localhost", **elsewhere}
        assert site.post("/v1/predict", json=body, headers=headers).status_code == 403, elsewhere


def test_the_form_of_the_page_to_try_is_taken_from_that_page_alone(site, log_in, quickstart):
    log_in(Scope.PREDICT)
    sent = {"data": {"example": "0"}, "params": {"model": "digits"}}
    for elsewhere in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"origin": "http://evil"}, {}):
        assert site.post("/try/", headers={"host": "localhost", **elsewhere}, **sent).status_code == 403, elsewhere
    assert site.post("/try/", headers=FROM_HERE, **sent).status_code == 422  # no examples are configured here
    log_in(Scope.REVIEW, Scope.AUDIT)
    assert site.post("/try/", headers=FROM_HERE, **sent).status_code in (303, 403)


def test_a_form_is_no_way_to_predict(site, log_in):
    log_in(Scope.PREDICT)
    sent = site.post("/v1/predict", content=b"{}", headers={"host": "localhost", "content-type": "text/plain"})
    assert sent.status_code in (403, 415)


@pytest.mark.parametrize("scopes", [(), (Scope.PREDICT,), (Scope.REVIEW, Scope.AUDIT)])
def test_only_an_admin_changes_what_decides(site, log_in, scopes):
    if scopes:
        log_in(*scopes)
    told = {"artifact": "x", "why": "y"}
    for verb in ("promote", "rollback", "shadow", "canary", "replay"):
        sent = site.post(f"/models/digits/{verb}", data=told, headers=FROM_HERE)
        assert sent.status_code in (303, 401, 403)
        assert not sent.headers.get("location", "").startswith("/models")


def test_an_admin_s_change_from_another_site_is_refused(site, log_in):
    log_in(Scope.ADMIN)
    told = {"artifact": "x", "why": "y"}
    assert (
        site.post(
            "/models/digits/promote", data=told, headers={**FROM_HERE, "sec-fetch-site": "cross-site"}
        ).status_code
        == 403
    )
    assert site.post("/models/digits/promote", data=told, headers=FROM_HERE).status_code in (404, 422)


def test_a_key_that_is_bound_begins_no_session_for_predictions(database):
    logins = Logins(AccessConfig(), database)
    for bound in ({"models": ["digits"]}, {"rates": Rates(predictions=Rate(per_second=1, burst=1))}):
        with pytest.raises(LoginRefused, match="bound to models or to a rate"):
            logins.with_code(make(database, Scope.PREDICT, **bound), None)
    person, _ = logins.with_code(make(database, Scope.PREDICT), None)
    assert person.scopes == (Scope.PREDICT,)
