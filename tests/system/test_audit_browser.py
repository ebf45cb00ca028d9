"""The auditors' pages in a real browser."""

import re
import socket
import threading

import numpy as np
import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from fastapi import FastAPI
from playwright.sync_api import expect

from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.plan import Settings
from demur.audit.state import runs
from demur.serve.database.opening import open_database
from demur.serve.web.audit import alarms
from demur.serve.web.audit.alarms import PageAlarm
from demur.serve.web.audit.app import audits_app
from tests.audit.report.simulated import simulated
from tests.conftest import PAGE_MILLISECONDS
from tests.serve.web.audit.stored import DAY, MONDAY, a_fortnight, keep, new_report, summary
from tests.serve.web.audit.traffic import config_of
from tests.system.leaving import close

pytestmark = pytest.mark.slow

WIDTHS = {"phone": (360, 700), "zoom to 200%": (600, 400), "desk": (1200, 800)}


@pytest.fixture
def site(dsn):
    """The address of the pages, over a database that is handed out as well."""
    database = open_database(dsn)
    app = FastAPI()
    app.mount("/audit", audits_app(config_of("digits", "letters"), database))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/audit", database
    server.should_exit = True
    serving.join()
    database.close()


@pytest.fixture
def page(browser):
    """A page; fails if it complains."""
    complaints = []
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    opened = context.new_page()
    opened.set_default_timeout(PAGE_MILLISECONDS)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda said: complaints.append(said.text) if "Content Security Policy" in said.text else None)
    yield opened
    close(context)
    assert complaints == []


def keep_real(database, model="digits"):
    """Keep a report of simulated traffic as a service makes it, and return its id."""
    ledger = simulated(4_000, np.random.default_rng(0), spot_check=0.2).ledger
    made = audit(ledger, AuditSettings(settings=Settings(replicates=100), max_risk=0.001, command="demur audit"))
    (id,) = keep(
        database,
        new_report(model=model, html=made.as_html(), document=made.as_json(), of=summary("broken", 0.05)),
    )
    return id


@pytest.fixture
def places(site, monkeypatch):
    """The address of each kind of page."""
    url, database = site
    ids = a_fortnight(database)
    (first,) = keep(database, new_report(model="letters"))
    with database.transaction() as connection:
        runs.ask(connection, "letters", since=MONDAY - DAY, until=MONDAY, asked_by="ada")
        runs.take(connection, lease_seconds=600)
        runs.ask(connection, "digits", since=MONDAY - DAY, until=MONDAY, asked_by="ada")
        runs.failed(connection, runs.take(connection, lease_seconds=600), "OutOfMemory: " + "no_blank" * 30)
    real = keep_real(database)
    alarm = PageAlarm(model="digits", words="More answers are wrong than were promised.", since=MONDAY, path="/")
    monkeypatch.setattr(alarms, "SOURCES", (lambda _: [alarm],))
    return {
        "list": f"{url}/",
        "list of one": f"{url}/?model=digits",
        "report": f"{url}/reports/{ids[-1]}",
        "real report": f"{url}/reports/{real}",
        "board": f"{url}/reports/{real}/board",
        "monitors": f"{url}/monitors",
        "control": f"{url}/control",
        "comparison": f"{url}/reports/{ids[-1]}/compare/{ids[0]}",
        "nothing to compare with": f"{url}/reports/{first}/compare",
        "hello": f"{url}/hello",
        "trouble": f"{url}/reports/nothing/compare",
    }


def test_pages_are_accessible_and_narrow_enough(page, places):
    """By day all rules of axe-core hold, by night those about colours once more; nothing is wider than a phone."""
    found, wide = {}, {}
    for name, address in places.items():
        page.goto(address)
        for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            page.emulate_media(color_scheme=scheme)
            problems = Axe().run(page, options={"resultTypes": ["violations"], **rules}).response["violations"]
            found[name, scheme] = [f"{one['id']}: {node['html']}" for one in problems for node in one["nodes"]]
        for how, (width, height) in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": height})
            needed = page.evaluate("document.documentElement.scrollWidth")
            if needed > width:
                wide[name, how] = needed
    assert {name: problems for name, problems in found.items() if problems} == {}
    assert wide == {}


def test_somebody_asks_for_an_audit_and_sees_it_come(page, site):
    url, database = site
    page.goto(f"{url}/")
    page.get_by_role("button", name="Audit now digits").click()
    page.locator("#name:focus").wait_for()
    page.keyboard.type("Ada")
    page.keyboard.press("Enter")
    page.get_by_label("Range of a new audit of digits").select_option("the last 24 hours")
    page.get_by_role("button", name="Audit now digits").click()
    page.get_by_text("asked for by Ada").wait_for()
    with database.transaction() as connection:
        run = runs.take(connection, lease_seconds=600)
        runs.keep(connection, run, stage="reading", share=0.25, lease_seconds=600)
    page.get_by_text("Being made:").wait_for()  # by itself
    (id,) = keep(database, new_report())
    with database.transaction() as connection:
        runs.keep(connection, run, stage="resampling", share=0.5, lease_seconds=600)
    page.get_by_text("resampling").wait_for()
    with database.transaction() as connection:
        runs.done(connection, run, id)
    page.get_by_role("link", name="Read the report").click()
    page.get_by_role("heading", name="The whole report").wait_for()
    page.get_by_role("link", name="← Reports").click()
    page.get_by_role("heading", name="Was the promise kept?").wait_for()


def test_what_begins_before_the_page_looks_is_seen(page, site):
    """Between the making of a page and its first look at the service, an audit may begin."""
    url, database = site
    with database.transaction() as connection:
        runs.ask(connection, "digits", since=MONDAY - DAY, until=MONDAY, asked_by="Ada")

    def begin_first(route):
        if waiting:
            with database.transaction() as connection:
                waiting.remove(runs.take(connection, lease_seconds=600).model)
        route.continue_()

    waiting = ["digits"]
    page.route("**/v1/audits", begin_first)
    page.goto(f"{url}/")
    page.get_by_text("Being made:").wait_for()
    assert not waiting


def test_a_stored_report_can_do_nothing(browser, site):
    """Whatever got into it: no script of it runs, and nothing is loaded."""
    url, database = site
    evil = (
        "<!doctype html><html><head><title>x</title></head><body onload='document.title=1'>"
        "<script>document.title = 'taken'</script><img src='http://127.0.0.1:9/x' onerror='document.title=2'>"
        "<form action='/audit/audits' method='post'><button>go</button></form></body></html>"
    )
    (id,) = keep(database, new_report(html=evil))
    page = browser.new_page()
    asked = []
    refused = []
    page.on("request", lambda request: asked.append((request.method, request.url)))
    page.on("requestfailed", lambda request: refused.append((request.url, request.failure)))
    page.goto(f"{url}/reports/{id}")
    page.get_by_role("button", name="go").click(no_wait_after=True)
    page.wait_for_timeout(300)
    assert "<title>x</title>" in page.content()
    assert refused == [("http://127.0.0.1:9/x", "csp")]
    assert [one for one in asked if one[1] != "http://127.0.0.1:9/x"] == [("GET", f"{url}/reports/{id}")]
    page.close()


def test_an_auditor_goes_from_the_board_to_the_numbers(page, site):
    url, database = site
    id = keep_real(database)
    page.goto(f"{url}/")
    page.get_by_role("link", name="One page for the board").click()
    expect(page.get_by_role("heading", name="Why, and what now")).to_be_visible()
    expect(page.get_by_text("demur fit m --since")).to_be_visible()
    page.get_by_role("link", name="The full report").first.click()
    expect(page.get_by_role("heading", name="What the correction did")).to_be_visible()
    for name, suffix in (("SVG", "target.svg"), ("PNG", "target.png"), ("CSV", "target.csv")):
        with page.expect_download() as begun:
            page.get_by_role("link", name=name, exact=True).first.click()
        assert begun.value.suggested_filename.endswith(suffix)
    cases = page.get_by_role("link", name="of them").get_attribute("href")
    assert cases.startswith("/review/?show=all&overturned=true&model=m&since=")
    assert str(id) in page.url


def test_save_as_pdf_prints(page, site):
    url, database = site
    page.add_init_script("window.print = () => { document.title = 'printed'; }")
    page.goto(f"{url}/reports/{keep_real(database)}/board")
    page.get_by_role("button", name="Save as PDF").click()
    expect(page).to_have_title("printed")


def test_without_javascript_a_report_is_whole(browser, site):
    url, database = site
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{url}/reports/{keep_real(database)}")
    expect(page.get_by_role("button", name="Save as PDF")).to_be_hidden()
    expect(page.get_by_role("heading", name="The same report again")).to_be_visible()
    context.close()


def test_the_board_prints_on_one_page(page, site):
    url, database = site
    page.goto(f"{url}/reports/{keep_real(database)}/board")
    printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1
