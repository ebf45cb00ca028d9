"""A page of another site, in a real browser, beside the running quickstart: it writes nothing, and reads nothing."""

import base64
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import psycopg
import pytest

from tests.conftest import digit_rows
from tests.serve.contract.pictures.made import encoded
from tests.system.conftest import BROWSERS, FLAGS, wait_until

pytestmark = pytest.mark.slow

STRANGE_NAME = "evil.example"
"""Which the browser finds at this machine, as after DNS rebinding."""

PICTURE = base64.b64encode(encoded("PNG")).decode()

SENDING = """
async ([service, id, digit, picture]) => {
  const predict = `${service}/v1/predict`, outcome = `${service}/v1/predictions/${id}/outcome`;
  const body = JSON.stringify({model: "digits", input: digit}), truth = JSON.stringify({label: "3"});
  const png = Uint8Array.from(atob(picture), (one) => one.charCodeAt(0)), files = new FormData();
  files.append("model", "digits");
  files.append("file", new Blob([png], {type: "image/png"}), "seven.png");
  const tries = [
    fetch(predict, {method: "POST", mode: "no-cors", body}),
    fetch(outcome, {method: "POST", mode: "no-cors", body: truth}),
    fetch(predict, {method: "POST", mode: "no-cors", body: new Blob([body])}),
    fetch(predict, {method: "POST", mode: "no-cors", body, referrerPolicy: "no-referrer"}),
    fetch(outcome, {method: "POST", mode: "no-cors", body: new URLSearchParams({label: "3"})}),
    fetch(predict, {method: "POST", mode: "no-cors", body: files}),
    fetch(`${predict}/batch`, {method: "POST", mode: "no-cors", body: files, referrerPolicy: "no-referrer"}),
    fetch(predict, {method: "POST", body: files, credentials: "include"}),
    Promise.resolve(navigator.sendBeacon(predict, files)),
    fetch(predict, {method: "POST", body, headers: {"Content-Type": "application/json"}}),
    fetch(predict, {method: "POST", body, headers: {"Content-Type": "application/json", "X-Api-Key": "x"}}),
    fetch(`${service}/v1/predictions/${id}/payload`, {method: "DELETE"}),
    fetch(`${service}/review/next`, {method: "POST", mode: "no-cors", body: new URLSearchParams({model: "digits"})}),
    fetch(`${service}/audit/audits`, {method: "POST", mode: "no-cors", body: new URLSearchParams({model: "digits"})}),
    Promise.resolve(navigator.sendBeacon(outcome, truth)),
  ];
  const ends = await Promise.allSettled(tries);
  return ends.filter(end => end.status === "fulfilled" && end.value !== true && end.value.type !== "opaque").length;
}
"""
"""Every way in which a script sends something without being asked for leave first, and some that ask. What comes back:
how many answers the page could read."""

READING = """
async (service) => {
  const read = [];
  for (const path of ["/healthz", "/v1/models", "/openapi.json", "/review/v1/cases?glance=true", "/audit/v1/reports"]) {
    try { read.push((await fetch(service + path, {headers: {"X-Demur-Reviewer": "ada"}})).status); }
    catch { read.push("refused by the browser"); }
  }
  return read;
}
"""


@pytest.fixture
def site():
    """The port of a web site of somebody else on this machine."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>another site</title>")

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def strange_browser():
    """A browser for which a strange name means this machine, and that leaves it to us to keep strangers out."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    rules = f"--host-resolver-rules=MAP {STRANGE_NAME} 127.0.0.1"
    older = "--disable-features=LocalNetworkAccessChecks"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=[*FLAGS, rules, older])
        yield opened
        opened.close()


@pytest.fixture
def elsewhere(strange_browser):
    """What that browser keeps for one test."""
    with strange_browser.new_context() as context:
        yield context


@pytest.fixture
def digit(digits):
    return digit_rows(digits)[0]["input"]


@pytest.fixture
def record(http, digit):
    return http.post("/v1/predict", json={"model": "digits", "input": digit}).json()["id"]


def written(service):
    """How much there is of all that a request can write."""
    tables = ("records", "outcomes", "erased_payloads", "review_events", "audit_runs", "case_views")
    with psycopg.connect(f"host={service.folder / 'var/postgres'} dbname=postgres user=postgres") as connection:
        return {table: connection.execute(f"select count(*) from {table}").fetchone()[0] for table in tables}


def settled(service):
    """Whether no answer of a reviewer can still be taken back."""
    with psycopg.connect(f"host={service.folder / 'var/postgres'} dbname=postgres user=postgres") as connection:
        return not connection.execute("select count(*) from review_items where status = 'answered'").fetchone()[0]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", STRANGE_NAME])
@pytest.mark.parametrize("asked", ["127.0.0.1", "localhost"])
def test_a_script_writes_and_reads_nothing(service, site, elsewhere, record, digit, name, asked):
    wait_until(lambda: settled(service))  # else an answer of a test before counts from now on
    before = written(service)
    page = elsewhere.new_page()
    page.goto(f"http://{name}:{site}/")
    target = f"http://{asked}:{service.port}"
    assert page.evaluate(SENDING, [target, record, digit, PICTURE]) == 0
    assert set(page.evaluate(READING, target)) == {"refused by the browser"}
    assert written(service) == before


def test_a_form_writes_nothing(service, site, elsewhere, record):
    before = written(service)
    page = elsewhere.new_page()
    for form, enctype in (("text", "text/plain"), ("fields", "application/x-www-form-urlencoded")):
        page.goto(f"http://localhost:{site}/")
        page.evaluate(
            """([where, enctype]) => {
              const made = (kind, values) => Object.assign(document.createElement(kind), values);
              const form = made("form", {method: "post", action: where, enctype});
              const field = made("input", {name: '{"label": "3", "source": "', value: 'x"}'});
              form.append(field); document.body.append(form); form.submit();
            }""",
            [f"{service.url}/v1/predictions/{record}/outcome", enctype],
        )
        page.wait_for_url(f"{service.url}/**")
        assert "a page of another site" in page.locator("body").inner_text(), form
    assert written(service) == before


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/predict/batch"])
def test_a_form_with_a_file_predicts_nothing(service, site, elsewhere, path):
    """A program may send the very same bytes; a page puts them into a form by itself, and nobody need click."""
    before = written(service)
    page = elsewhere.new_page()
    page.goto(f"http://localhost:{site}/")
    page.evaluate(
        """([where, picture]) => {
          const made = (kind, values) => Object.assign(document.createElement(kind), values);
          const form = made("form", {method: "post", action: where, enctype: "multipart/form-data"});
          const png = Uint8Array.from(atob(picture), (one) => one.charCodeAt(0)), chosen = new DataTransfer();
          chosen.items.add(new File([png], "seven.png", {type: "image/png"}));
          form.append(made("input", {name: "model", value: "digits"}));
          form.append(made("input", {type: "file", name: "file", files: chosen.files}));
          document.body.append(form); form.submit();
        }""",
        [f"{service.url}{path}", PICTURE],
    )
    page.wait_for_url(f"{service.url}/**")
    assert "a page of another site" in page.locator("body").inner_text()
    assert written(service) == before
    files = {"file": base64.b64decode(PICTURE)}
    assert httpx.post(f"{service.url}{path}", data={"model": "digits"}, files=files).status_code == 200
    assert written(service)["records"] == before["records"] + 1


def test_a_frame_without_an_origin_writes_nothing(service, site, elsewhere, record, digit):
    before = written(service)
    page = elsewhere.new_page()
    page.goto(f"http://127.0.0.1:{site}/")
    page.set_content('<iframe sandbox="allow-scripts" srcdoc="<p>here</p>"></iframe>')
    (frame,) = [frame for frame in page.frames if frame.parent_frame]
    frame.wait_for_selector("p")
    assert frame.evaluate(SENDING, [service.url, record, digit, PICTURE]) == 0
    assert written(service) == before


def test_under_a_name_that_was_rebound_nothing_is_read(service, elsewhere, record, digit):
    before = written(service)
    page = elsewhere.new_page()
    rebound = f"http://{STRANGE_NAME}:{service.port}"
    assert page.goto(f"{rebound}/review/").status == 403
    assert page.locator("body").inner_text().startswith(f"this service does not go by the name '{STRANGE_NAME}:")
    page.route(f"{rebound}/lure", lambda asked: asked.fulfill(body="<p>of the stranger", content_type="text/html"))
    page.goto(f"{rebound}/lure")  # which came before the name was bound to this machine, with no header of ours
    assert set(page.evaluate(READING, rebound)) == {403}
    assert (
        page.evaluate(SENDING, [rebound, record, digit, PICTURE]) > 0
    )  # the page reads the answers: each of them a refusal
    assert written(service) == before


def test_our_own_pages_and_programs_go_on(service, elsewhere, record):
    page = elsewhere.new_page()
    for name in ("127.0.0.1", "localhost"):
        root = f"http://{name}:{service.port}"
        page.goto(f"{root}/docs")
        told = page.evaluate(
            """async ([where]) => (await fetch(where, {method: "POST", headers: {"Content-Type": "application/json"},
                                                      body: '{"label": "0"}'})).status""",
            [f"{root}/v1/predictions/{record}/outcome"],
        )
        assert told == 201
    address = f"{service.url}/v1/predictions/{record}/outcome"
    assert httpx.post(address, content=b'{"label": "0"}').status_code == 201
    assert httpx.post(address, data={"label": "0"}).status_code == 415
