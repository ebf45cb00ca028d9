"""A person works the queue in a real browser."""

import os
import shutil

import pytest

from tests.conftest import digit_rows

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import Error, sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(executable_path=found, args=FLAGS)
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no browser: install chromium, or `playwright install chromium` ({error.message[:80]})")
        yield opened
        opened.close()


@pytest.fixture
def as_reviewer(browser, service):
    """A page for a person who has given a name; fails if the page complains."""
    contexts, complaints = [], []

    def sit_down(name):
        context = browser.new_context(viewport={"width": 1200, "height": 800})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{service.url}/review/")
        page.get_by_label("Name").fill(name)
        page.get_by_role("button", name="Go to the queue").click()
        return page

    yield sit_down
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def held(service, digits):
    """Two held digits: their ids and right labels."""
    import httpx

    found = []
    with httpx.Client(base_url=service.url, timeout=30) as client:
        for row in digit_rows(digits):
            answer = client.post("/v1/predict", json={"model": "digits", "input": row["input"]}).json()
            if answer["action"] == "review":
                found.append((answer["id"], row["label"]))
            if len(found) == 2:
                return found
    raise AssertionError("nothing was held")


def test_a_held_digit_is_answered_and_the_answer_comes_back(service, held, as_reviewer, http):
    (record_id, label), (other_id, _) = held
    ada, bob = as_reviewer("Ada"), as_reviewer("Bob")

    ada.get_by_role("button", name="Take the next case").click()
    assert ada.url == f"{service.url}/review/cases/{record_id}"
    picture = ada.locator("img")
    assert picture.evaluate("image => image.naturalWidth") == 8
    for shown in ("Prediction", "Could also be", "Confidence"):
        assert shown in ada.locator("dl").inner_text()

    bob.goto(f"{service.url}/review/cases/{record_id}")
    assert "Ada is looking at this case" in bob.locator("main").inner_text()
    assert bob.get_by_role("button", name="Claim this case").count() == 0

    ada.get_by_role("button", name=label, exact=True).click()
    assert ada.url == f"{service.url}/review/cases/{other_id}"  # the next one came by itself
    seen = http.get(f"/v1/predictions/{record_id}").json()
    assert seen["review"]["status"] == "resolved"
    assert (seen["outcome"]["label"], seen["outcome"]["author"]) == (label, "Ada")

    ada.get_by_role("button", name="Give it back").click()
    bob.goto(f"{service.url}/review/cases/{other_id}")
    bob.get_by_role("button", name="Claim this case").click()
    assert http.get(f"/v1/predictions/{other_id}").json()["review"]["status"] == "claimed"


def test_a_phone_is_wide_enough(service, held, as_reviewer):
    page = as_reviewer("Cleo")
    page.set_viewport_size({"width": 360, "height": 700})
    for path in ("", f"cases/{held[1][0]}"):
        page.goto(f"{service.url}/review/{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_api_documentation_is_drawn_without_a_network(service, as_reviewer):
    page = as_reviewer("Dora")
    page.goto(f"{service.url}/docs")
    page.get_by_text("/v1/predict/batch").wait_for()
