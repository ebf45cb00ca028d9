"""Every page that each kind of person can come to by links, walked from the front door: by keyboard alone, on a phone,
in the dark, without scripts. What is found wanting is told by its address."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page
from starlette.applications import Starlette

from demur.serve.access import needs
from demur.serve.access.sessions import LoggedInPerson, begin_session
from demur.serve.config.access import AccessConfig, Scope
from demur.serve.database.opening import open_database
from demur.serve.deployments.guarded import guarded
from demur.serve.web.audit.app import audits_app
from demur.serve.web.native.app import gateway_app
from demur.serve.web.review.app import console_app
from demur.serve.web.review.service import ReviewService
from demur.traffic.decision_counts import DecisionCounter
from tests.conftest import PAGE_MILLISECONDS, CleanSchema, digit_rows
from tests.serve.access.doors import keeper_of
from tests.serve.conftest import (  # noqa: F401 - fixtures
    LocalHost,
    digits_host,
    make_handler,
    quickstart,
)
from tests.serve.listening import listening
from tests.serve.web.audit.stored import a_fortnight
from tests.system.test_audit_browser import keep_real
from tests.system.test_front_browser import keep

pytestmark = [pytest.mark.slow, pytest.mark.long]

PEOPLE = {
    "reviewer": (Scope.REVIEW,),
    "lead": (Scope.REVIEW, Scope.AUDIT),
    "auditor": (Scope.AUDIT,),
    "operator": (Scope.ADMIN,),
    "stranger": (),
}
DOCUMENTS = {"/docs", "/review/docs", "/audit/docs"}
REVIEWER_SEES = {"/", "/review/", "/review/overview"}
AUDITOR_SEES = {"/", "/audit/", "/audit/monitors", "/audit/control", "/live/", "/models/"}
SEES = {
    "reviewer": REVIEWER_SEES,
    "lead": REVIEWER_SEES | AUDITOR_SEES,
    "auditor": AUDITOR_SEES,
    "operator": {"/try/", "/review/access-log", *DOCUMENTS, *REVIEWER_SEES, *AUDITOR_SEES},
    "stranger": {"/", "/review/login?back", "/docs"},
}
"""What each comes to at least."""

DESK = {"viewport": {"width": 1280, "height": 900}}
WAYS = {
    "at a desk": DESK,
    "on a phone in the dark": {
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
        "is_mobile": True,
        "color_scheme": "dark",
    },
    "without scripts": {**DESK, "java_script_enabled": False},
}


def walks(ways: Iterable[str]) -> list[Any]:
    """Each person in each way. An operator comes to every page, so what others see of them in other ways than at a desk
    is left to the night; and a lead sees what a reviewer and an auditor see."""
    return [
        pytest.param(who, way, marks=() if _in_every_run(who, way) else pytest.mark.long)
        for who in PEOPLE
        for way in ways
    ]


def _in_every_run(who: str, way: str) -> bool:
    return who in ("operator", "stranger") or (who != "lead" and way == "at a desk")


MOST_PAGES = 70
"""A walk that finds more pages than these for one person goes in circles."""

ONE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|digits-[0-9a-f]{16}|(?<=/)\d+(?=/|$)")
FILES = re.compile(
    r"\.(html|csv|svg|png|parquet|jsonl?|ya?ml|css|js)$|/(rows|document|figures|tables|export)(/|$)|^/metrics"
)

FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]"
REACHABLE = f"""() => [...document.querySelectorAll({FOCUSABLE!r})]
    .filter(one => one.tabIndex >= 0 && !one.disabled && one.checkVisibility({{visibilityProperty: true}})
        && !one.closest('details:not([open]) > :not(summary)') && !one.closest('[inert], dialog:not([open])'))
    .filter(one => one.type !== 'radio')
    .map((one, n) => {{ one.dataset.walked = n; return one.outerHTML.slice(0, 120) }})"""
FOCUSED = """() => {
    const one = document.activeElement, style = getComputedStyle(one)
    const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== 'none'
    return [one.dataset?.walked ?? null, ring || one === document.body, one.outerHTML.slice(0, 120)]
}"""


@dataclass
class Walk:
    """One person's way through the pages in one browser."""

    page: Page
    root: str
    who: str
    way: str
    seen: dict[str, str] = field(default_factory=dict)
    """The first address of each kind of page."""

    wrong: list[str] = field(default_factory=list)

    def go(self) -> None:
        waiting = ["/"]
        while waiting:
            address = waiting.pop(0)
            kind = kind_of(address)
            if kind in self.seen:
                continue
            self.seen[kind] = address
            assert len(self.seen) <= MOST_PAGES, sorted(self.seen)
            waiting += self.look(address)

    def look(self, address: str) -> list[str]:
        """Look at one page; return where its links lead."""
        there = self.page.goto(urljoin(self.root, address))
        if there.status >= 400:
            self.wrong.append(f"{address}: status {there.status}, although a link leads there")
            return []
        if not there.headers.get("content-type", "").startswith("text/html"):
            return []
        keep(self.page, f"{self.who} {self.way}{kind_of(address)}".replace("/", "-"))
        if not self.page.title() or self.page.locator("h1").count() != 1:
            self.wrong.append(f"{address}: title {self.page.title()!r}, {self.page.locator('h1').count()} h1")
        needed, shown = self.page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        if needed > shown + 1:
            self.wrong.append(f"{address}: {needed - shown} pixels wider than the screen")
        if self.way != "without scripts":
            for one in Axe().run(self.page, options={"resultTypes": ["violations"]}).response["violations"]:
                self.wrong += [f"{address}: {one['id']}: {node['html'][:160]}" for node in one["nodes"][:3]]
        links = self.page.eval_on_selector_all("a[href]", "all => all.map(one => one.getAttribute('href'))")
        return [path for link in links if (path := self._inside(address, link))]

    def _inside(self, address: str, link: str) -> str | None:
        parts = urlsplit(urljoin(urljoin(self.root, address), link))
        if f"{parts.scheme}://{parts.netloc}" != self.root or FILES.search(parts.path):
            return None
        return parts.path + (f"?{parts.query}" if parts.query else "")


def kind_of(address: str) -> str:
    """Pages of one kind have one name: ids and the values of queries are left out."""
    parts = urlsplit(address)
    names = sorted({name for name, _ in parse_qsl(parts.query) if not ONE.search(name)})
    return ONE.sub("*", parts.path) + (f"?{'&'.join(names)}" if names else "")


@pytest.fixture(scope="module")
def database(postgres, clean_schemas):
    """One database for all walks: they only look."""
    schema = clean_schemas.pop() if clean_schemas else CleanSchema(postgres)
    opened = open_database(schema.dsn)
    yield opened
    opened.close()
    if schema.emptied():
        clean_schemas.append(schema)


@pytest.fixture(scope="module")
def site(quickstart, digits_host, database, digits):  # noqa: F811
    """The whole service behind its doors, after some traffic, reviews and audits: its address, and a way to log in."""
    model = quickstart.models["digits"].model_copy(update={"examples": digits / "test.jsonl", "spot_check": 0.3})
    access = AccessConfig.model_validate({"mode": "keys"})
    config = quickstart.model_copy(update={"database": database.dsn, "models": {"digits": model}, "access": access})
    handler = make_handler(config, {"digits": LocalHost(digits_host)}, database)
    some_traffic(config, handler, database, digits)
    keeper = keeper_of(database)
    app = Starlette()
    for place, inside, needed in (
        ("/review", console_app(config, database), needs.REVIEW),
        ("/audit", audits_app(config, database), needs.AUDIT),
        ("", gateway_app(handler, max_body_bytes=config.limits.body_bytes, needs=needs.GATEWAY), needs.GATEWAY),
    ):
        app.mount(place, guarded(inside, config, keeper, needed, has_pages=True))
    with listening(app) as root:

        def session_of(scopes) -> str:
            person = LoggedInPerson(name="ada", scopes=scopes)
            with database.transaction() as connection:
                until = datetime.now(UTC) + timedelta(hours=1)
                token = begin_session(connection, person, by="code", idle_seconds=3600, expires_at=until)
            keeper.ring.look()
            return token.text

        yield root, access.cookie, session_of


def some_traffic(config, handler, database, digits) -> None:
    """Predictions, some of them with a case; two answers; reports of a fortnight, one of them whole."""
    from starlette.testclient import TestClient

    with TestClient(gateway_app(handler, max_body_bytes=config.limits.body_bytes)) as client:
        for row in digit_rows(digits)[:40]:
            told = client.post("/v1/predict", json={"model": "digits", "input": row["input"], "group": "scanner"})
            assert told.status_code == 200
    desk = ReviewService(config, database)
    for said in ({"label": "7"}, {"label": "1", "comment": "A thin one."}, {"label": None, "reason": "unreadable"}):
        claim = desk.claim_next("lin")
        desk.answer("lin", claim.case_id, claim.token, **said)
    with database.transaction() as connection:
        connection.execute("update review_items set settles_at = now() where settles_at > now()")
    desk.sweep()
    a_fortnight(database)
    keep_real(database)
    DecisionCounter(database, ["digits"]).count()


@pytest.mark.parametrize(("who", "way"), walks(WAYS))
def test_each_page_is_open_sound_and_fits(site, browser, who, way):
    root, cookie, session_of = site
    complaints = []
    with browser.new_context(**WAYS[way]) as context:
        if PEOPLE[who]:
            context.add_cookies([{"name": cookie, "value": session_of(PEOPLE[who]), "url": root}])
        page = context.new_page()
        page.set_default_timeout(PAGE_MILLISECONDS)
        page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
        page.on("console", lambda said: complaints.append(f"{page.url}: {said.text}") if said.type == "error" else None)
        walk = Walk(page, root, who, way)
        walk.go()
    wrong = walk.wrong + complaints
    assert not wrong, "\n".join(wrong)
    assert SEES[who] <= set(walk.seen)


@pytest.mark.parametrize(("who", "way"), walks(["by keyboard"]))
def test_each_page_is_used_by_keyboard_alone(site, browser, who, way):
    """Tab comes to everything that can be used, and shows where it is."""
    root, cookie, session_of = site
    lost = []
    with browser.new_context(**DESK) as context:
        if PEOPLE[who]:
            context.add_cookies([{"name": cookie, "value": session_of(PEOPLE[who]), "url": root}])
        page = context.new_page()
        page.set_default_timeout(PAGE_MILLISECONDS)
        walk = Walk(page, root, who, "without scripts")
        walk.go()
        for address in walk.seen.values():
            page.goto(urljoin(root, address))
            if "walked" not in page.content() and page.locator("h1").count() == 0:
                continue
            everything = page.evaluate(REACHABLE)
            reached = set()
            page.evaluate("document.activeElement.blur()")
            for _ in range(len(everything) + 40):
                page.keyboard.press("Tab")
                number, ring, html = page.evaluate(FOCUSED)
                if number is not None:
                    if not ring:
                        lost.append(f"{address}: no ring around {html}")
                    if int(number) in reached and len(reached) >= len(everything):
                        break
                    reached.add(int(number))
            lost += [f"{address}: Tab never comes to {everything[n]}" for n in set(range(len(everything))) - reached]
    assert not lost, "\n".join(lost)
