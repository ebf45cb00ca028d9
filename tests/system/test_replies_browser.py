"""Replies of language models in a real browser: corrected, decided between, and looked at."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from demur.review import cases
from demur.traffic import log
from tests.system.review_site import KINDS, at_case, press, until

pytestmark = pytest.mark.slow

REPLY = "Dear Ms Ng,\n\nyour parcel was sent on 3 May and will come on **5 May**."
ASKED = {"messages": [{"role": "user", "content": "When does my parcel come?"}]}
LETTER = {
    "model": "writer",
    "input": ASKED,
    "prediction": "right",
    "prediction_set": ["right"],
    "reply": {"text": REPLY, "finish_reason": "stop"},
}


@pytest.fixture
def letters(monkeypatch):
    """Kinds of cases that these tests put into the queue."""

    def letters(**kinds):
        for name, reply in kinds.items():
            monkeypatch.setitem(KINDS, name, {**LETTER, "reply": {**LETTER["reply"], **reply}})

    letters(letter={})
    return letters


def outcome(running, case_id):
    with running.database.transaction() as connection:
        return next(iter(log.outcomes_of(connection, case_id)), None)


def faults(page):
    """What axe-core finds, by day and by night."""
    found = []
    for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        page.emulate_media(color_scheme=scheme)
        problems = Axe().run(page, options={"resultTypes": ["violations"], **rules}).response["violations"]
        found += [f"{scheme}, {one['id']}: {node['html']}" for one in problems for node in one["nodes"]]
    page.emulate_media(color_scheme="light")
    return found


def seat(as_reviewer, running, name, case_id):
    page = as_reviewer(name, running.url)
    press(page, "n")
    at_case(page, case_id)
    return page


def test_a_reply_is_corrected_by_keyboard_and_somebody_decides(site, letters, as_reviewer):
    running = site(undo_seconds=0.2, reviewed={"writer": {"codes": ["not true", "rude"]}})
    (case_id,) = running.put("letter", opinions_wanted=2)
    ada = seat(as_reviewer, running, "Ada", case_id)
    press(ada, "e")
    ada.locator("#text:focus").wait_for()
    assert ada.locator("#text").input_value() == REPLY
    press(ada, "Control+Enter")
    assert "still that of the model" in ada.locator("#missed").inner_text()
    ada.locator("#text").fill(REPLY.replace("3 May", "4 May"))
    press(ada, "Tab", "Tab", "Space", "Escape", "1")
    assert "it is wrong" in ada.locator("#missed").inner_text()
    assert faults(ada) == []
    press(ada, "2")
    ada.wait_for_url("**/review/?after=*")
    until(lambda: running.case(case_id).status == "waiting")
    bob = seat(as_reviewer, running, "Bob", case_id)
    press(bob, "e")
    bob.locator("#text").fill(REPLY.replace("Dear", "Hello"))
    press(bob, "Control+Enter")
    bob.wait_for_url("**/review/?after=*")
    until(lambda: running.case(case_id).status == "adjudication")
    cleo = seat(as_reviewer, running, "Cleo", case_id)
    assert cleo.locator(".diff del").all_text_contents() == [" [left out: 3] ", " [left out: Dear] "]
    assert cleo.locator(".diff ins").all_text_contents() == [" [put in: 4] ", " [put in: Hello] "]
    assert cleo.locator(".others .chip").all_inner_texts() == ["rude"]
    assert faults(cleo) == []
    cleo.get_by_role("button", name="Take this text").first.click()
    assert cleo.locator("#text").input_value() == REPLY.replace("3 May", "4 May")
    press(cleo, "Control+Enter")
    cleo.wait_for_url("**/review/?after=*")
    until(lambda: running.case(case_id).status == "resolved")
    assert outcome(running, case_id).text == REPLY.replace("3 May", "4 May")
    cleo.goto(f"{running.url}/review/cases/{case_id}")
    assert faults(cleo) == []


def test_what_was_typed_survives_a_reload_and_an_undo(site, letters, as_reviewer):
    running = site(undo_seconds=60)
    (case_id,) = running.put("letter")
    ada = seat(as_reviewer, running, "Ada", case_id)
    press(ada, "e")
    ada.locator("#text").fill("It comes on 6 May.")
    ada.reload()
    at_case(ada, case_id)
    assert ada.locator("#text").input_value() == "It comes on 6 May."
    assert ada.locator("#correct").get_attribute("open") is not None
    ada.locator("#text").focus()
    press(ada, "Control+Enter")
    ada.wait_for_url("**/review/?after=*")
    ada.get_by_role("button", name="Undo").click()
    at_case(ada, case_id)
    assert ada.locator("#text").input_value() == "It comes on 6 May."


MARKED = """## Your parcel

It was sent on **3 May**. See [how we send](https://evil.example/how), [this](javascript:alert(1)) and ![a map](http://evil.example/x.png).

<img src="http://evil.example/y.png" onerror="alert(1)"><script>document.title = "taken"</script>

```html
<b onclick="alert(1)">x</b>
```

| a | b |
|:-:|---|
| 1 | 2 |

1. one
2. &#x202e;two
"""
TOKENS = {"lengths": [len("## Your"), len(" parcel"), len("\n\nIt")], "logprobs": [-0.01, -1.2, -0.02]}


def test_a_reply_in_markdown_is_rendered_and_does_nothing(site, letters, as_reviewer):
    letters(letter={"text": MARKED, "tokens": TOKENS, "reasoning": "Was it 3 May? Wait. " * 99})
    running = site()
    (case_id,) = running.put("letter")
    ada = as_reviewer("Ada", running.url)
    asked, said = [], []
    ada.on("request", lambda request: asked.append(request.url))
    ada.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    ada.on("console", lambda message: said.append(message.text))
    press(ada, "n")
    at_case(ada, case_id)
    shown = ada.locator(".rendered")
    assert shown.locator("script, img, h1, h2, h3, [style], [onerror], [onclick]").count() == 0
    assert shown.locator("pre code").inner_text().strip() == '<b onclick="alert(1)">x</b>'
    assert "monospace" in shown.locator("code").first.evaluate("it => getComputedStyle(it).fontFamily")
    assert "[U+202E]two" in shown.inner_text()
    (link,) = shown.locator("a").all()
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    assert not ada.locator(".as-written").is_visible()
    assert faults(ada) == []
    press(ada, "m")
    assert ada.locator(".as-written").is_visible()
    assert not shown.is_visible()
    assert ada.locator(".as-written .weak").all_text_contents() == ["parcel [30%] "]
    assert faults(ada) == []
    press(ada, "m")
    assert shown.is_visible()
    assert ada.locator(".weakest").inner_text() == "Least sure of: parcel 30%."
    press(ada, "t")
    assert ada.locator("#trace .words").is_visible()
    assert "495 words" in ada.locator("#trace summary").inner_text()
    assert faults(ada) == []
    press(ada, "t")
    assert not ada.locator("#trace .words").is_visible()
    assert [url for url in asked if not url.startswith((running.url, "data:"))] == []
    assert said == []
    press(ada, "1")
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(case_id) == [("Ada", "right", None, None)]


def test_who_answers_blindly_sees_neither_the_trace_nor_the_marks_before(site, letters, as_reviewer):
    letters(letter={"text": MARKED, "tokens": TOKENS, "reasoning": "Was it 3 May?"})
    running = site(undo_seconds=0)
    (case_id,) = running.put("letter", blind=True)
    ada = seat(as_reviewer, running, "Ada", case_id)
    assert ada.locator(".weak, .weakest, #trace").count() == 0
    seen = ada.request.get(f"{running.url}/review/v1/cases/{case_id}").json()
    assert (seen["reply"], seen["reasoning"]) == (MARKED, None)
    press(ada, "2")
    ada.wait_for_url("**/review/?after=*")
    ada.goto(f"{running.url}/review/cases/{case_id}")
    assert ada.locator("#trace").count() == 1
    assert ada.locator(".weakest").count() == 1
    assert ada.request.get(f"{running.url}/review/v1/cases/{case_id}").json()["reasoning"] == "Was it 3 May?"


def test_a_plain_reply_without_log_probabilities_is_its_text(site, letters, as_reviewer):
    letters(letter={"text": "It comes on 5 May."})
    running = site()
    (case_id,) = running.put("letter")
    ada = seat(as_reviewer, running, "Ada", case_id)
    assert ada.locator(".rendered, #raw, .weak, .weakest, #trace").count() == 0
    assert ada.locator(".as-written").inner_text() == "It comes on 5 May."


def test_the_editor_of_the_next_case_begins_with_the_next_reply(site, letters, as_reviewer):
    letters(one={"text": "It is **41**."}, two={"text": "It is 7.", "reasoning": "four and three"})
    running = site()
    first, second = running.put("one", "two")
    ada = seat(as_reviewer, running, "Ada", first)
    press(ada, "e")
    ada.locator("#text").fill("It is **42**.")
    press(ada, "Control+Enter")
    at_case(ada, second)
    assert ada.locator("#text").input_value() == "It is 7."
    assert ada.locator("#correct").get_attribute("open") is None
    assert ada.locator("#raw").count() == 0
    press(ada, "t")
    assert ada.locator("#trace .words").inner_text() == "four and three"
    until(lambda: running.opinions(first) == [("Ada", "wrong", None, None)])
    press(ada, "e")
    ada.locator("#text:focus").wait_for()
    ada.locator("#text").fill("It is 8.")
    press(ada, "Control+Enter")
    until(lambda: running.opinions(second) == [("Ada", "wrong", None, None)])
    with running.database.transaction() as connection:
        found = cases.opinions_of(connection, [first, second])
    assert [said[0].text for said in found.values()] == ["It is **42**.", "It is 8."]
