"""People who log in: one-time links, cookies, how sessions end, and what a page of another site can do."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from psycopg import connect
from starlette.testclient import TestClient

from demur.serve.access import authenticator as keeping
from demur.serve.access import login_limits, sessions, token_hashes
from demur.serve.access.needs import AUDIT, REVIEW
from demur.serve.access.rates import Rate
from demur.serve.access.tokens import read_token
from demur.serve.config.access import AccessConfig, ProxyConfig, Scope
from demur.serve.deployments.guarded import guarded
from demur.serve.web.audit.app import audits_app
from demur.serve.web.review.app import console_app
from demur.traffic.database import Database, DatabaseUnavailable
from tests.conftest import entry, new_case
from tests.serve.access.doors import bearer, keeper_of, make, revoke

pytestmark = pytest.mark.slow  # each makes the applications anew

OURS = {"Origin": "http://testserver"}


@pytest.fixture
def pages(quickstart, database, monkeypatch):
    """The pages behind their doors, as a browser comes to them; another replica of the review pages beside them."""
    monkeypatch.setattr(keeping, "SEEN_APART_SECONDS", 0.0)

    made = {}

    def browse(access=None, base="http://testserver"):
        config = quickstart.model_copy(update={"access": access or AccessConfig()})
        cookie = config.access.cookie
        if cookie not in made:
            made[cookie] = console_app(config, database), audits_app(config, database)
        keepers = [keeper_of(database) for _ in range(3)]
        review = [guarded(made[cookie][0], config, keeper, REVIEW, has_pages=True) for keeper in keepers[:2]]
        return Browser(review, guarded(made[cookie][1], config, keepers[2], AUDIT, has_pages=True), keepers, base)

    return browse


class Browser:
    """Cookies that are sent to all applications, as a browser does with one host."""

    def __init__(self, review, audit, keepers, base):
        self.keepers = keepers
        first = TestClient(review[0], base_url=base, root_path="/review", follow_redirects=False)
        self.review, self.cookies = first, first.cookies
        self.other = TestClient(review[1], base_url=base, root_path="/review", follow_redirects=False)
        self.audit = TestClient(audit, base_url=base, root_path="/audit", follow_redirects=False)
        self.other._cookies = self.audit._cookies = first._cookies

    def log_in(self, code, **more):
        return self.review.post("/review/login", data={"code": code, **more}, headers=OURS)

    def look(self):
        for keeper in self.keepers:
            keeper.ring.look()


def code_for(database, *scopes, name="ada", hours=1.0):
    ends = datetime.now(UTC) + timedelta(hours=hours)
    with database.transaction() as connection:
        return sessions.make_code(connection, name, scopes, by="tests", expires_at=ends).text


def test_a_stranger_is_sent_to_the_login_and_comes_back_to_the_page(pages, database):
    browser = pages()
    where = f"/review/cases/{uuid4()}"
    sent = browser.review.get(where)
    assert sent.status_code == 303
    to = urlsplit(sent.headers["location"])
    assert (to.path, parse_qs(to.query)) == ("/review/login", {"back": [where]})
    page = browser.review.get(sent.headers["location"])
    assert f'name="back" value="{where}"' in page.text
    done = browser.log_in(code_for(database, Scope.REVIEW), back=where)
    assert (done.status_code, done.headers["location"]) == (303, where)


def test_a_link_logs_in_once(pages, database):
    browser, second = pages(), pages()
    code = code_for(database, Scope.REVIEW)
    assert browser.log_in(code).headers["location"] == "/review/"
    assert browser.review.get("/review/v1/me").json()["name"] == "ada"
    again = second.log_in(code)
    assert again.status_code == 403
    assert "This link was used before" in again.text
    assert second.review.get("/review/").status_code == 303
    assert code not in again.text


def test_the_whole_link_may_be_pasted(pages, database):
    code = code_for(database, Scope.AUDIT)
    assert pages().log_in(f" http://demur.example.org/review/login#{code}\n").headers["location"] == "/audit/"


def test_a_link_whose_time_is_up_lets_nobody_in(pages, database):
    refused = pages().log_in(code_for(database, Scope.REVIEW, hours=-1))
    assert "The time of this link is up" in refused.text


@pytest.mark.parametrize(
    "code", ["", "nonsense", "demurcode_abcdefghij_" + "a" * 40, "demursession_abcdefghij_" + "a" * 40, "\0"]
)
def test_what_is_no_code_lets_nobody_in(pages, database, code):
    refused = pages().log_in(code)
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers


def test_a_wrong_secret_under_a_good_id_uses_nothing_up(pages, database):
    browser, code = pages(), code_for(database, Scope.REVIEW)
    assert browser.log_in(code[:-3] + "abc").status_code == 403
    assert browser.log_in(code).status_code == 303


def test_a_key_logs_in_under_its_name_and_its_end_ends_the_session(pages, database):
    browser, key = pages(), make(database, Scope.REVIEW, Scope.PREDICT, name="lab")
    browser.log_in(key)
    me = browser.review.get("/review/v1/me")
    assert me.json()["name"] == "lab"
    revoke(database, key)
    browser.look()
    assert browser.review.get("/review/v1/me").status_code == 401
    assert "was revoked" in browser.log_in(key).text


def test_a_key_for_predictions_leads_to_the_page_to_try(pages, database):
    sent = pages().log_in(make(database, Scope.PREDICT))
    assert (sent.status_code, sent.headers["location"]) == (303, "/try/")


def test_a_session_is_known_in_every_replica_and_application(pages, database):
    browser = pages()
    browser.log_in(code_for(database, Scope.REVIEW, Scope.AUDIT))
    assert browser.other.get("/review/").status_code == 200
    assert browser.audit.get("/audit/").status_code == 200


def test_a_page_for_others_says_what_it_needs(pages, database):
    browser = pages()
    browser.log_in(code_for(database, Scope.REVIEW))
    sent = browser.audit.get("/audit/monitors")
    assert sent.status_code == 303
    page = browser.review.get(sent.headers["location"]).text
    assert "needs <strong>audit</strong>" in page
    assert "may review" in page
    assert browser.audit.get("/audit/v1/monitors").status_code == 403


def test_the_cookie_is_for_the_server_alone(pages, database):
    plain = pages().log_in(code_for(database, Scope.REVIEW)).headers["set-cookie"]
    assert re.match(r"demur-session=demursession_\w+; HttpOnly; Max-Age=43200; Path=/; SameSite=strict$", plain)
    secure = pages(AccessConfig(url="https://demur.example.org", session_hours=1), base="https://testserver")
    done = secure.review.post(
        "/review/login",
        data={"code": code_for(database, Scope.REVIEW)},
        headers={"Origin": "https://testserver"},
    )
    told = done.headers["set-cookie"]
    assert told.startswith("__Host-demur-session=")
    assert "; Secure" in told
    assert "Max-Age=3600" in told
    assert secure.review.get("/review/").status_code == 200


def test_over_https_a_cookie_without_the_prefix_is_nothing(pages, database):
    """A neighbour under the same domain can set that one."""
    browser = pages(AccessConfig(url="https://demur.example.org"), base="https://testserver")
    with database.transaction() as connection:
        person = sessions.LoggedInPerson(name="eve", scopes=(Scope.REVIEW,))
        ends = datetime.now(UTC) + timedelta(hours=1)
        token = sessions.begin_session(connection, person, by="code", idle_seconds=60, expires_at=ends)
    browser.cookies.set("demur-session", token.text)
    assert browser.review.get("/review/").status_code == 303


def test_a_session_that_a_browser_brings_is_not_taken_over(pages, database):
    """Session fixation: what somebody planted before the login is worth nothing after it."""
    browser = pages()
    planted = "demursession_abcdefghij_" + "a" * 40
    browser.cookies.set("demur-session", planted)
    done = browser.log_in(code_for(database, Scope.REVIEW))
    assert planted not in done.headers["set-cookie"]
    fresh = pages()
    fresh.cookies.set("demur-session", planted)
    assert fresh.review.get("/review/").status_code == 303


def test_a_new_login_ends_the_session_before(pages, database):
    browser = pages()
    browser.log_in(code_for(database, Scope.REVIEW))
    before = browser.cookies["demur-session"]
    browser.log_in(code_for(database, Scope.REVIEW, name="bob"))
    assert browser.review.get("/review/v1/me").json()["name"] == "bob"
    browser.look()
    old = pages()
    old.cookies.set("demur-session", before)
    assert old.review.get("/review/").status_code == 303


def test_who_logs_out_is_out_everywhere(pages, database):
    browser = pages()
    browser.log_in(code_for(database, Scope.REVIEW))
    kept = browser.cookies["demur-session"]
    done = browser.review.post("/review/logout", headers=OURS)
    assert done.headers["location"] == "/review/login"
    assert 'demur-session=""; expires=' in done.headers["set-cookie"]
    browser.cookies.clear()
    browser.cookies.set("demur-session", kept)
    browser.look()
    for client, path in ((browser.review, "/review/"), (browser.other, "/review/"), (browser.audit, "/audit/")):
        assert client.get(path).status_code == 303


def test_somebody_else_can_log_them_out(pages, database):
    browser = pages()
    browser.log_in(code_for(database, Scope.REVIEW))
    unused = code_for(database, Scope.REVIEW)
    with database.transaction() as connection:
        assert sessions.log_out(connection, "ada") == (1, 1)
    browser.look()
    assert browser.review.get("/review/").status_code == 303
    assert "The time of this link is up" in browser.log_in(unused).text


def age(dsn, **intervals):
    with connect(dsn) as connection:
        for column, interval in intervals.items():
            connection.execute(f"update access_sessions set {column} = {column} - %s::interval", (interval,))


def test_a_session_ends_when_nobody_does_anything(pages, database, dsn):
    browser = pages(AccessConfig(idle_minutes=30))
    browser.log_in(code_for(database, Scope.REVIEW))
    age(dsn, seen_at="29 minutes")
    assert browser.review.get("/review/").status_code == 200  # which is seen
    age(dsn, seen_at="29 minutes")
    assert browser.review.get("/review/").status_code == 200
    age(dsn, seen_at="31 minutes")
    assert browser.review.get("/review/").status_code == 303


def test_a_page_that_asks_by_itself_keeps_no_session_alive(pages, database, dsn):
    record = entry(model="digits")
    with database.transaction() as connection:
        from demur.review import queue
        from demur.traffic import log

        log.append(connection, [record])
        queue.enqueue(connection, [new_case(record)])
    browser = pages(AccessConfig(idle_minutes=30))
    browser.log_in(code_for(database, Scope.REVIEW))
    case = record.record.id
    claim = browser.review.post(f"/review/v1/cases/{case}/claim", headers=OURS).json()
    for _ in range(3):
        age(dsn, seen_at="11 minutes")
        beat = browser.review.post(f"/review/v1/cases/{case}/heartbeat", json={"token": claim["token"]}, headers=OURS)
    assert beat.status_code == 401


def test_a_session_ends_at_the_latest_when_its_time_is_up(pages, database, dsn):
    browser = pages()
    browser.log_in(code_for(database, Scope.REVIEW))
    assert browser.review.get("/review/").status_code == 200
    age(dsn, expires_at="13 hours")
    assert browser.review.get("/review/").status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {},  # no browser sends a POST like that
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://testserver.evil.example"},
        {"Origin": "http://testserver", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://testserver", "Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_a_page_of_another_site_does_nothing_in_the_name_of_who_is_logged_in(pages, database, headers):
    browser = pages()
    browser.log_in(code_for(database, Scope.REVIEW, Scope.ADMIN))
    for client, path in (
        (browser.review, "/review/next"),
        (browser.review, "/review/v1/cases/next"),
        (browser.review, "/review/logout"),
        (browser.audit, "/audit/audits"),
        (browser.audit, "/audit/v1/alarms/1/undo"),
    ):
        assert client.post(path, headers=headers).status_code == 403, path
    assert browser.review.get("/review/").status_code == 200


def test_nobody_is_logged_in_as_somebody_else_by_another_site(pages, database):
    code = code_for(database, Scope.REVIEW)
    done = pages().review.post("/review/login", data={"code": code}, headers={"Origin": "https://evil.example"})
    assert done.status_code == 403
    assert "set-cookie" not in done.headers


@pytest.mark.parametrize(
    "back",
    [
        "https://evil.example/",
        "//evil.example/review/",
        "/\\evil.example",
        "/review/\\..\\evil",
        "javascript:alert(1)",
        "/reviewer",
        "/review/\r\nSet-Cookie: a=b",
        "/v1/predict",
    ],
)
def test_nobody_is_led_elsewhere(pages, database, back):
    browser = pages()
    page = browser.review.get("/review/login", params={"back": back})
    assert 'name="back" value=""' in page.text
    assert browser.log_in(code_for(database, Scope.REVIEW), back=back).headers["location"] == "/review/"


def test_the_name_is_that_of_the_login(pages, database):
    browser = pages()
    browser.log_in(code_for(database, Scope.REVIEW, name="Ada Łovelace"))
    browser.cookies.set("demur-reviewer", "eve")
    me = browser.review.get("/review/v1/me", headers={"X-Demur-Reviewer": "eve"})
    assert me.json()["name"] == "Ada Łovelace"
    assert browser.review.get("/review/hello").headers["location"] == "/review/login"
    assert browser.audit.get("/audit/hello").status_code == 303
    changed = browser.review.post("/review/hello", data={"name": "eve"}, headers=OURS)
    assert "set-cookie" not in changed.headers


def test_a_key_beside_a_session_counts_alone(pages, database):
    browser = pages()
    browser.log_in(code_for(database, Scope.REVIEW))
    assert browser.review.get("/review/v1/me", headers=bearer("demur_wrong")).status_code == 401
    key = make(database, Scope.REVIEW, name="robot")
    assert browser.review.get("/review/v1/me", headers=bearer(key)).json()["name"] == "robot"


def test_a_session_opens_no_door_of_machines(pages, database, handler, quickstart):
    from demur.serve.access.needs import GATEWAY
    from demur.serve.web.login.access_middleware import AccessMiddleware
    from demur.serve.web.native.app import gateway_app

    browser = pages()
    browser.log_in(code_for(database, Scope.ADMIN))
    gateway = TestClient(AccessMiddleware(gateway_app(handler, max_body_bytes=1000), keeper_of(database), GATEWAY))
    gateway._cookies = browser.cookies
    assert gateway.get("/v1/models").status_code == 401


MADE_UP = "demurcode_abcdefghij_" + "a" * 40


def test_strangers_with_made_up_codes_keep_nobody_out(pages, database):
    browser, code = pages(), code_for(database, Scope.REVIEW)
    wrong = code[:-3] + "abc"  # even if the stranger knows what the link is called
    with counted_transactions(database) as asked:
        with ThreadPoolExecutor(20) as strangers:
            tried = list(strangers.map(lambda made_up: browser.log_in(made_up).status_code, (MADE_UP, wrong) * 100))
        assert tried == [403] * 200
    assert asked() < 100  # most of them are told no without a look into the database
    assert browser.log_in(code).status_code == 303
    assert browser.log_in(make(database, Scope.REVIEW)).status_code == 303


@contextmanager
def counted_transactions(database):
    n, real = [0], database._pool.connection

    def counted():
        n[0] += 1
        return real()

    database._pool.connection = counted
    yield lambda: n[0]
    database._pool.connection = real


SELDOM = Rate(per_second=0.001, burst=3)


def test_one_key_does_not_use_up_the_logins_of_others(pages, database, monkeypatch):
    monkeypatch.setattr(login_limits, "OF_ACCOUNT", SELDOM)
    browser, busy = pages(), make(database, Scope.REVIEW, name="busy")
    assert [browser.log_in(busy).status_code for _ in range(4)] == [303, 303, 303, 429]
    assert browser.log_in(make(database, Scope.REVIEW, name="ada")).status_code == 303
    assert browser.log_in(code_for(database, Scope.REVIEW)).status_code == 303


def test_an_address_that_a_proxy_tells_is_limited_and_no_other(pages, database, monkeypatch):
    secret = "0123456789abcdef0123456789abcdef"
    monkeypatch.setenv("PROXY_SECRET", secret)
    monkeypatch.setattr(login_limits, "OF_ADDRESS", SELDOM)
    browser = pages(AccessConfig(proxy=ProxyConfig(secret_env="PROXY_SECRET")))

    def log_in(code, address):
        told = {"X-Demur-Proxy-Secret": secret, "X-Forwarded-For": f"10.0.0.1, {address}"}
        return browser.review.post("/review/login", data={"code": code}, headers=OURS | told).status_code

    code = code_for(database, Scope.REVIEW)
    assert [log_in(MADE_UP, "203.0.113.7") for _ in range(4)] == [403, 403, 403, 429]
    assert log_in(MADE_UP, "203.0.113.8") == 403
    assert log_in(code, "203.0.113.7") == 303  # a good one, from the same place


def test_an_address_that_a_stranger_writes_counts_for_nobody(pages, database, monkeypatch):
    """Ray Serve's own proxy says of nobody where they come from, and takes nothing out of what they write."""
    monkeypatch.setattr(login_limits, "OF_ADDRESS", SELDOM)
    browser = pages()
    for at in range(6):
        told = {"X-Forwarded-For": "203.0.113.7" if at % 2 else f"203.0.113.{at}"}
        assert browser.review.post("/review/login", data={"code": MADE_UP}, headers=OURS | told).status_code == 403


def test_a_code_that_was_made_a_moment_ago_lets_in(pages, database):
    browser = pages()
    for _ in range(3):  # each right after it was looked for another one
        assert browser.log_in(MADE_UP).status_code == 403
        assert browser.log_in(code_for(database, Scope.REVIEW)).status_code == 303


def test_whether_a_code_is_good_is_not_known_while_the_database_is_away(dsn):
    away = Database("postgresql://nobody@127.0.0.1:9/nowhere", patience_seconds=0.1)
    with pytest.raises(DatabaseUnavailable):
        token_hashes.TokenHashes(away).look_for(read_token(MADE_UP))
    away.close()


def test_no_secret_is_logged(pages, database, caplog, capfd):
    caplog.set_level(0)
    browser, code, key = pages(), code_for(database, Scope.REVIEW), make(database, Scope.REVIEW)
    browser.log_in(code)
    session = browser.cookies["demur-session"]
    browser.review.get("/review/")
    browser.log_in(code)
    browser.log_in(key)
    browser.review.get("/review/v1/me", headers=bearer(key[:-1]))
    browser.review.get("/review/v1/me", headers=bearer(key))
    said = caplog.text + "".join(capfd.readouterr())
    for secret in (code, key, session):
        assert secret.rpartition("_")[2] not in said
