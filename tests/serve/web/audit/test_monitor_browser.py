"""The page of the monitors in a real browser: alive with a script, whole without, readable by everybody."""

import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from fastapi import FastAPI
from playwright.sync_api import expect, sync_playwright

from demur.audit.monitors import feeding
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.monitor import MonitorConfig
from demur.serve.jobs.monitor_watch import MonitorWatch
from demur.serve.web.audit.app import audits_app
from tests.audit.monitors.traffic_made import SPOT_CHECK, Service
from tests.serve.web.openai.test_chat import listening

pytestmark = pytest.mark.slow

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=next(filter(None, map(shutil.which, BROWSERS))), args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def running(quickstart, database):
    """The auditors' application at an address, a service of digits that is watched, and the job that does it."""
    monitor = MonitorConfig(max_risk=0.1, on_alarm="hold_all", reference=200, window=200)
    digits = quickstart.models["digits"].model_copy(update={"spot_check": SPOT_CHECK, "monitor": monitor})
    config = quickstart.model_copy(update={"models": {"digits": digits}})
    store = ArtifactStore(config.artifacts)
    service = Service(database, seed=3, model="digits", artifact=store.name_in_force("digits"))
    outer = FastAPI()
    outer.mount("/audit", audits_app(config, database))
    with listening(outer) as url:
        yield f"{url}/audit/monitors", service, MonitorWatch(config, store, database)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_everybody_can_read_it(browser, running, width, scheme):
    url, service, watch = running
    service.serve(1500)
    service.serve(1000, wrong=0.5, shift=-1.0)
    watch.look()
    page = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme).new_page()
    page.goto(url)
    for details in page.locator("summary").all():
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("svg").count() == 3
    found = Axe().run(page).response["violations"]
    assert not found, [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]


def test_it_refreshes_itself_and_leaves_whoever_writes_alone(browser, running, database):
    url, service, watch = running
    service.serve(1500)
    watch.look()
    page = browser.new_context().new_page()
    trouble = []
    page.on("pageerror", lambda error: trouble.append(error))
    page.clock.install()
    page.goto(url)
    expect(page.locator("#live")).to_have_text("It refreshes itself.")
    expect(page.get_by_text("No alarm is on.")).to_be_visible()
    service.serve(1000, wrong=0.5)
    watch.look()
    page.clock.run_for(11_000)
    expect(page.get_by_text("It holds all answers.")).to_be_visible()
    why = page.get_by_label("Why it is safe to go on as before").first
    why.fill("the camera is")
    with database.transaction() as connection:
        (alarm,) = feeding.alarms.in_force(connection)
        feeding.undo(connection, alarm.id, by="bob", why="mended")
    page.clock.run_for(60_000)
    expect(why).to_have_value("the camera is")
    why.blur()
    page.clock.run_for(11_000)
    expect(page.get_by_text("No alarm is on.")).to_be_visible()
    expect(page.get_by_text("undone by bob: mended")).to_be_visible()
    assert not trouble


def test_without_a_script_it_is_whole(browser, running):
    url, service, watch = running
    service.serve(1500, wrong=0.5)
    watch.look()
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(url)
    alarm = page.locator(".alarm").filter(has_text="More answers are wrong than was promised")
    alarm.get_by_label("Your name").fill("Ada")
    alarm.get_by_label("Why it is safe to go on as before").fill("the camera is mended")
    alarm.get_by_role("button").click()
    expect(page.get_by_text("undone by Ada: the camera is mended")).to_be_visible()
