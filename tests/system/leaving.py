"""Closing what a test has opened in a browser."""

import asyncio
from contextlib import suppress

from playwright.sync_api import BrowserContext, Error

CLOSE_SECONDS = 20.0


def close(context: BrowserContext) -> None:
    """Close all pages of a context, where nothing takes them elsewhere any more. Chromium may never say that it has
    closed a page that was about to go to another one. Playwright waits for that without end, so it is asked below its
    face for tests; what is left goes with the browser."""
    for page in context.pages:
        with suppress(Error):  # the page has gone, or is about to
            session = context.new_cdp_session(page)
            session.send("Emulation.setScriptExecutionDisabled", {"value": True})
            session.send("Page.stopLoading")
    with suppress(TimeoutError):
        context._sync(asyncio.wait_for(context._impl_obj.close(reason=None), CLOSE_SECONDS))
