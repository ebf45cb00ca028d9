"""The pages at the root in a real browser: each kind of page, by keyboard, on a phone, in the dark, without scripts."""

import json
import os
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import expect
from starlette.applications import Starlette

from demur.serve.web.audit.app import audits_app
from demur.serve.web.front import live
from demur.serve.web.native.app import gateway_app
from demur.serve.web.review.app import console_app
from demur.traffic.decision_counts import DecisionCounter
from tests.conftest import PAGE_MILLISECONDS, digit_rows
from tests.serve.conftest import (  # noqa: F401 - fixtures
    digits_host,
    local_host,
    make_handler,
    quickstart,
)
from tests.serve.listening import listening
from tests.system.leaving import close

pytestmark = pytest.mark.slow

PAGES = ("/", "/try/", "/live/", "/models/", "/docs", "/review/docs", "/audit/docs")
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DESK = {"viewport": {"width": 1280, "height": 900}}
SEEN = {
    "desk": DESK,
    "phone": PHONE,
    "dark": {**DESK, "color_scheme": "dark"},
    "without scripts": {**DESK, "java_script_enabled": False},
}


@pytest.fixture
def site(quickstart, local_host, database, digits):  # noqa: F811
    """The address of the whole service, after some traffic."""
    model = quickstart.models["digits"].model_copy(update={"examples": digits / "test.jsonl"})
    config = quickstart.model_copy(update={"database": database.dsn, "models": {"digits": model}})
    handler = make_handler(config, {"digits": local_host}, database)
    app = Starlette()
    app.mount("/review", console_app(config, database))
    app.mount("/audit", audits_app(config, database))
    app.mount("", gateway_app(handler, max_body_bytes=config.limits.body_bytes))
    with listening(app) as root:
        yield root


@pytest.fixture
def open_page(browser):
    """Open a page as somebody sees it; what it complains of is an error of the test."""
    contexts, complaints = [], []

    def opened(address, how="desk"):
        context = browser.new_context(**SEEN[how])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PAGE_MILLISECONDS)
        page.on("pageerror", lambda error: complaints.append(f"{address}: {error}"))
        page.on("console", lambda said: complaints.append(said.text) if "Security Policy" in said.text else None)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        close(context)
    assert complaints == []


def keep(page, name):
    """Keep a picture where somebody wants to look at them."""
    if folder := os.environ.get("DEMUR_PICTURES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def ask(page, root, inputs):
    for value in inputs:
        assert page.request.post(f"{root}/v1/predict", data={"model": "digits", "input": value}).ok


IN_EVERY_RUN = ("desk",)
"""Ways to see a page. In test_every_page.py an operator walks each of these pages on a phone in the dark and without
scripts as well, so the other ways are left to the night."""


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=() if how in IN_EVERY_RUN else pytest.mark.long) for how in SEEN]
)
def test_every_page_is_accessible_and_fits(site, open_page, digits, database, how):
    first = open_page(site, how)
    ask(first, site, [row["input"] for row in digit_rows(digits)[:30]])
    DecisionCounter(database, ["digits"]).count()
    for path in PAGES:
        page = open_page(f"{site}{path}", how)
        if path == "/live/" and how != "without scripts":
            page.wait_for_selector("#decisions tr td")
        keep(page, f"{how}{path.replace('/', '-')}")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 1, f"{path} is {wide} pixels wider than the screen"
        if how != "without scripts":  # axe is a script
            found = Axe().run(page).response["violations"]
            told = [(path, one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]
            assert told == []


def test_an_example_is_answered_by_a_click_and_says_why(site, open_page):
    page = open_page(f"{site}/try/")
    page.click("#examples button >> nth=0")
    page.wait_for_selector("#answer h2")
    said = page.inner_text("#answer")
    assert re.search(r"confidence [\d.]+ is (at or above|below)|\w+ [-\d.e]+ is (at or below|above)", said, re.I), said
    assert "Truth" in said
    assert "curl -s" in page.locator("#answer pre").first.text_content()
    keep(page, "try-answered")


def test_a_digit_is_drawn_and_asked_about(site, open_page):
    page = open_page(f"{site}/try/")
    box = page.locator("canvas.pad").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.15
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, box["y"] + box["height"] * 0.85, steps=8)
    page.mouse.up()
    page.click("#ask button.main")
    page.wait_for_selector("#answer h2")
    keep(page, "try-drawn")
    with_numbers = page.locator("#answer pre").first.text_content()
    rows = re.search(r'"input":(\[\[.*?\]\])', with_numbers)[1]
    values = json.loads(rows)
    assert [len(row) for row in values] == [8] * 8
    assert max(values[4]) > 0.6
    assert min(values[4]) == 0


def test_the_live_page_follows(site, open_page, digits, monkeypatch):
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.1)
    page = open_page(f"{site}/live/")
    page.wait_for_selector("#decisions tr")
    ask(page, site, [row["input"] for row in digit_rows(digits)[:5]])
    expect(page.locator("#decisions tr")).to_have_count(5, timeout=PAGE_MILLISECONDS)
    page.select_option("#filter select[name=action]", "review")
    expect(page.locator("#decisions .said-answer")).to_have_count(0, timeout=PAGE_MILLISECONDS)
    page.click("#pause")
    assert page.get_attribute("#pause", "aria-pressed") == "true"


def test_a_change_is_made_by_keyboard_alone(site, open_page):
    page = open_page(f"{site}/models/?model=digits")
    page.focus("summary >> nth=0")
    page.keyboard.press("Enter")
    page.focus("form[action$='/promote'] input[name=why]")
    page.keyboard.type("nothing changes: it is in force")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]")
    assert "Done, and on record" in page.inner_text("main")


def test_an_example_of_the_api_page_is_sent(site, open_page):
    page = open_page(f"{site}/docs#post-v1-predict")
    operation = page.locator("#post-v1-predict")
    operation.locator("button.main").click()
    operation.locator(".reply").wait_for(state="visible")
    assert '"confidence"' in operation.locator(".reply").inner_text()
    keep(page, "docs-sent")


def test_whoever_uses_keys_comes_to_the_content_at_once(site, open_page):
    page = open_page(site)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_without_a_script_a_form_asks_and_the_page_answers(site, open_page, tmp_path):
    page = open_page(f"{site}/try/", "without scripts")
    page.get_by_role("button", name="Example 3").click()
    page.get_by_text("Truth").wait_for()
    assert re.search(r"Confidence \d\.\d{3}", page.inner_text("#answer"))
    picture = tmp_path / "seven.png"
    Image.new("L", (8, 8)).save(picture)
    page.get_by_label("A picture").set_input_files(picture)
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("Decided by").wait_for()
    assert "Truth" not in page.inner_text("#answer")
    keep(page, "try-without-scripts")
