"""Take the pictures of the documents from a running service.

    python docs/images/take.py [URL]      (http://127.0.0.1:8000 by default)

Start `make run` first, and then do what README.md does, so that the pages have something to show: `demur demo --only
clean`, `demur audit --model digits --every-outcome-known`, `demur demo`, and the audit once more. Needs Playwright and
a Chromium.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
SIZE = {"width": 1280, "height": 800}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def take(page: Page, name: str) -> None:
    page.wait_for_load_state("networkidle")
    page.screenshot(path=HERE / f"{name}.png", clip={"x": 0, "y": 0, **SIZE})
    print(f"{name}.png")


def audits(page: Page, url: str) -> None:
    """The first report, of clean digits; why the last one says broken, and what now; and the monitors."""
    reports = page.request.get(f"{url}/audit/v1/reports?model=digits").json()["reports"]
    page.goto(f"{url}/audit/reports/{reports[-1]['id']}")
    page.locator("#verdict").wait_for()
    page.screenshot(
        path=HERE / "report.png", clip={"x": 0, "y": 0, "width": SIZE["width"], "height": 1100}, full_page=True
    )
    print("report.png")
    page.goto(f"{url}/audit/reports/{reports[0]['id']}")
    page.screenshot(path=HERE / "report-why.png", clip={"x": 0, "y": 0, **SIZE, "height": 1560}, full_page=True)
    print("report-why.png")
    page.goto(f"{url}/audit/monitors")
    page.screenshot(path=HERE / "monitors-shift.png", full_page=True)
    print("monitors-shift.png")


def pages(page: Page, url: str) -> None:
    """Visit each page as its people do."""
    page.goto(f"{url}/")
    take(page, "front")

    page.goto(f"{url}/try/?model=digits")
    page.click("#examples button >> nth=4")
    page.wait_for_selector("#answer h2")
    take(page, "try")

    page.goto(f"{url}/live/")
    page.wait_for_selector("#decisions tr")
    page.screenshot(path=HERE / "live.png", clip={"x": 0, "y": 0, **SIZE})  # it never stops asking
    print("live.png")

    page.goto(f"{url}/models/?model=digits")
    take(page, "models")

    page.goto(f"{url}/review/hello")
    page.fill("#name", "Ada")
    page.click("button.main")
    page.goto(f"{url}/review/?model=digits")
    take(page, "review-queue")
    page.click("form[action$='/next'] button")
    page.wait_for_selector("body[data-ready]")
    take(page, "review")
    page.click("text=Give it back")
    page.goto(f"{url}/review/overview")
    take(page, "overview")


def main() -> None:
    url = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    chromium = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, device_scale_factor=1)
        pages(page, url)
        audits(page, url)
        browser.close()


if __name__ == "__main__":
    main()
