"""People work the queue in a real browser: at a real service, and at pages that are set up as each test needs them."""

import re
import time

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe

from demur.serve.web.review.answering import REASONS
from tests.conftest import digit_rows
from tests.system.review_site import KINDS, READY, at_case, press, until

pytestmark = pytest.mark.slow

HELD_DIGITS = 10


@pytest.fixture(scope="module")
def held(service, digits):
    """Held digits: their ids and right labels, in the order in which they are worked."""
    found = []
    rows = digit_rows(digits) + digit_rows(digits, "calibration")
    with httpx.Client(base_url=service.url, timeout=60) as client:
        for start in range(0, len(rows), 100):
            part = rows[start : start + 100]
            items = [{"model": "digits", "input": row["input"]} for row in part]
            answers = client.post("/v1/predict/batch", json={"items": items}).json()["results"]
            found += [
                (answer["prediction"]["id"], row["label"])
                for row, answer in zip(part, answers, strict=True)
                if answer["prediction"]["action"] == "review"
            ]
            if len(found) >= HELD_DIGITS:
                order = client.get("/review/v1/cases", headers={"X-Demur-Reviewer": "tests"}).json()["cases"]
                place = {case["id"]: at for at, case in enumerate(order)}
                return sorted(found, key=lambda one: place[one[0]])[:HELD_DIGITS]
    raise AssertionError(f"only {len(found)} digits were held")


def test_ten_held_digits_are_worked_by_keyboard_alone(service, held, as_reviewer, http):
    begun = time.monotonic()
    ada = as_reviewer("Ada", service.url)
    press(ada, "n")
    for record_id, label in held:
        at_case(ada, record_id)
        assert ada.locator(".exact").evaluate("image => image.naturalWidth") == 8
        assert "sure" in ada.locator(".model").inner_text()
        press(ada, label)
    ada.wait_for_url(lambda url: held[-1][0] in url and "after" in url)
    print(f"ten digits by keyboard: {time.monotonic() - begun:.1f} s")
    first = held[0][0]
    until(lambda: http.get(f"/v1/predictions/{first}").json()["outcome"])
    told = http.get(f"/v1/predictions/{first}").json()
    assert told["review"]["status"] == "resolved"
    assert (told["outcome"]["label"], told["outcome"]["author"]) == (held[0][1], "Ada")
    for record_id, label in held[1:]:
        seen = http.get(f"/review/v1/cases/{record_id}", headers={"X-Demur-Reviewer": "Ada"}).json()
        assert seen["status"] in ("answered", "resolved")
        assert label in str(seen)


def test_the_api_documentation_is_drawn_without_a_network(service, browser):
    page = browser.new_page()
    page.goto(f"{service.url}/docs")
    page.get_by_text("/v1/predict/batch", exact=True).wait_for()
    page.goto(f"{service.url}/review/docs")
    page.get_by_text("/review/v1/cases/next", exact=True).wait_for()
    page.close()


def test_ten_blind_cases_are_worked_by_keyboard_alone(site, as_reviewer):
    running = site()
    ids = running.put(*["picture"] * 10, blind=True)
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    for at, case_id in enumerate(ids):
        at_case(ada, case_id)
        work = ada.locator(".work").inner_text()
        assert "sure" not in work
        assert "cannot be ruled out" not in work
        assert ada.locator(".chip").count() == 0
        assert ada.locator(".last").count() == (at > 0)
        if at:
            ada.locator(".last").filter(has_text="The model had said 7, rather unsure: 61%.").wait_for()
        press(ada, "3")
    ada.wait_for_url("**/review/?after=*")
    assert "You today: 10 cases" in ada.locator(".progress").inner_text()
    assert [running.opinions(one) for one in ids] == [[("Ada", "3", None, None)]] * 10


def test_a_disagreement_is_resolved_by_a_third_person(site, as_reviewer):
    running = site(undo_seconds=0.1)
    (case_id,) = running.put("picture", opinions_wanted=2)
    for name, key in (("Ada", "3"), ("Bob", "5")):
        page = as_reviewer(name, running.url)
        press(page, "n")
        at_case(page, case_id)
        assert "others have said" not in page.locator(".work").inner_text()
        press(page, key)
        page.wait_for_url("**/review/?after=*")
        until(lambda: running.case(case_id).status not in ("claimed", "answered"))
        page.wait_for_selector(READY)
        press(page, "n")  # to nobody twice
        page.get_by_text("Nothing is free for you right now").wait_for()
    assert running.case(case_id).status == "adjudication"
    cleo = as_reviewer("Cleo", running.url)
    press(cleo, "n")
    at_case(cleo, case_id)
    assert cleo.locator(".others li").all_inner_texts() == ["3", "5"]
    assert "Ada" not in cleo.locator("main").inner_text()
    press(cleo, "5")
    cleo.wait_for_url("**/review/?after=*")
    cleo.wait_for_selector(READY)
    until(lambda: running.case(case_id).status == "resolved")
    assert (running.case(case_id).label, running.case(case_id).resolution) == ("5", "adjudicated")
    cleo.goto(f"{running.url}/review/cases/{case_id}")
    assert "Decided after others disagreed" in cleo.locator(".ended").inner_text()
    assert "Ada" in cleo.locator("main").inner_text()


@pytest.mark.parametrize("has_next", [True, False], ids=["the next case is here", "the next case comes with the reply"])
def test_a_lost_connection_loses_no_answer(site, as_reviewer, has_next):
    running = site()
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    if not has_next:
        ada.route("**/in-place/ahead", lambda route: route.abort())
    ends = "requestfinished" if has_next else "requestfailed"
    with ada.expect_event(ends, lambda request: request.url.endswith("/in-place/ahead")):
        press(ada, "n")
        at_case(ada, first)
    ada.unroute("**/in-place/ahead")
    ada.wait_for_timeout(300)  # the page reads the reply
    ada.context.set_offline(True)
    press(ada, "c")
    ada.keyboard.type("a flat top: 7? c n g u x")
    press(ada, "Escape", "3")
    trouble = f"{'Your answer before is not' if has_next else 'Not'} sent yet. No connection: trying again."
    ada.get_by_role("status").filter(has_text=re.compile(f"^{trouble}$")).wait_for()
    assert running.opinions(first) == []
    seen = []
    ada.on("request", lambda request: seen.append(request.url.rsplit("/", 1)[1]))
    ada.on("response", lambda response: seen.append(f"reply to {response.url.rsplit('/', 1)[1]}"))
    ada.route("**/answer", lambda route: (time.sleep(0.5), route.continue_()))  # after what else is tried again
    ada.context.set_offline(False)
    at_case(ada, second)
    until(lambda: ada.wait_for_timeout(50) or "reply to answer" in seen)
    assert running.opinions(first) == [("Ada", "3", None, "a flat top: 7? c n g u x")]
    assert "ahead" not in seen[: seen.index("reply to answer")]  # the reply brings the next case: the two would race


def test_an_answer_whose_receipt_is_lost_counts_once(site, as_reviewer):
    running = site()
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, first)
    lost = []

    def lose(route):
        if len(lost) < 2:
            lost.append(route.fetch().status)
            route.abort()
        else:
            route.continue_()

    ada.route("**/answer", lose)
    press(ada, "3")
    at_case(ada, second)
    for _ in range(200):  # the page tries again after a second; `lose` is called while this waits
        if len(lost) < 2:
            ada.wait_for_timeout(100)
    assert lost == [200, 200]
    assert running.opinions(first) == [("Ada", "3", None, None)]


def test_what_was_typed_outlives_the_claim(site, as_reviewer):
    """The lease runs out while the connection is cut; somebody else takes the case, and gives it back."""
    running = site()
    (case_id,) = running.put("ticks")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, case_id)
    ada.context.set_offline(True)
    press(ada, "2", "3", "c")
    ada.keyboard.type("half of it")
    press(ada, "Escape")
    ada.get_by_role("status").filter(has_text="No connection. What you type is kept here.").wait_for()
    with running.database.transaction() as connection:
        connection.execute("update review_items set lease_until = clock_timestamp() where id = %s", (case_id,))
    claim = running.desk.claim("Bob", case_id)
    ada.context.set_offline(False)
    lost = ada.locator("#lost")
    lost.filter(has_text="This case is with Bob").wait_for()
    assert "Kept, and not sent: delivery, returns; half of it." in lost.inner_text()
    running.desk.release("Bob", case_id, claim.token)
    ada.get_by_role("status").filter(has_text="You had chosen delivery, returns; it was not sent yet").wait_for()
    assert ada.get_by_label("Comment", exact=True).input_value() == "half of it"
    ada.wait_for_selector(READY)
    press(ada, "Enter")
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", ["delivery", "returns"], None, "half of it")]


def test_what_was_typed_stays_in_sight_where_the_case_has_ended(site, as_reviewer):
    running = site()
    (case_id,) = running.put("ticks")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, case_id)
    press(ada, "2")
    running.desk.withdraw("Lea", case_id, "a double")
    press(ada, "Enter")
    lost = ada.locator("#lost")
    lost.filter(has_text="It has ended, and waits for nobody any more.").wait_for()
    assert "Kept, and not sent: delivery" in lost.inner_text()
    assert running.opinions(case_id) == []


def test_a_draft_is_there_in_another_browser(site, as_reviewer):
    running = site()
    (case_id,) = running.put("tree")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, case_id)
    press(ada, "3", "c")
    ada.keyboard.type("at home")
    until(lambda: (running.desk.see("Ada", case_id).draft or {}).get("comment") == "at home")
    ada.context.close()
    elsewhere = as_reviewer("Ada", running.url)
    press(elsewhere, "n")  # the case is still theirs
    at_case(elsewhere, case_id)
    assert elsewhere.get_by_label("Comment", exact=True).input_value() == "at home"
    press(elsewhere, "Enter")
    elsewhere.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", ["A0101", "A", "A01"], None, "at home")]


def test_an_open_page_keeps_its_case_and_a_closed_one_does_not(site, as_reviewer):
    running = site(lease_seconds=5)  # a busy machine may be a second late
    (case_id,) = running.put("picture")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, case_id)
    for _ in range(13):
        ada.wait_for_timeout(500)
        ada.keyboard.press("Shift")  # there is somebody
        assert running.case(case_id).claimed_by == "Ada"
    ada.context.close()
    until(lambda: running.case(case_id).status == "waiting")


def test_an_answer_is_taken_back(site, as_reviewer):
    running = site(undo_seconds=8)
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, first)
    press(ada, "3")
    at_case(ada, second)
    assert 0 < int(ada.locator(".countdown").inner_text().split()[0]) <= 8
    press(ada, "u")
    at_case(ada, first)
    assert running.opinions(first) == []
    press(ada, "8")
    at_case(ada, second)
    until(lambda: running.opinions(first) == [("Ada", "8", None, None)])
    ada.locator("[data-undo]").wait_for(state="detached")
    until(lambda: running.case(first).status == "resolved")
    assert running.case(first).label == "8"


def test_many_labels_are_found_by_typing(site, as_reviewer):
    running = site()
    first, second, third = running.put("list", "list", "picture")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, first)
    ada.keyboard.type("inv brok")  # the field has the focus already
    assert [one.strip() for one in ada.locator("#choices li:visible").all_inner_texts()] == ["broken invoice"]
    press(ada, "Enter")
    at_case(ada, second)
    until(lambda: running.opinions(first) == [("Ada", "broken invoice", None, None)])
    ada.keyboard.type("late")
    press(ada, "ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "Enter")
    at_case(ada, third)
    until(lambda: running.opinions(second) == [("Ada", "late refund", None, None)])


def test_a_child_brings_its_ancestors_and_a_parent_takes_its_descendants_away(site, as_reviewer):
    running = site()
    (case_id,) = running.put("tree")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, case_id)
    ticked = ada.locator("#choices input:checked")

    def labels():
        return ticked.evaluate_all("inputs => inputs.map((input) => input.value)")

    assert ada.locator("#choices input").evaluate_all("all => all.map((one) => one.value)") == [
        *("A", "A01", "A0101", "A0102", "B", "B01")
    ]
    press(ada, "4", "6")
    assert labels() == ["A", "A01", "A0102", "B", "B01"]
    press(ada, "2")
    assert labels() == ["A", "B", "B01"]
    assert ada.locator("#chosen").inner_text() == "3 ticked"
    press(ada, "Enter")
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", ["B01", "A", "B"], None, None)]


def test_commands_have_keys(site, as_reviewer):
    running = site()
    first, second, third = running.put("large picture", "question", "picture")
    ada = as_reviewer("Ada", running.url)
    press(ada, "h")
    ada.get_by_role("dialog").wait_for()
    press(ada, "Escape", "n")
    at_case(ada, first)
    picture = ada.locator("#picture.many")  # it has been loaded
    width = picture.bounding_box()["width"]
    press(ada, "z")
    until(lambda: picture.bounding_box()["width"] > 1.5 * width)
    press(ada, "h", "3")  # while keys are listed none of them answers
    assert "Cannot tell: say why" in ada.get_by_role("dialog").inner_text()
    press(ada, "h", "x", "2")
    at_case(ada, second)
    until(lambda: running.opinions(first) == [("Ada", None, "More than one label fits", None)])
    press(ada, "x", *["Tab"] * len(REASONS))
    ada.keyboard.type("c is missing")
    press(ada, "Enter")
    at_case(ada, third)
    until(lambda: running.opinions(second) == [("Ada", None, "c is missing", None)])
    press(ada, "g")
    ada.wait_for_url(f"**/review/?gave_back={third}")
    assert running.case(third).status == "waiting"


def test_everything_works_without_a_script(site, as_reviewer):
    running = site()
    first, second, third, fourth = running.put("picture", "ticks", "list", "text")
    ada = as_reviewer("Ada", running.url, java_script_enabled=False)
    ada.get_by_role("button", name="Take the next case").click()
    ada.get_by_text("Comment").first.click()
    ada.get_by_label("Comment", exact=True).fill("clear")
    ada.get_by_role("button", name="3", exact=True).click()
    assert str(second) in ada.url
    ada.get_by_role("button", name="Undo").click()
    assert str(first) in ada.url
    ada.get_by_role("button", name="8", exact=True).click()
    ada.get_by_label("billing").check()
    ada.get_by_label("returns").check()
    ada.get_by_role("button", name="These and no others").click()
    ada.get_by_label("late refund").check()
    ada.get_by_role("button", name="Send", exact=True).first.click()
    ada.get_by_text("Cannot tell").first.click()
    ada.get_by_label("Another reason").fill("torn")
    ada.get_by_role("button", name="Send", exact=True).click()
    assert "/review/?after=" in ada.url
    assert [running.opinions(one) for one in (first, second, third, fourth)] == [
        [("Ada", "8", None, None)],
        [("Ada", ["billing", "returns"], None, None)],
        [("Ada", "late refund", None, None)],
        [("Ada", None, "torn", None)],
    ]


@pytest.fixture
def pages_of_all_kinds(site):
    """Pages, and the address of each kind of page below them."""
    running = site(undo_seconds=0.1)
    ids = dict(zip(KINDS, running.put(*KINDS), strict=True))
    for case_id in ids.values():
        running.desk.claim("Ada", case_id)
    (done, other, decided) = running.put("text", "picture", "text")
    running.desk.answer("Bob", done, running.desk.claim("Bob", done).token, label="bad", comment="broken")
    running.desk.answer("Bob", decided, running.desk.claim("Bob", decided).token, label=None, reason="torn")
    until(lambda: running.case(done).status == "resolved" and running.case(decided).status == "adjudication")
    running.desk.claim("Ada", decided)
    places = {kind: f"cases/{case_id}" for kind, case_id in ids.items()}
    places |= {"queue": "", "last answer": f"?show=done&after={done}", "free": f"cases/{other}"}
    places |= {"ended": f"cases/{done}", "to decide": f"cases/{decided}", "hello": "hello", "trouble": "cases/nothing"}
    return running, places


def test_pages_are_accessible(pages_of_all_kinds, as_reviewer):
    """By day all rules of axe-core hold, by night those about colours once more."""
    running, places = pages_of_all_kinds
    ada = as_reviewer("Ada", running.url)
    found = {}
    for name, path in places.items():
        ada.goto(f"{running.url}/review/{path}")
        if ada.locator("#cannot").count():
            press(ada, "x")
        for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            ada.emulate_media(color_scheme=scheme)
            problems = Axe().run(ada, options={"resultTypes": ["violations"], **rules}).response["violations"]
            found[name, scheme] = [f"{one['id']}: {node['html']}" for one in problems for node in one["nodes"]]
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_the_check_of_accessibility_finds_something(browser):
    page = browser.new_page()
    page.set_content("<html><body><img src='x.png'><p style='color:#ccc'>pale</p></body></html>")
    found = {one["id"] for one in Axe().run(page).response["violations"]}
    assert {"image-alt", "color-contrast", "html-has-lang"} <= found
    page.close()


WIDTHS = {"phone": (360, 700), "zoom to 200%": (600, 400)}  # of 1,200 pixels, zoomed, 600 are left


def test_pages_are_wide_enough(pages_of_all_kinds, as_reviewer):
    running, places = pages_of_all_kinds
    ada = as_reviewer("Ada", running.url)
    wide = {}
    for name, path in places.items():
        ada.goto(f"{running.url}/review/{path}")
        for how, (width, height) in WIDTHS.items():
            ada.set_viewport_size({"width": width, "height": height})
            needed = ada.evaluate("document.documentElement.scrollWidth")
            ends = ada.locator("#answer button:visible").evaluate_all(
                "all => all.flatMap((one) => [one.getBoundingClientRect().left, one.getBoundingClientRect().right])"
            )
            if needed > width or any(not 0 <= end <= width for end in ends):
                wide[name, how] = needed
    assert wide == {}
