"""What keys and clicks do on the review pages, pressed as people press them: early, twice, held down, by mistake."""

import re
import time

import pytest
from axe_playwright_python.sync_playwright import Axe

from demur.review.item import Status
from demur.serve.web.review.service import ReviewService
from tests.system.review_site import READY, at_case, press, until

pytestmark = pytest.mark.slow

A_WHILE = 400
"""Milliseconds after which a person may well have seen a case."""
GUARDED = 0.25
"""Seconds without a press after which the page takes a key for one that is meant: KEY_MILLISECONDS in guard.js."""


def missed(page, text):
    """Wait for the sign that a press was not taken."""
    page.locator("#missed").filter(has_text=text).wait_for()


def first_case(page, case_id):
    press(page, "n")
    at_case(page, case_id)


def slowed(page, pattern, seconds):
    """Let what is asked of these addresses take so long."""
    page.route(pattern, lambda route: (page.wait_for_timeout(1000 * seconds), route.continue_()))


# ---- an empty answer is deliberate ----


@pytest.mark.parametrize(("kind", "none"), [("ticks", "0"), ("many ticks", "/0"), ("tree", "0")])
def test_enter_on_an_untouched_form_sends_nothing(site, as_reviewer, kind, none):
    running = site()
    (case_id,) = running.put(kind)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    for _ in range(3):
        press(ada, "Enter")
        missed(ada, f"Nothing is sent: no label is ticked. Does none hold? Press {none}, “None of these”.")
        ada.wait_for_timeout(A_WHILE)
    ada.get_by_role("button", name="These and no others").click()
    assert running.opinions(case_id) == []
    ada.keyboard.type(none)
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", [], None, None)]


def test_a_wrong_key_before_the_search_sends_nothing(site, as_reviewer):
    """`f` was meant for the search; then a label that is not there, and Enter."""
    running = site()
    (case_id,) = running.put("many ticks")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    ada.keyboard.type("fD0105")
    press(ada, "Enter")
    missed(ada, "no label is like that")
    press(ada, "Escape", "Enter")
    missed(ada, "no label is ticked")
    assert running.opinions(case_id) == []


@pytest.mark.parametrize(("kind", "none"), [("ticks", "0"), ("many ticks", "/0")])
def test_none_of_these_is_refused_beside_ticks(site, as_reviewer, kind, none):
    running = site()
    (case_id,) = running.put(kind)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    label = "delivery" if kind == "ticks" else "late refund"
    ada.wait_for_timeout(2 * A_WHILE)
    ada.get_by_label(label).check()
    ada.keyboard.type(none)
    missed(ada, f"Nothing is sent: {label} is ticked.")
    assert running.opinions(case_id) == []


# ---- typing goes to the search box ----


@pytest.mark.parametrize("kind", ["list", "many ticks"])
def test_every_letter_goes_to_the_search_box(site, as_reviewer, kind):
    running = site()
    (case_id,) = running.put(kind)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    find, every = ada.locator("#find"), "cgunhxzqwp0123456789"
    ada.keyboard.type(every)
    assert find.input_value() == every
    press(ada, "Escape")
    assert find.input_value() == ""
    ada.locator("#question").click()  # now nothing has the focus
    ada.keyboard.type("x2")
    assert find.input_value() == "x2"
    press(ada, "Escape", "ArrowDown")
    assert ada.evaluate("document.activeElement.name") == "label"
    ada.keyboard.type("hg")
    assert find.input_value() == "hg"
    assert running.case(case_id).claimed_by == "Ada"
    assert not ada.get_by_role("dialog").is_visible()


def test_commands_of_a_searched_form_begin_with_a_slash(site, as_reviewer):
    running = site()
    first, second, third = running.put("many ticks", "list", "many ticks")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    assert "/ for commands" in ada.locator("#find").get_attribute("placeholder")
    ada.keyboard.type("/")
    assert "/x: Cannot tell" in ada.locator("#how").inner_text()
    ada.keyboard.type("h")
    dialog = ada.get_by_role("dialog")
    dialog.wait_for()
    assert "/g" in dialog.inner_text()
    press(ada, "5")
    dialog.get_by_text("“5” was not taken: close this list first").wait_for()
    press(ada, "Escape")
    ada.keyboard.type("/c")
    ada.keyboard.type("a comment / with x")
    press(ada, "Escape")
    ada.keyboard.type("/x")
    press(ada, "2")
    at_case(ada, second)
    until(lambda: running.opinions(first) == [("Ada", None, "More than one label fits", "a comment / with x")])
    ada.keyboard.type("/u")
    at_case(ada, first)
    ada.keyboard.type("/g")
    ada.wait_for_url("**gave_back*")
    assert running.case(first).status is Status.WAITING
    assert running.case(third).status is Status.WAITING


def test_a_label_with_a_slash_is_found(site, as_reviewer):
    running = site()
    (case_id,) = running.put("many ticks")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    ada.keyboard.type("a/b")
    press(ada, "Enter")
    assert ada.locator("#ticked button").all_inner_texts() == ["A/B test"]


def test_ticked_labels_stay_in_sight_and_are_removed_by_keyboard(site, as_reviewer):
    running = site()
    (case_id,) = running.put("many ticks")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    chips = ada.locator("#ticked button")
    assert not ada.locator("#ticked").is_visible()
    for word in ("late refund", "missing login", "A/B"):
        ada.keyboard.type(word)
        press(ada, "Enter")
        ada.wait_for_timeout(A_WHILE)
    assert chips.all_inner_texts() == ["late refund", "missing login", "A/B test"]
    assert all(
        ada.evaluate("(one) => one.getBoundingClientRect().bottom < innerHeight", one)
        for one in chips.element_handles()
    )
    press(ada, "Shift+Tab", "Shift+Tab")
    assert ada.evaluate("document.activeElement.getAttribute('aria-label')") == "Remove missing login"
    press(ada, "Enter")
    assert chips.all_inner_texts() == ["late refund", "A/B test"]
    assert ada.evaluate("document.activeElement.getAttribute('aria-label')") == "Remove A/B test"
    press(ada, "Space")
    assert ada.evaluate("document.activeElement.id") == "find"
    press(ada, "Enter")
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", ["late refund"], None, None)]


def test_the_label_that_is_called_so_comes_before_those_that_contain_it(site, as_reviewer):
    running = site()
    (case_id,) = running.put("many ticks")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    ada.keyboard.type("PARCEL")
    ada.locator("#how").get_by_text("5 labels; Enter ticks parcel.").wait_for()
    press(ada, "Enter")
    assert ada.locator("#ticked button").all_inner_texts() == ["parcel"]
    ada.keyboard.type("no par")
    ada.locator("#how").get_by_text("1 label; Enter ticks no parcel.").wait_for()


def test_a_label_that_is_found_twice_stays_ticked(site, as_reviewer):
    running = site()
    (case_id,) = running.put("many ticks")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    for _ in range(2):
        ada.keyboard.type("late login")
        press(ada, "Enter")
    ada.locator("#how").get_by_text("late login was ticked already").wait_for()
    assert ada.locator("#ticked button").all_inner_texts() == ["late login"]


def test_the_keyboard_of_a_phone_does_not_cover_the_case(site, as_reviewer):
    running = site()
    (case_id,) = running.put("many ticks")
    ada = as_reviewer("Ada", running.url, has_touch=True, is_mobile=True)
    ada.get_by_role("button", name="Take the next case").tap()
    at_case(ada, case_id)
    assert ada.evaluate("document.activeElement === document.body")
    ada.wait_for_timeout(2 * A_WHILE)
    ada.get_by_label("late refund").tap()
    ada.get_by_role("button", name="These and no others").tap()
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", ["late refund"], None, None)]


# ---- presses that come too early, twice, or for ever ----


def test_a_key_that_is_held_down_answers_one_case(site, as_reviewer):
    running = site()
    ids = running.put(*["picture"] * 4)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, ids[0])
    for _ in range(60):
        ada.keyboard.down("3")  # again and again: what a keyboard repeats
        ada.wait_for_timeout(33)
    ada.keyboard.up("3")
    missed(ada, "Let go of “3”: a key that is held down counts once.")
    assert [len(running.opinions(one)) for one in ids] == [1, 0, 0, 0]


@pytest.mark.parametrize("every", [40, 120])
def test_a_key_that_is_pressed_on_and_on_answers_no_case_that_nobody_looked_at(site, as_reviewer, every):
    """As remote desktops repeat a key that is held down, and as somebody presses who does not look.

    A busy machine presses late. Each pause that may have been as long as the guard waits allows one more answer.
    """
    running = site()
    ids = running.put(*["picture"] * 20)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, ids[0])
    pauses, before = 0, time.monotonic()
    for _ in range(4000 // every):
        began = time.monotonic()
        press(ada, "3")
        pauses += time.monotonic() - before >= GUARDED
        before = began
        ada.wait_for_timeout(every)
    ada.wait_for_timeout(A_WHILE)
    ada.wait_for_selector(READY)  # the last press may have been an answer, and the next page is on its way
    ada.wait_for_timeout(A_WHILE)
    answered = sum(len(running.opinions(one)) for one in ids)
    assert 1 <= answered <= 1 + pauses
    if not pauses:
        missed(ada, "“3” was not taken")
    press(ada, "5")
    at_case(ada, ids[answered + 1])
    assert running.opinions(ids[answered]) == [("Ada", "5", None, None)]


def at_next_case(page, press_it):
    """Press something a tenth of a second after the page shows another case, by its own clock."""
    page.evaluate(
        """() => {
          const push = history.pushState;
          history.pushState = function (...given) {
            push.apply(this, given);
            history.pushState = push;
            setTimeout(() => PRESS, 100);
          };
        }""".replace("PRESS", press_it)
    )


def test_a_key_right_after_the_case_came_is_not_taken_and_said(site, as_reviewer):
    running = site()
    first, second, third = running.put(*["picture"] * 3)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    at_next_case(ada, 'document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "5", bubbles: true}))')
    press(ada, "3")
    missed(ada, "“5” was not taken")
    assert running.opinions(second) == []
    ada.wait_for_timeout(A_WHILE)
    press(ada, "5")
    at_case(ada, third)


def test_keys_while_an_answer_is_sent_are_said_here_and_on_the_next_page(site, as_reviewer):
    running = site(ahead_seconds=0)  # there is a time without a case
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    slowed(ada, "**/answer", 1.5)
    press(ada, "3")
    ada.get_by_role("status").filter(has_text="Sending").wait_for()
    for key in ("g", "q", "5"):
        press(ada, key)
        missed(ada, f"“{key}” was not taken: ")
    at_case(ada, second)
    missed(ada, "“5” was not taken: your answer before was still being sent.")
    assert running.opinions(first) == [("Ada", "3", None, None)]
    assert running.opinions(second) == []


def test_what_is_typed_while_an_answer_is_sent_is_said(site, as_reviewer):
    running = site(ahead_seconds=0)  # there is a time without a case
    first, second = running.put("many ticks", "many ticks")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    slowed(ada, "**/answer", 1)
    ada.keyboard.type("late login")
    press(ada, "Enter")
    ada.wait_for_timeout(A_WHILE)
    press(ada, "Enter")
    ada.keyboard.type("parcel")
    at_case(ada, second)
    missed(ada, "What you typed was not taken: your answer before was still being sent.")
    assert ada.locator("#find").input_value() == ""
    assert running.opinions(first) == [("Ada", ["late login"], None, None)]


@pytest.mark.parametrize("milliseconds", [0, 50, 150])
def test_n_is_taken_however_early_on_the_queue(site, as_reviewer, milliseconds):
    running = site()
    (case_id,) = running.put("picture")
    ada = as_reviewer("Ada", running.url)
    ada.add_init_script(
        """if (location.pathname.endsWith("/review/")) document.addEventListener("DOMContentLoaded", () => setTimeout(
             () => document.dispatchEvent(new KeyboardEvent("keydown", { key: "n", bubbles: true })), MILLISECONDS))
        """.replace("MILLISECONDS", str(milliseconds))
    )
    ada.goto(f"{running.url}/review/")
    at_case(ada, case_id)


def test_what_is_pressed_before_the_scripts_are_there_is_not_lost(site, as_reviewer):
    running = site()
    first, second, third = running.put("picture", "many ticks", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    slowed(ada, "**/keys.js", 1)
    ada.goto(f"{running.url}/review/cases/{first}", wait_until="commit")
    ada.wait_for_selector("#answer")
    press(ada, "3")
    missed(ada, "“3” was not taken")
    assert running.opinions(first) == []
    running.desk.claim("Ada", second)
    ada.goto(f"{running.url}/review/cases/{second}", wait_until="commit")
    ada.wait_for_selector("#answer")
    ada.keyboard.type("late")
    ada.locator("#how").get_by_text("4 labels").wait_for()
    assert ada.locator("#find").input_value() == "late"
    running.desk.release("Ada", first, running.case(first).token)
    running.desk.release("Ada", second, running.case(second).token)
    ada.goto(f"{running.url}/review/", wait_until="commit")
    ada.wait_for_selector("button.main")
    press(ada, "n")
    at_case(ada, third)


def test_a_double_click_answers_one_case(site, as_reviewer):
    running = site()
    first, second, third = running.put(*["picture"] * 3)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    ada.wait_for_timeout(2 * A_WHILE)
    click = 'new MouseEvent("click", {bubbles: true, cancelable: true, detail: 1})'
    at_next_case(ada, f"document.querySelector(\"button[name=label][value='3']\").dispatchEvent({click})")
    ada.get_by_role("button", name="3", exact=True).click()
    missed(ada, "Your click was not taken")
    assert running.opinions(second) == []
    ada.wait_for_timeout(2 * A_WHILE)
    ada.get_by_role("button", name="3", exact=True).dblclick()
    at_case(ada, third)
    ada.wait_for_timeout(A_WHILE)
    assert [len(running.opinions(one)) for one in (first, second, third)] == [1, 1, 0]


def test_enter_held_or_pressed_twice_in_the_search_box_ticks_and_does_not_send(site, as_reviewer):
    running = site()
    (case_id,) = running.put("many ticks")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    ada.keyboard.type("late login")
    for _ in range(30):
        ada.keyboard.down("Enter")
        ada.wait_for_timeout(33)
    ada.keyboard.up("Enter")
    missed(ada, "Let go of “Enter”")
    ada.keyboard.type("late parcel")
    press(ada, "Enter", "Enter")
    missed(ada, "“Enter” was not taken: it had only just ticked a label.")
    assert running.opinions(case_id) == []
    assert ada.locator("#ticked button").all_inner_texts() == ["late parcel", "late login"]


def test_a_key_that_does_nothing_says_so(site, as_reviewer):
    running = site()
    (case_id,) = running.put("picture")
    ada = as_reviewer("Ada", running.url)
    press(ada, "y")
    missed(ada, "“y” does nothing here; “h” lists all keys.")
    first_case(ada, case_id)
    press(ada, "u")
    missed(ada, "“u” does nothing here")
    press(ada, "h")
    ada.get_by_role("dialog").wait_for()
    press(ada, "3")
    ada.get_by_role("dialog").get_by_text("“3” was not taken").wait_for()
    press(ada, "h")
    assert running.opinions(case_id) == []


def test_label_keys_are_not_taken_while_reasons_are_open(site, as_reviewer):
    """1 to 4 are reasons then; 7 would have been a label, and 3 either."""
    running = site()
    (case_id,) = running.put("picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    press(ada, "x", "7")
    missed(ada, "“7” was not taken: “Cannot tell” is open. Esc closes it.")
    assert running.opinions(case_id) == []
    press(ada, "Escape", "7")
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", "7", None, None)]


# ---- other ways to be at another case than one thinks ----


def test_the_back_button_shows_the_case_as_it_is_now(site, as_reviewer):
    running = site()
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    press(ada, "3")
    at_case(ada, second)
    ada.go_back()
    ada.get_by_text("You said 3. It counts in a moment.").wait_for()
    press(ada, "5")
    missed(ada, "“5” does nothing here")
    assert running.opinions(first) == [("Ada", "3", None, None)]


def test_a_second_tab_cannot_answer_what_the_first_has_answered(site, as_reviewer):
    running = site(ahead_seconds=0)
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    other = ada.context.new_page()
    other.goto(f"{running.url}/review/cases/{first}")
    other.wait_for_selector(READY)
    press(ada, "3")
    at_case(ada, second)
    press(other, "5")
    other.locator("#lost").filter(has_text="just answered by Ada").wait_for()
    press(other, "7")
    missed(other, "“7” was not taken")
    assert running.opinions(first) == [("Ada", "3", None, None)]
    assert running.opinions(second) == []


def test_undo_frees_the_case_that_was_taken_meanwhile(site, as_reviewer):
    running = site(ahead_seconds=0)
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    press(ada, "3")
    at_case(ada, second)
    assert running.case(second).claimed_by == "Ada"
    press(ada, "u")
    at_case(ada, first)
    assert running.case(first).claimed_by == "Ada"
    until(lambda: running.case(second).status is Status.WAITING or running.case(second).ahead)
    bob = as_reviewer("Bob", running.url)
    first_case(bob, second)


def test_a_case_that_was_given_back_does_not_come_next(site, as_reviewer):
    running = site()
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    press(ada, "g")
    ada.get_by_text("others get it at once, and you only after 1 h").wait_for()
    press(ada, "n")
    at_case(ada, second)
    press(ada, "3")
    ada.get_by_text("Nothing else is free for you right now. You gave 1 case back; it comes to you again in").wait_for()
    bob = as_reviewer("Bob", running.url)
    first_case(bob, first)
    press(bob, "g")
    bob.wait_for_url("**gave_back*")
    press(ada, "b")
    at_case(ada, first)
    assert running.case(first).claimed_by == "Ada"


@pytest.mark.parametrize("method", ["release", "undo"])
def test_a_slow_reply_to_letting_go_does_not_take_the_case_again(method, site, as_reviewer, monkeypatch):
    """The page says every second that somebody is there; a case that was just let go is not one that was lost."""
    running = site(lease_seconds=6)
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    if method == "undo":
        press(ada, "3")
        at_case(ada, second)
        ada.get_by_text("It is on its way").wait_for(state="detached")
    do, claims = getattr(ReviewService, method), []
    monkeypatch.setattr(ReviewService, method, lambda *given, **named: (do(*given, **named), time.sleep(4))[0])
    ada.on("request", lambda request: claims.append(request.url) if request.url.endswith("/claim") else None)
    press(ada, "g" if method == "release" else "u")
    if method == "release":
        press(ada, "3")
        missed(ada, "“3” was not taken: this case is being given back.")
        ada.wait_for_url("**gave_back*")
        assert running.case(first).status is Status.WAITING
    else:
        ada.wait_for_url(re.compile(f"/cases/{first}"))
        let_go = running.case(second)
        assert let_go.status is Status.WAITING or let_go.ahead  # the page of the first asks for the next one ahead
    assert claims == []


def test_the_model_that_was_chosen_stays_chosen_after_giving_back(site, as_reviewer):
    running = site()
    first, _, third = running.put("picture", "text", "picture")
    ada = as_reviewer("Ada", running.url)
    ada.locator("select[name=model]").select_option("digits")
    ada.wait_for_url("**model=digits**")
    first_case(ada, first)
    press(ada, "g")
    ada.wait_for_url("**gave_back*")
    first_case(ada, third)


def test_a_case_that_was_lost_can_be_left_by_key(site, as_reviewer):
    running = site()
    (case_id,) = running.put("picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    running.desk.withdraw("Lea", case_id, "a double")
    press(ada, "3")
    ada.locator("#lost").filter(has_text="It has ended").wait_for()
    press(ada, "3")
    missed(ada, "“3” was not taken: the case was not yours at that time.")
    press(ada, "q")
    ada.wait_for_url(re.compile("/review/$"))


# ---- what was typed ----


def test_what_lies_below_an_unticked_label_is_gone_from_the_draft(site, as_reviewer):
    running = site()
    (case_id,) = running.put("tree")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    press(ada, "3", "6", "2")  # A0101 and B01; then A01 no longer, and so not A0101
    ada.reload()
    ada.wait_for_selector(READY)
    ticked = ada.locator("#choices input:checked").evaluate_all("all => all.map((one) => one.value)")
    assert ticked == ["A", "B", "B01"]


def test_what_was_unticked_does_not_come_back(site, as_reviewer):
    """The server still has the tick, and this browser knows that it is gone."""
    running = site()
    (case_id,) = running.put("ticks")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, case_id)
    press(ada, "2")
    until(lambda: (running.desk.see("Ada", case_id).draft or {}).get("label") == ["delivery"])
    press(ada, "2")
    ada.reload()
    ada.wait_for_selector(READY)
    assert ada.locator("#choices input:checked").count() == 0
    press(ada, "Enter")
    missed(ada, "no label is ticked")


def test_without_a_script_nothing_is_sent_by_accident_and_no_comment_is_lost(site, as_reviewer):
    running = site()
    first, second, third = running.put("ticks", "many ticks", "picture")
    ada = as_reviewer("Ada", running.url, java_script_enabled=False)
    ada.get_by_role("button", name="Take the next case").click()
    ada.locator(".comment summary").click()
    ada.get_by_label("Comment", exact=True).fill("long thought about")
    ada.get_by_label("billing").focus()
    press(ada, "Enter")  # which sends a form
    ada.get_by_text("No label is ticked: tick those that hold, or press 'None of these'").wait_for()
    assert running.opinions(first) == []
    ada.get_by_role("link", name="Back to the case").click()
    assert ada.get_by_label("Comment", exact=True).input_value() == "long thought about"
    ada.get_by_label("billing").check()
    ada.get_by_role("button", name="None of these").click()
    ada.get_by_text("Billing is ticked, and 'None of these' was pressed").wait_for()
    ada.get_by_role("link", name="Back to the case").click()
    assert ada.get_by_label("billing").is_checked()
    ada.get_by_label("billing").uncheck()
    ada.get_by_role("button", name="None of these").click()
    ada.wait_for_url(re.compile(str(second)))
    ada.locator(".comment summary").click()
    ada.get_by_label("Comment", exact=True).fill("all grey")
    ada.locator("#cannot summary").click()
    ada.get_by_role("button", name="It is not legible").click()
    ada.wait_for_url(re.compile(str(third)))
    ada.locator(".comment summary").click()
    ada.get_by_label("Comment", exact=True).fill("see the edge")
    ada.locator("#cannot summary").click()
    ada.get_by_label("Another reason").fill("torn")
    press(ada, "Enter")  # a line in the field, and no answer
    ada.get_by_role("button", name="Send", exact=True).click()
    ada.wait_for_url("**/review/?after=*")
    assert [running.opinions(one) for one in (first, second, third)] == [
        [("Ada", [], None, "long thought about")],
        [("Ada", None, "It is not legible", "all grey")],
        [("Ada", None, "torn", "see the edge")],
    ]
    assert not ada.locator("kbd:visible").count()


def test_a_case_is_given_back_and_an_answer_taken_back_without_a_script(site, as_reviewer):
    running = site()
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url, java_script_enabled=False)
    ada.get_by_role("button", name="Take the next case").click()
    ada.get_by_role("button", name="3", exact=True).click()
    ada.wait_for_url(re.compile(str(second)))
    ada.get_by_role("button", name="Undo").click()
    ada.wait_for_url(re.compile(str(first)))
    assert running.case(second).status is Status.WAITING
    ada.get_by_role("button", name="Give it back").click()
    ada.get_by_role("button", name="Take the next case").click()
    ada.wait_for_url(re.compile(str(second)))
    ada.get_by_role("button", name="Give it back").click()
    ada.get_by_role("button", name="Take the next case").click()
    ada.get_by_text("You gave 2 cases back; the first comes to you again in").wait_for()
    ada.get_by_role("button", name="Take one now").click()
    ada.wait_for_url(re.compile(str(first)))


# ---- for everybody ----


def test_each_state_is_accessible(site, as_reviewer):
    """With signs, chips, an open list of keys and pixels: by day and by night no rule of axe-core is broken."""
    running = site()
    tags, digit, left = running.put("many ticks", "picture", "picture")
    ada = as_reviewer("Ada", running.url)
    found = {}

    def check(state):
        for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            ada.emulate_media(color_scheme=scheme)
            problems = Axe().run(ada, options={"resultTypes": ["violations"], **rules}).response["violations"]
            found[state, scheme] = [f"{one['id']}: {node['html']}" for one in problems for node in one["nodes"]]

    press(ada, "y")
    check("a key that does nothing")
    first_case(ada, tags)
    press(ada, "Enter")
    check("nothing is ticked")
    for label in ("late login", "parcel"):
        ada.keyboard.type(label)
        press(ada, "Enter")
    check("chips")
    ada.keyboard.type("/")
    check("commands")
    ada.keyboard.type("h")
    press(ada, "5")
    check("all keys")
    press(ada, "Escape")
    ada.keyboard.type("/g")
    ada.wait_for_url("**gave_back*")
    check("given back")
    first_case(ada, digit)
    press(ada, "p")
    check("pixels")
    press(ada, "3")
    at_case(ada, left)
    press(ada, "4")
    ada.get_by_text("Nothing else is free for you").wait_for()
    check("only what was given back is left")
    assert {state: problems for state, problems in found.items() if problems} == {}
