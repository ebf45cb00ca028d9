"""What a page of another site can make a browser send is refused at every door; programs come in as before."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from demur.review import cases as review_cases
from demur.serve.access.needs import AUDIT, GATEWAY, REVIEW
from demur.serve.access.own_hosts import OwnHosts
from demur.serve.deployments.guarded import guarded
from demur.serve.web.login.browser_guard import BrowserGuard
from tests.fuzz.served import config, served
from tests.serve.contract.pictures.made import encoded
from tests.serve.forms import FORM, form, part
from tests.serve.web.login.test_access_middleware import all_routes, filled

pytestmark = pytest.mark.slow  # three applications are made

HOST = "127.0.0.1:8000"
OURS = f"http://{HOST}"
NEEDS = {"": GATEWAY, "/review": REVIEW, "/audit": AUDIT}

FROM_ANOTHER_SITE = {
    "a script, over https or on this machine": {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    "a script, over plain http": {"Origin": "http://evil.example"},
    "another port of this machine": {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"},
    "another port, over plain http": {"Origin": "http://127.0.0.1:3000"},
    "this machine by its other name": {"Origin": "http://localhost:8000", "Sec-Fetch-Site": "cross-site"},
    "a frame without an origin": {"Origin": "null"},
    "a neighbour under the same domain": {"Sec-Fetch-Site": "same-site"},
    "the browser itself": {"Sec-Fetch-Site": "none"},
    "a page that claims a proxy": {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site",
                                   "X-Forwarded-Host": "evil.example"},
    "a password of a form's address": {"Origin": "null", "Authorization": "Basic ZGVtdXI6eA=="},
}  # fmt: skip

REBOUND = "127.0.0.1.evil.example:8000"

FORMS = (
    "text/plain",
    "text/plain;charset=UTF-8",
    "Application/x-www-form-urlencoded",
    " multipart/form-data; boundary=x",
)


OLD_BROWSER = "Mozilla/3.0 (Win95; I)"
NEW_BROWSER = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"

WELCOME = (
    {"Content-Type": "application/json"},
    {},  # as httpx, requests and sendBeacon of a Blob send it; the last says its origin besides
    {"Content-Type": "application/octet-stream"},
    {"Content-Type": "application/json", "Origin": OURS, "Sec-Fetch-Site": "same-origin"},
    {"Content-Type": "application/json", "Origin": OURS},
    {"Content-Type": "application/json", "Sec-Fetch-Mode": "cors"},  # Node's fetch says no more
    {"Content-Type": "application/x-www-form-urlencoded", "Authorization": "Bearer any"},  # curl, with a key
    {"Content-Type": "application/x-www-form-urlencoded", "X-Api-Key": "any"},
    {"Origin": "chrome-extension://abcdef", "Authorization": "bearer any"},
)
"""What programs and pages of ours send."""


@pytest.fixture(scope="module")
def known():
    return {}


@pytest.fixture
def apps(database, known):
    found, known["ids"] = served(database)
    return found


@pytest.fixture
def client(apps):
    """The three applications as `demur up` serves them on the quickstart, where nobody is asked who they are."""
    whole = Starlette()
    for root, app in apps.items():
        whole.mount(root, guarded(app, config(), None, NEEDS[root], has_pages=root != ""))
    with TestClient(whole, base_url=OURS, follow_redirects=False) as client:
        yield client


def writing_routes(apps):
    for root, app in apps.items():
        for route in all_routes(app.routes):
            if not isinstance(route, Mount):
                for method in route.methods - {"GET", "HEAD", "OPTIONS"}:
                    yield method, f"{root}{filled(route.path)}"


def test_no_door_that_writes_opens_to_a_page_of_another_site(client, apps):
    routes = list(writing_routes(apps))
    assert len(routes) > 25
    for what, headers in FROM_ANOTHER_SITE.items():
        for method, path in routes:
            told = client.request(method, path, headers=headers, content=b"{}")
            assert told.status_code == 403, (what, method, path, told.text)
            assert "a page of another site" in told.text


def test_no_door_for_json_takes_a_form(client, apps):
    """As the first browsers that had forms could send it from any page, without saying from where, but with their
    name."""
    for method, path in writing_routes(apps):
        if method == "POST" and (path.startswith(("/v1/", "/v2/")) or "/v1/" in path):
            for form in FORMS:
                told = client.post(path, headers={"Content-Type": form, "User-Agent": OLD_BROWSER}, content=b"{}")
                assert told.status_code == 415, (path, form)
                assert "Content-Type: application/json" in told.text


UPLOAD = form(part("model", "pixels"), part("file", encoded("PNG"), filename="seven.png"))


def uploads(client, path="/v1/predict", **headers):
    return client.post(path, content=UPLOAD, headers={"Content-Type": FORM, **headers})


def test_programs_may_send_files_as_a_form_where_predictions_are_made(client, apps):
    for program in ("curl/8.14.1", "python-requests/2.32", ""):
        told = uploads(client, **{"User-Agent": program})
        assert (told.status_code, told.json()["model"]) == (200, "pixels"), told.text
    assert uploads(client, "/v1/predict/batch").json()["results"][0]["status"] == 200
    for method, path in writing_routes(apps):
        if method == "POST" and (path.startswith(("/v1/", "/v2/")) or "/v1/" in path) and "predict" not in path:
            assert uploads(client, path).status_code == 415, path


def test_a_page_sends_no_files(client, database):
    for what, headers in FROM_ANOTHER_SITE.items():
        for path in ("/v1/predict", "/v1/predict/batch"):
            assert uploads(client, path, **headers, **{"User-Agent": NEW_BROWSER}).status_code == 403, what
            assert uploads(client, path, **headers).status_code == 403, what
    for browser in (OLD_BROWSER, NEW_BROWSER, "Opera/9.80 (X11; Linux) Presto/2.2"):
        told = uploads(client, **{"User-Agent": browser})
        assert (told.status_code, told.json()["error"]["kind"]) == (415, "FormRefused")
        assert "show a key (X-Api-Key)" in told.text
    with database.transaction() as connection:
        assert connection.execute("select count(*) from records where model = 'pixels'").fetchone() == (0,)


def test_a_page_of_our_own_and_whoever_shows_a_key_may_send_files(client):
    for headers in ({"Origin": OURS, "Sec-Fetch-Site": "same-origin"}, {"X-Api-Key": "any"}):
        assert uploads(client, **headers, **{"User-Agent": NEW_BROWSER}).status_code == 200, headers


def predicts(client, **headers):
    body = json.dumps({"model": "words", "input": "a text"})
    return client.post("/v1/predict", content=body, headers=headers)


def test_programs_and_our_own_pages_come_in(client):
    for headers in WELCOME:
        assert predicts(client, **headers).status_code == 200, headers


def test_curl_without_a_content_type_is_told_which_to_send(client):
    told = predicts(client, **{"Content-Type": "application/x-www-form-urlencoded"})
    assert told.status_code == 415
    assert told.json()["error"] == {
        "kind": "FormRefused",
        "message": "the body was sent as a form, as any web page can do; send it with `Content-Type: application/json`",
    }


def test_under_the_name_of_another_site_nothing_is_read(client, apps):
    """DNS rebinding: the browser takes the page of the other site and this service for one, and says so."""
    seen = 0
    for root, app in apps.items():
        for route in all_routes(app.routes):
            paths = [f"{root}{filled(route.path)}"] if not isinstance(route, Mount) else []
            for path in paths:
                headers = {"Host": REBOUND, "Sec-Fetch-Site": "same-origin", "X-Demur-Reviewer": "ada"}
                for method in route.methods:
                    told = client.request(method, path, headers=headers)
                    assert told.status_code == 403, (method, path)
                    assert REBOUND in told.text or method == "HEAD"
                    seen += 1
    assert seen > 70


def test_probes_and_scrapes_by_address_are_answered(client):
    for host in ("localhost:8000", "[::1]:8000", "10.244.0.17:8000", "127.0.0.1"):
        for path in ("/healthz", "/v2/health/live", "/review/metrics", "/audit/metrics", "/docs", "/review/"):
            assert client.get(path, headers={"Host": host}).status_code in (200, 401), path  # 401: who are you


def test_each_door_tells_it_in_its_own_form(client):
    elsewhere = {"Origin": "https://evil.example", "Content-Type": "application/json"}
    native = client.post("/v1/predict", headers=elsewhere)
    assert native.json()["error"]["kind"] == "FromElsewhere"
    assert native.headers["x-content-type-options"] == "nosniff"
    chat = client.post("/v1/chat/completions", headers=elsewhere).json()["error"]
    assert (chat["code"], chat["type"]) == ("FromElsewhere", "invalid_request_error")
    assert isinstance(client.post("/v2/models/words/infer", headers=elsewhere).json()["error"], str)
    assert client.post("/review/v1/cases/next", headers=elsewhere).json()["error"]["kind"] == "FromElsewhere"
    page = client.post("/review/next", headers=elsewhere)
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    assert page.text.startswith("this was sent from a page of another site")
    unknown = client.get("/review/", headers={"Host": "<b>evil</b>.example"})
    assert (unknown.status_code, unknown.headers["content-type"]) == (403, "text/plain; charset=utf-8")


def test_forms_of_our_own_pages_are_taken(client, known):
    client.headers["X-Demur-Reviewer"] = "ada"
    case = known["ids"].records[0]
    done = client.post(f"/review/cases/{case}/claim", headers={"Origin": OURS}, data={"token": "0"})
    assert (done.status_code, done.headers["location"]) == (303, f"/review/cases/{case}")


def test_a_refused_form_has_done_nothing(client, known, database):
    client.headers["X-Demur-Reviewer"] = "ada"
    case = known["ids"].records[0]
    assert client.post(f"/review/cases/{case}/claim", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    with database.transaction() as connection:
        assert review_cases.case(connection, case).status == "waiting"


def test_nobody_gives_another_site_leave(client):
    """A preflight: without this header in the answer no browser sends what comes after it."""
    asking = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST",
              "Access-Control-Request-Headers": "authorization,content-type"}  # fmt: skip
    for path in (
        "/v1/predict",
        "/v1/chat/completions",
        "/v2/models/words/infer",
        "/review/v1/cases/next",
        "/audit/v1/audits",
    ):
        told = client.options(path, headers=asking)
        assert told.status_code >= 400
        assert not any(name.startswith("access-control") for name in told.headers)
    for path in ("/healthz", "/openapi.json", "/review/v1/export?model=words&format=jsonl"):
        told = client.get(path, headers={"Origin": "https://evil.example"})
        assert not any(name.startswith("access-control") for name in told.headers)


def test_there_is_nothing_for_websockets(client):
    from starlette.websockets import WebSocketDisconnect

    for path in ("/v1/predict", "/review/", "/audit/v1/reports"):
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect(path, headers={"Origin": "https://evil.example"}),
        ):
            pass


NAMES = st.sampled_from(
    [b"host", b"origin", b"sec-fetch-site", b"content-type", b"authorization", b"x-api-key", b"x-forwarded-host", b"x"]
)
VALUES = st.binary(max_size=30) | st.sampled_from(
    [b"", b"null", b"same-origin", b"cross-site", b"http://127.0.0.1", b"127.0.0.1", b"[::1]:", b":", b"://", b"//",
     b"@", b"evil.example", b"http://evil.example", b"text/plain", b"Bearer x", b"Basic x", b"127.0.0.1, evil.example"]
)  # fmt: skip


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), st.sampled_from(["POST", "DELETE", "GET", "OPTIONS", "X"]))
def test_whatever_the_headers_are_it_is_let_in_or_refused(headers, method):
    reached, sent = [], []

    async def app(scope, receive, send):
        reached.append(scope)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": "/v1/predict", "headers": headers}
    asyncio.run(BrowserGuard(app, OwnHosts([]))(scope, None, send))
    assert bool(reached) is not bool(sent)
    if sent:
        assert sent[0]["status"] in (403, 415)
        return
    seen = dict(headers)
    keyed = b"x-api-key" in seen or seen.get(b"authorization", b"").lower().startswith(b"bearer ")
    assert b"evil" not in seen.get(b"host", b"")
    if method in ("POST", "DELETE", "X") and not keyed:
        assert seen.get(b"sec-fetch-site", b"same-origin") == b"same-origin"
        assert b"sec-fetch-site" in seen or b"evil" not in seen.get(b"origin", b"") or b"x-forwarded-host" in seen


def test_the_documents_say_so(client):
    for root in ("", "/review", "/audit"):
        for operations in client.get(f"{root}/openapi.json").json()["paths"].values():
            for operation in operations.values():
                assert "403" in operation["responses"]
                assert ("415" in operation["responses"]) is ("requestBody" in operation)
                assert operation["responses"]["403"]["content"]
