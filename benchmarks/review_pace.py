"""How soon the next case is there after a key, with so much delay in the network: `python -m benchmarks.review_pace`.

A real browser at real pages over a real PostgreSQL. Each request is held up before it is sent and its reply before it
is read, by half of the delay each, through the browser's own emulation. Time is taken in the page, from the key's own
time stamp to the frame in which the next case is drawn, and to the moment when it takes a key."""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

from demur.serve.database.postgres import EmbeddedPostgres
from tests.system.review_site import READY, Site

WATCH = """
window.times = [];
addEventListener("keydown", (event) => {
  if (event.key !== "3") return;
  const before = document.getElementById("answer")?.dataset.case, at = event.timeStamp;
  let drawn = null;
  const look = () => {
    const now = document.getElementById("answer")?.dataset.case;
    if (drawn === null && now && now !== before) drawn = performance.now() - at;
    const ready = document.body.hasAttribute("data-ready");
    if (drawn !== null && ready) return window.times.push([drawn, performance.now() - at]);
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}, true);
"""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

out = Console()


def measured(page: Page, site: Site, cases: int, delay: float, think: float) -> tuple[list[float], list[float], float]:
    """Milliseconds until the next case is drawn and until it takes a key, and the requests for each case."""
    site.put(*["picture"] * (cases + 3))  # type: ignore[no-untyped-call]
    page.goto(f"{site.url}/review/")
    page.wait_for_selector(READY)
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    slow = {"offline": False, "latency": delay, "downloadThroughput": -1, "uploadThroughput": -1}
    network.send("Network.emulateNetworkConditions", slow)
    page.keyboard.press("n")
    page.wait_for_url("**/cases/**")
    page.wait_for_selector(READY)
    page.wait_for_timeout(1000 * think + 2 * delay)
    page.evaluate(WATCH)
    asked: list[str] = []
    page.on("request", lambda request: None if request.url.startswith("data:") else asked.append(request.url))
    for at in range(cases):
        page.keyboard.press("3")
        while page.evaluate("window.times.length") <= at:
            page.wait_for_timeout(20)
        page.wait_for_timeout(1000 * think)
    times = page.evaluate("window.times")
    return [one[0] for one in times], [one[1] for one in times], len(asked) / cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--think", type=float, default=0.8, help="seconds for which somebody looks at a case")
    told = parser.parse_args()
    table = Table("network delay", "next case drawn: median", "p95", "takes a key: median", "requests a case")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with (
        tempfile.TemporaryDirectory(prefix="demur-") as folder,
        EmbeddedPostgres(Path(folder)) as postgres,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for delay in (0, 100, 200):
            with Site(postgres.dsn, undo_seconds=5) as site:  # type: ignore[no-untyped-call]
                page = browser.new_page(viewport={"width": 1280, "height": 900})
                page.goto(f"{site.url}/review/")
                page.keyboard.type(f"Ada {delay}")
                page.keyboard.press("Enter")
                page.wait_for_selector(READY)
                drawn, ready, asked = measured(page, site, told.cases, delay, told.think)
                high = sorted(drawn)[int(0.95 * (len(drawn) - 1))]
                row = (statistics.median(drawn), high, statistics.median(ready))
                table.add_row(f"{delay} ms", *(f"{one:.0f} ms" for one in row), f"{asked:.1f}")
                page.context.close()
        browser.close()
    out.print(table)


if __name__ == "__main__":
    main()
