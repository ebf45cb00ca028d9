"""A reviewer finds labels among 670,000 by typing, in a real browser."""

from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe

from demur.serve.config.label_table import read_labels
from demur.serve.web.review.label_search import search_of
from tests.system.review_site import READY, at_case, press, until

pytestmark = pytest.mark.slow

ODD = ["A/B test", "garden hose\tFifteen metres", "\u202eesrever", "<i>slanted</i>", 'say "hi"']


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Two models with very many labels: of one several hold, of the other one."""
    path = tmp_path_factory.mktemp("labels") / "labels.txt"
    path.write_text("\n".join([*ODD, *(f"part {at}\tTitle {at}" for at in range(670_000))]), encoding="utf-8")
    search_of(read_labels(path))  # in a service it is built beside the first requests
    shared = {
        "task": {"kind": "multilabel", "labels": str(path), "sparse": True},
        "host": {"kind": "given", "gives": ["candidates"], "candidates": 100},
        "policy": {"kind": "threshold", "limit": 0.3},
    }
    several = {**shared, "scores": ["binary_entropy"], "confidence": {"score": "binary_entropy"}}
    task = {**shared["task"], "kind": "multiclass"}
    one = {**shared, "task": task, "scores": ["softmax_response"], "confidence": {"score": "softmax_response"}}
    return {"several": {"parts": several}, "one": {"parts": one}}


def find(page, text):
    """Type, and wait until the server has answered."""
    asked = urlencode({"query": page.locator("#find").input_value().lower() + text})
    with page.expect_response(lambda reply: reply.url.endswith(f"&{asked}") and reply.ok):
        page.keyboard.type(text)


def listed(page):
    return page.locator("#choices li:not([hidden]) input").evaluate_all("all => all.map(one => one.value)")


def test_candidates_come_first_and_the_others_by_typing(site, as_reviewer, parts):
    running = site(models=parts["several"])
    (case_id,) = running.put("leak")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, case_id)
    assert listed(ada) == ["part 7", "part 3", "part 12"]
    assert len(ada.content()) < 60_000
    find(ada, "garden h")
    ada.locator("#how").filter(has_text="1 label; Enter ticks garden hose.").wait_for()
    assert "Fifteen metres" in ada.locator("#choices li.first").inner_text()
    press(ada, "Enter")
    ada.get_by_role("button", name="Remove garden hose").wait_for()
    find(ada, "title 4242")
    ada.locator("#how").filter(has_text="20 labels and more").wait_for()
    press(ada, "Enter")
    ada.get_by_role("button", name="Remove part 4242").wait_for()
    find(ada, "esrev")
    assert ada.locator("#choices li.first").inner_text().strip() == "[U+202E]esrever"
    press(ada, "Escape")
    until(lambda: listed(ada) == ["part 7", "part 3", "part 12", "garden hose", "part 4242"])
    results = Axe().run(ada)
    assert results.violations_count == 0, results.generate_report()
    ada.reload()
    ada.wait_for_selector(READY)
    assert ada.locator("#ticked button").all_inner_texts() == ["garden hose", "part 4242"]
    ada.wait_for_timeout(800)  # a click right after a case came is not taken
    ada.get_by_role("button", name="Remove part 4242").click()
    until(lambda: ada.locator("#ticked button").all_inner_texts() == ["garden hose"])
    ada.locator("#find").focus()
    press(ada, "Enter")
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", ["garden hose"], None, None)]


def test_enter_waits_for_the_answer_to_what_was_typed(site, as_reviewer, parts):
    running = site(models=parts["one"])
    (case_id,) = running.put("leak")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, case_id)
    ada.route("**/v1/labels?*", lambda route: (ada.wait_for_timeout(700), route.continue_()))
    ada.keyboard.type("part 123456")
    press(ada, "Enter")
    assert running.opinions(case_id) == []
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", "part 123456", None, None)]


def test_a_label_that_is_only_like_it_is_not_taken(site, as_reviewer, parts):
    running = site(models=parts["several"])
    (case_id,) = running.put("leak", blind=True)
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, case_id)
    assert listed(ada) == []
    find(ada, "gardn hsoe")
    ada.locator("#how").filter(has_text="1 label like it; ↓ goes to them.").wait_for()
    press(ada, "Enter")
    ada.locator("#missed").filter(has_text="these labels are only like it").wait_for()
    press(ada, "ArrowDown", "Space")
    ada.get_by_role("button", name="Remove garden hose").wait_for()
    ada.locator("#find").focus()
    press(ada, "Escape")
    find(ada, "xyzzy")
    ada.locator("#how").filter(has_text="No label is like that.").wait_for()
    press(ada, "Enter")
    ada.locator("#missed").filter(has_text="no label is like that").wait_for()
    assert running.opinions(case_id) == []


def test_a_search_without_a_server_says_so_and_comes_back(site, as_reviewer, parts):
    running = site(models=parts["several"])
    (case_id,) = running.put("leak")
    ada = as_reviewer("Ada", running.url)
    press(ada, "n")
    at_case(ada, case_id)
    ada.context.set_offline(True)
    ada.keyboard.type("garden")
    ada.locator("#how").filter(has_text="Labels cannot be looked up just now").wait_for()
    ada.context.set_offline(False)
    find(ada, " hose")
    press(ada, "Enter")
    ada.get_by_role("button", name="Remove garden hose").wait_for()


def test_without_scripts(site, as_reviewer, parts):
    running = site(models=parts["several"])
    (case_id,) = running.put("leak")
    ada = as_reviewer("Ada", running.url, java_script_enabled=False)
    ada.goto(f"{running.url}/review/cases/{case_id}")
    ada.get_by_role("button", name="Claim this case").click()
    ada.get_by_label("part 12").check()
    ada.get_by_role("searchbox", name="Find a label").fill("garden")
    ada.get_by_role("searchbox", name="Find a label").press("Enter")
    ada.get_by_label("garden hose").check()
    assert ada.get_by_label("part 12").is_checked()
    ada.get_by_role("button", name="These and no others").click()
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", ["garden hose", "part 12"], None, None)]
