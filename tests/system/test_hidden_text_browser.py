"""Text that hides or turns other text, and languages that run from right to left, in a real browser."""

import socket
import threading

import pytest
import uvicorn
from starlette.applications import Starlette

from demur.review import queue
from demur.serve.database.opening import open_database
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import PAGE_MILLISECONDS, entry, new_case
from tests.serve.stored_markup import config
from tests.system.leaving import close

pytestmark = pytest.mark.slow

HEBREW = "שלום, עולם!"
ARABIC = "مرحبا بالعالم (١٢٣)."
FAMILY = "👩🏽‍🔬👨‍👩‍👧"
PERSIAN = "می‌خواهم"
TURNED = "approve \u202eton\u202c do\u200bit \U000e0041"


@pytest.fixture
def site(dsn):
    database = open_database(dsn)
    inputs = (HEBREW, ARABIC, FAMILY, PERSIAN, TURNED)
    entries = [entry(model="mood", input=text, group=f"{HEBREW} 7") for text in inputs]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
    app = Starlette()
    app.mount("/review", console_app(config(), database))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    serving.start()
    root = f"http://127.0.0.1:{listening.getsockname()[1]}/review"
    yield root, dict(zip(inputs, (one.record.id for one in entries), strict=True))
    server.should_exit = True
    serving.join()
    database.close()


@pytest.fixture
def page(browser, site):
    opened = browser.new_context(viewport={"width": 1200, "height": 800}).new_page()
    opened.set_default_timeout(PAGE_MILLISECONDS)
    opened.goto(f"{site[0]}/")
    opened.fill("#name", "ada")
    opened.keyboard.press("Enter")
    opened.get_by_role("link", name="ada").wait_for()
    yield opened
    close(opened.context)


PLACE_OF = """
([selector, text]) => {
  const node = [...document.querySelectorAll(selector)].flatMap(one => [...one.childNodes])
    .find(one => one.nodeType === Node.TEXT_NODE && one.data.includes(text));
  const at = node.data.indexOf(text), range = document.createRange();
  range.setStart(node, at); range.setEnd(node, at + text.length);
  const {left, right} = range.getBoundingClientRect();
  return [left, right];
}
"""
"""From where to where a piece of text stands on the screen."""


def place_of(page, selector, text):
    return page.evaluate(PLACE_OF, [selector, text])


@pytest.mark.parametrize(("text", "first", "last"), [(HEBREW, "שלום", "!"), (ARABIC, "مرحبا", ".")])
def test_what_runs_from_right_to_left_does(page, site, text, first, last):
    root, cases = site
    page.goto(f"{root}/cases/{cases[text]}")
    assert page.locator(".input .words").inner_text() == text
    left, right = page.locator(".input .words").evaluate(
        "one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right]"
    )
    begins, ends = place_of(page, ".input .words", first), place_of(page, ".input .words", last)
    assert begins[1] == pytest.approx(right, abs=2)  # at the right side
    assert left < ends[0] < begins[0]  # and what comes last stands to its left


def test_it_turns_nothing_beside_it(page, site):
    root, cases = site
    page.goto(f"{root}/cases/{cases[HEBREW]}")
    about = page.locator("p.about")
    assert f"mood · {HEBREW} 7 · " in about.inner_text()
    model, age = place_of(page, "p.about", "mood"), place_of(page, "p.about", " old")
    group = place_of(page, "p.about bdi", HEBREW)
    assert model[1] <= group[0] + 1
    assert group[1] <= age[0] + 1
    seven, greeting = place_of(page, "p.about bdi", "7"), place_of(page, "p.about bdi", "שלום")
    assert seven[1] <= greeting[0]  # within the group from right to left


@pytest.mark.parametrize("text", [FAMILY, PERSIAN])
def test_what_needs_joiners_keeps_them(page, site, text):
    root, cases = site
    page.goto(f"{root}/cases/{cases[text]}")
    assert page.locator(".input .words").inner_text() == text


def test_what_turns_or_hides_is_seen(page, site):
    root, cases = site
    page.goto(f"{root}/cases/{cases[TURNED]}")
    shown = page.locator(".input .words")
    assert shown.inner_text() == "approve [U+202E]ton[U+202C] do[U+200B]it [U+E0041]"
    letters = [place_of(page, ".input .words", letter)[0] for letter in ("approve", "[U+202E]", "ton", "do", "it")]
    assert letters == sorted(letters)
    page.goto(f"{root}/")
    assert "[U+202E]ton" in page.locator("table").inner_text()


def test_a_group_is_chosen_as_it_is(page, site):
    root, cases = site
    page.goto(f"{root}/")
    page.get_by_label("Group").select_option(f"{HEBREW} 7")
    page.wait_for_url("**group=*")
    assert page.locator("tbody tr").count() == len(cases)
