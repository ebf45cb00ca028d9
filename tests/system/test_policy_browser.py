"""Every page of all three applications in a real browser: what was stored as markup does nothing, and no page needs
what its policy forbids."""

import socket
import threading

import pytest
import uvicorn
from starlette.applications import Starlette

from demur.serve.database.opening import open_database
from demur.serve.web.audit.app import audits_app
from demur.serve.web.native.app import gateway_app
from demur.serve.web.review.app import console_app
from tests.conftest import PAGE_MILLISECONDS
from tests.serve.conftest import make_handler
from tests.serve.stored_markup import FIRED, config, evil, places, store
from tests.system.leaving import close

pytestmark = pytest.mark.slow


@pytest.fixture
def site(dsn):
    """The address of all three applications, and those of their pages."""
    database = open_database(dsn)
    addresses = places(*store(database))
    app = Starlette()
    app.mount("/review", console_app(config(), database))
    app.mount("/audit", audits_app(config(), database))
    app.mount("", gateway_app(make_handler(config(), {}, database), max_body_bytes=100_000))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", addresses
    server.should_exit = True
    serving.join()
    database.close()


@pytest.fixture
def page(browser):
    """A page of somebody who reviews, and what it complained of."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    opened, complaints = context.new_page(), []
    opened.set_default_timeout(PAGE_MILLISECONDS)
    opened.on("pageerror", lambda error: complaints.append(f"{opened.url}: {error}"))
    opened.on(
        "console",
        lambda said: complaints.append(f"{opened.url}: {said.text}") if "ontent Security Policy" in said.text else None,
    )
    opened.on("dialog", lambda dialog: complaints.append(f"{opened.url}: a dialog"))
    yield opened, complaints
    close(context)


def test_stored_markup_does_nothing_and_no_policy_is_broken(site, page):
    root, addresses = site
    opened, complaints = page
    opened.goto(f"{root}/review/")
    opened.fill("#name", "ada")
    opened.keyboard.press("Enter")
    opened.get_by_role("link", name="ada").wait_for()
    for address in [*addresses, "/docs"]:
        opened.goto(f"{root}{address}", wait_until="load")
        if address.endswith("/docs"):
            opened.locator(".operation").first.wait_for()
        assert opened.evaluate(f"window.{FIRED}") is None, address
        assert opened.evaluate("document.querySelectorAll('[onerror], img[src=x]').length") == 0, address
        assert not complaints, complaints


def test_a_policy_that_is_broken_is_seen(site, page):
    """So that the test before can fail."""
    root, _ = site
    opened, complaints = page
    opened.goto(f"{root}/docs")
    opened.evaluate("markup => document.body.insertAdjacentHTML('beforeend', markup)", evil("probe"))
    opened.wait_for_timeout(300)
    assert opened.evaluate(f"window.{FIRED}") is None
    assert complaints
