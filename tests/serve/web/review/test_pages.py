"""The review pages without a browser: what they show, and what they refuse."""

import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from demur.review import cases as review_cases
from demur.review import queue
from demur.review.item import Kind
from demur.serve.config.file import Config
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import entry, new_case, resolve
from tests.serve.contract.reading.png_files import png, url


@pytest.fixture
def cases(database):
    """Three held digits, oldest first."""
    start = datetime.now(UTC) - timedelta(minutes=5)
    entries = [
        entry(
            model="digits",
            created_at=start + timedelta(minutes=i),
            input=[[0.0, 1.0], [0.5, 0.0]],
            group=f"<script>alert({i})</script>",
        )
        for i in range(3)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(e) for e in entries])
    return [str(e.record.id) for e in entries]


def at_once(config):
    """The same, with answers that count at once."""
    return config.model_copy(update={"review": config.review.model_copy(update={"undo_seconds": 0})})


@pytest.fixture
def visit(quickstart, database):
    """Open the pages as somebody."""

    def visit(name=None):
        client = TestClient(console_app(at_once(quickstart), database), root_path="/review")
        if name:
            client.post("/review/hello", data={"name": name})
        return client

    return visit


def claim(client, case):
    return token_in(client.post(f"/review/cases/{case}/claim").text)


def labels_in(page):
    return re.findall(r'name="label" value="([^"]*)"', page)


def token_in(page):
    return page.split('data-token="')[1].split('"')[0]


def test_a_visitor_is_asked_for_a_name_and_led_back(visit, cases):
    stranger = visit()
    assert "Who is reviewing?" in stranger.get(f"/review/cases/{cases[1]}").text
    page = stranger.post("/review/hello", data={"name": "  Ada   L. ", "back": f"/review/cases/{cases[1]}"})
    assert page.url.path == f"/review/cases/{cases[1]}"
    assert "Ada L." in page.text


@pytest.mark.parametrize("back", ["https://elsewhere.example/", "//elsewhere.example/cases/", "javascript:x"])
def test_nobody_is_led_elsewhere(visit, back):
    assert visit().post("/review/hello", data={"name": "Ada", "back": back}).url.path == "/review/"


@pytest.mark.parametrize("name", ["", "   ", "a\x07b"])
def test_a_name_is_needed(visit, name):
    assert "Who is reviewing?" in visit().post("/review/hello", data={"name": name}).text


def test_the_queue_shows_what_waits(visit, cases):
    page = visit("ada").get("/review/").text
    assert 'Waiting <span class="n">3</span>' in page
    assert page.count('class="state waiting"') == 3
    assert page.count('alt="A picture"') == 3
    assert "Press <kbd>n</kbd> to begin" in page


def test_a_row_of_a_table_is_shown_as_one(visit, database):
    row = entry(model="digits", input={"age": 41, "job": None, "member": True, "note": "<b>late</b>"})
    with database.transaction() as connection:
        log.append(connection, [row])
        queue.enqueue(connection, [new_case(row)])
    page = visit("ada").get(f"/review/cases/{row.record.id}").text
    table = page.partition('<table class="fields">')[2].partition("</table>")[0]
    shown = re.findall(r'<th scope="row">(.*?)</th><td><div class="words">(.*?)</div></td>', table)
    assert shown == [("age", "41"), ("job", "–"), ("member", "true"), ("note", "&lt;b&gt;late&lt;/b&gt;")]


def rows(page):
    """The cases that are listed, by id."""
    return re.findall(r'class="glance"><a href="/review/cases/([0-9a-f-]+)"', page)


def test_the_queue_is_filtered(visit, cases, database):
    due = datetime.now(UTC) - timedelta(minutes=1)
    late, other = entry(model="digits", group="b"), entry(model="other", group="b")
    with database.transaction() as connection:
        log.append(connection, [late, other])
        queue.enqueue(connection, [new_case(late, due_at=due), new_case(other)])
    late, other = str(late.record.id), str(other.record.id)
    ada = visit("ada")
    claim(ada, cases[1])
    for query, found in {
        "": {*cases, late, other},
        "model=other": {other},
        "model=digits&group=b": {late},
        "overdue=true": {late},
        "mine=true": {cases[1]},
        "mine=true&overdue=true": set(),
        "show=waiting": {cases[0], cases[2], late, other},
        "show=claimed": {cases[1]},
        "show=disputed": set(),
        "show=done": set(),
        "page_number=2": set(),
        "show=nonsense": {*cases, late, other},
    }.items():
        assert set(rows(ada.get(f"/review/?{query}").text)) == found, query
    assert "overdue 1 min" in ada.get("/review/").text
    assert "by you" in ada.get("/review/").text


def test_of_very_many_groups_those_with_the_most_open_cases_are_listed(visit, database):
    """A caller who named 6,000 groups made the page of every reviewer 1.5 MB long."""
    entries = [entry(group=f"g{n:04}") for n in range(300)] + [entry(group="zz") for _ in range(2)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
    ada = visit("ada")
    page = ada.get("/review/").text
    assert page.count('<option value="g0') == 199
    assert '<option value="zz">zz</option>' in page
    assert "101 groups with fewer open cases" in page
    page = ada.get("/review/?group=g0299").text
    assert '<option value="g0299" selected>' in page
    assert len(rows(page)) == 1


def test_the_queue_has_pages(visit, database):
    start = datetime.now(UTC)
    entries = [entry(created_at=start + timedelta(seconds=i)) for i in range(120)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
    ada = visit("ada")
    found = [rows(ada.get(f"/review/?model=toy&page_number={n}").text) for n in (1, 2, 3)]
    assert [len(one) for one in found] == [50, 50, 20]
    assert [one for page in found for one in page] == [str(one.record.id) for one in entries]
    page = ada.get("/review/?model=toy&page_number=2").text
    assert 'href="/review/?model=toy&amp;page_number=3"' in page
    assert 'href="/review/?model=toy"' in page


def test_progress_is_told(visit, cases):
    ada = visit("ada")
    for case in cases[:2]:
        ada.post(f"/review/cases/{case}/answer", data={"token": claim(ada, case), "label": "3"})
    ada.post(f"/review/cases/{cases[2]}/release", data={"token": 1})
    page = ada.get("/review/").text
    assert re.search(r"You today: <strong>2</strong> cases, median \d+ s", page)
    assert "Team today: <strong>2</strong> done" in page
    assert re.search(r"\d+ (s|min) of work at the pace of the last hour", page)
    assert "You today: <strong>0</strong> cases" in visit("bob").get("/review/").text


def test_what_came_from_outside_is_shown_as_text(visit, cases):
    for page in (visit("ada").get("/review/"), visit("<b>ada</b>").get(f"/review/cases/{cases[0]}")):
        assert "<script>alert" not in page.text
        assert "<b>ada" not in page.text
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]


def test_our_own_files_are_served(visit):
    page = visit("ada").get("/review/").text
    for address in re.findall(r'(?:href|src)="(/review/static/[^"]+)"', page):
        found = visit().get(address)
        assert found.status_code == 200
        assert "immutable" in found.headers["Cache-Control"]
    assert visit().get("/review/static/old/review.js").headers["Cache-Control"] == "no-cache"
    assert visit().get("/review/static/old/base.html").status_code == 404


def test_a_case_shows_picture_prediction_set_and_confidence(visit, cases):
    page = visit("ada").get(f"/review/cases/{cases[0]}").text
    for shown in (
        'src="data:image/png;base64,',
        '<span class="chip most">7</span><span class="chip">1</span>',
        "says <strong>7</strong>, rather unsure: 61%; 1 cannot be ruled out",
    ):
        assert shown in page
    assert "Asked in turn" not in page


def test_a_case_of_a_cascade_shows_who_was_asked(visit, database):
    steps = [{"model": "small", "confidence": 0.614}, {"model": "large", "confidence": None}]
    case = held(database, model="digits", steps=steps)
    assert "Asked in turn: small 0.61, large unknown." in visit("ada").get(f"/review/cases/{case}").text


def test_what_the_model_said_is_shown_after_a_blind_answer(visit, database):
    made = datetime.now(UTC)
    first, second = (
        held(database, model="digits", created_at=made + timedelta(seconds=i), case={"blind": True}) for i in (0, 1)
    )
    ada = visit("ada")
    page = ada.post("/review/next")
    assert page.url.path == f"/review/cases/{first}"
    for hidden in ("rather unsure", "61%", "chip", "says"):
        assert hidden not in page.text
    assert "is shown once you have answered" in page.text
    page = ada.post(f"/review/cases/{first}/answer", data={"token": token_in(page.text), "label": "3"})
    assert page.url.path == f"/review/cases/{second}"
    assert "You said <strong>3</strong>" in page.text
    assert "had said <strong>7</strong>, rather unsure: 61%" in page.text
    assert "is shown once you have answered" in page.text
    assert 'class="chip' not in page.text


def test_why_a_case_is_asked_cannot_be_told_until_it_is_answered(visit, database):
    """Held, spot check and second look: to the byte the same page, but for ids, tokens and times."""
    made = datetime.now(UTC)
    known = {"model": "digits", "created_at": made}
    held_one = entry(**known)
    drawn = entry(**known, action="answer", label_probability=0.02, reason="confidence 0.61 is at least 0.5, the limit")
    looked_at = entry(model="digits", created_at=made - timedelta(days=3))
    again = uuid4()
    with database.transaction() as connection:
        log.append(connection, [held_one, drawn, looked_at])
        queue.enqueue(connection, [new_case(held_one, blind=True), new_case(looked_at, blind=True)])
        queue.enqueue(connection, [new_case(drawn, kind=Kind.SPOT_CHECK, blind=True)])
        resolve(connection, looked_at.record.id, "Bob", "7")
        connection.execute(
            "insert into review_items (id, record_id, kind, model, status, created_at, confidence, blind)"
            " values (%s, %s, 're_review', 'digits', 'waiting', %s, 0.61, true)",
            (again, looked_at.record.id, made),
        )
    ids = [held_one.record.id, drawn.record.id, again]
    ada = visit("ada")

    def nameless(page, one):
        page = page.replace(str(one), "id")
        return re.sub(r'data-left="[^"]*"|\d+ (s|min)\b|id="progress">[^<]*', "", page)

    listed = ada.get("/review/").text
    lines = [row.split("</tr>")[0] for row in listed.split("<tr>") if "/review/cases/" in row]
    assert len(lines) == 3
    assert len({nameless(re.sub('cases/[0-9a-f-]+|value="[0-9a-f-]+"', "", line), "id") for line in lines}) == 1
    for path, act in (("", ada.get), ("/claim", ada.post)):
        pages = {nameless(act(f"/review/cases/{one}{path}").text, one) for one in ids}
        assert len(pages) == 1
        page = pages.pop()
        for telling in ("the limit", "spot", "held", str(looked_at.record.id), "Bob"):
            assert telling not in page
    told = {nameless(act, one) for one in ids for act in [after_answer(ada, one)]}
    assert len(told) == 1
    assert "answer: confidence 0.61 is at least 0.5" in ada.get(f"/review/cases/{ids[1]}").text


def after_answer(client, case):
    page = client.post(f"/review/cases/{case}/answer", data={"token": claim(client, case), "label": "7"})
    return re.search(r"<aside.*</aside>", page.text, re.DOTALL).group(0)


def test_a_text_is_shown_as_text_and_a_lost_input_is_said(visit, database):
    case, lost = held(database, input="five <b>bold</b> words", prediction=None, confidence=None), held(database)
    with database.transaction() as connection:
        connection.execute("delete from payloads where record_id = %s", (lost,))
    page = visit("ada").get(f"/review/cases/{case}").text
    assert '<div class="words">five &lt;b&gt;bold&lt;/b&gt; words</div>' in page
    assert "The model said nothing." in page
    assert "no longer kept" in visit("ada").get(f"/review/cases/{lost}").text
    assert "no longer kept" in visit("ada").get("/review/").text


def held(database, case=None, **changes):
    """A case in the queue."""
    one = entry(**changes)
    with database.transaction() as connection:
        log.append(connection, [one])
        queue.enqueue(connection, [new_case(one, **(case or {}))])
    return str(one.record.id)


@pytest.fixture
def talk(quickstart, database):
    """Open the pages of a service with models that write and choose, as Ada."""
    same = {"host": {"kind": "transformers", "checkpoint": "nowhere"}, "scores": ["improbability"]}
    same |= {"confidence": {"score": "improbability"}, "policy": {"kind": "threshold", "limit": 0.3}}
    models = {"talker": {**same, "task": {"kind": "generate"}}, "letters": {**same, "task": {"kind": "choice"}}}
    client = TestClient(console_app(at_once(Config.model_validate({"models": models})), database), root_path="/review")
    client.post("/review/hello", data={"name": "Ada"})
    return client


def test_pictures_of_a_conversation_are_shown_where_they_stand(talk, database):
    shown, fake = url(png(8, 8)), 'data:image/png;base64,"><script>alert(1)</script>'
    parts = [{"type": "text", "text": "Before."}, {"type": "image_url", "image_url": {"url": shown}}]
    parts += [{"type": "text", "text": "After."}, {"type": "image_url", "image_url": {"url": fake}}]
    parts += [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, 7, {"type": "text"}]
    value = {"messages": [{"role": "user", "content": parts}, "odd", {"role": 5, "content": [None]}]}
    told = {"model": "talker", "prediction": "right", "reply": {"text": "A cat.", "finish_reason": "stop"}}
    case = held(database, input=value, **told)
    page = talk.get(f"/review/cases/{case}").text
    assert page.index("Before.") < page.index(f'<img src="{shown}"') < page.index("After.")
    assert page.count("<img") == 1
    assert "<script>alert" not in page
    long = {"messages": [{"role": "user", "content": [parts[1], {"type": "text", "text": "What? " * 4000}]}]}
    held(database, input=long, **told)
    queue = talk.get("/review/").text
    assert "iVBOR" not in queue
    assert "[a picture]" in queue


def test_a_conversation_is_shown_with_the_text_to_be_judged(talk, database):
    messages = [{"role": "system", "content": "Be <b>brief</b>."}, {"role": "user", "content": "And 2 + 2?"}]
    reply = {"text": "It is <i>5</i>. " + "So " * 50, "finish_reason": "stop"}
    told = {"model": "talker", "prediction": "right", "prediction_set": ["right"], "reply": reply}
    case = held(database, input={"messages": messages}, cost={"calls": 7}, **told)
    assert "And 2 + 2?" in talk.get("/review/").text
    token = claim(talk, case)
    page = talk.get(f"/review/cases/{case}").text
    for shown in ("Is the reply right?", "Be &lt;b&gt;brief", "And 2 + 2?", "It is &lt;i&gt;5&lt;/i&gt;."):
        assert shown in page
    assert labels_in(page) == ["right", "wrong"]
    assert "The model says" not in page
    assert "The model is rather unsure: 61%." in page
    assert "calls" not in page
    answer = {"token": token, "label": "wrong"}
    talk.post(f"/review/cases/{case}/answer", data=answer)
    with database.transaction() as connection:
        assert log.outcomes_of(connection, case)[0].label == "wrong"
        connection.execute("delete from payloads")
    assert "The reply is no longer kept." in talk.get(f"/review/cases/{case}").text


def test_a_model_that_said_nothing_is_shown_as_such(talk, database):
    case = held(database, model="talker", input="2 + 2?", prediction=None, prediction_set=[])
    page = talk.get(f"/review/cases/{case}").text
    assert "The model gave no reply." in page
    assert "2 + 2?" in page


def test_a_question_is_shown_with_the_letters_of_its_options(talk, database):
    case = held(
        database, model="letters", input={"question": "6 * 7?", "options": ["41", "<42>", "43"]}, prediction="B"
    )
    claim(talk, case)
    page = talk.get(f"/review/cases/{case}").text
    assert "Which option is right?" in page
    assert "<dt>B</dt><dd>&lt;42&gt;</dd>" in page
    assert labels_in(page) == ["A", "B", "C"]


def test_an_answer_resolves_the_case_and_brings_the_next(visit, cases, database):
    ada = visit("ada")
    page = ada.post("/review/next")
    assert page.url.path == f"/review/cases/{cases[0]}"
    page = ada.post(f"/review/cases/{cases[0]}/answer", data={"token": token_in(page.text), "label": "3"})
    assert page.url.path == f"/review/cases/{cases[1]}"
    ended = ada.get(f"/review/cases/{cases[0]}").text
    assert "Resolved: <strong>3</strong>. All who were asked said the same." in ended
    assert "<td>ada</td><td>3</td>" in ended
    assert "ada" in ada.get("/review/?show=done").text
    with database.transaction() as connection:
        outcome = log.outcomes_of(connection, cases[0])[-1]
    assert (outcome.label, outcome.author, outcome.source) == ("3", "ada", "review")


def test_two_people_cannot_hold_one_case(visit, cases):
    ada, bob = visit("ada"), visit("bob")
    token = claim(ada, cases[0])
    refused = bob.post(f"/review/cases/{cases[0]}/claim")
    assert refused.status_code == 409
    assert "is with ada" in refused.text
    assert "ada is looking at this case" in bob.get(f"/review/cases/{cases[0]}").text
    assert bob.post(f"/review/cases/{cases[0]}/answer", data={"token": token, "label": "3"}).status_code == 409
    assert ada.post(f"/review/cases/{cases[0]}/release", data={"token": token}).url.path == "/review/"
    assert bob.post(f"/review/cases/{cases[0]}/claim").status_code == 200


def test_only_labels_of_the_model_are_taken(visit, cases):
    ada = visit("ada")
    answer = {"token": claim(ada, cases[0]), "label": "eleven"}
    assert ada.post(f"/review/cases/{cases[0]}/answer", data=answer).status_code == 422


@pytest.mark.parametrize("field", ["label", "reason", "comment", "model"])
def test_the_character_0_is_in_no_form(visit, cases, field):
    ada = visit("ada")
    token = claim(ada, cases[0])
    told = {"token": token, "label": "3"} if field != "reason" else {"token": token}
    refused = ada.post(f"/review/cases/{cases[0]}/answer", data={**told, field: "a\0b"})
    assert refused.status_code == 422
    assert "the character 0" in refused.text
    assert ada.post("/review/next", data={"model": "\0"}).status_code == 422
    assert ada.post(f"/review/cases/{cases[1]}/withdraw", data={"why": "\0"}).status_code == 422


def test_an_empty_queue_says_so(visit, database):
    ada = visit("ada")
    assert "Every case has been looked at" in ada.get("/review/").text
    page = ada.post("/review/next")
    assert page.url.path == "/review/"
    assert "Nothing is free for you right now" in page.text


def test_who_cannot_tell_says_why(visit, cases, database):
    ada = visit("ada")
    address, token = f"/review/cases/{cases[0]}/answer", claim(ada, cases[0])
    assert ada.post(address, data={"token": token, "reason": "  "}).status_code == 422
    page = ada.post(address, data={"token": token, "reason": "It is not legible", "comment": "all grey"})
    assert "You said <strong>that you cannot tell</strong>" in page.text
    with database.transaction() as connection:
        case = review_cases.case(connection, cases[0])
        said = review_cases.opinions_of(connection, [case.id])[case.id][0]
    assert case.status == "adjudication"
    assert (said.label, said.reason, said.comment) == (None, "It is not legible", "all grey")
    assert "It waits for what others say" in ada.get(f"/review/cases/{cases[0]}").text
    assert rows(ada.get("/review/?show=disputed").text) == [cases[0]]
    bob = visit("bob")
    page = bob.post(f"/review/cases/{cases[0]}/claim").text
    assert "You decide: others have said" in page
    assert "<strong>cannot tell</strong>: It is not legible <q>all grey</q>" in page
    assert "ada" not in page.split("You decide")[1].split("</div>")[0]


def test_an_answer_is_taken_back_and_comes_again(quickstart, database, cases):
    ada = TestClient(console_app(quickstart, database), root_path="/review")
    ada.post("/review/hello", data={"name": "ada"})
    token = token_in(ada.post("/review/next").text)
    page = ada.post(f"/review/cases/{cases[0]}/answer", data={"token": token, "label": "3"})
    assert page.url.path == f"/review/cases/{cases[1]}"
    assert 'data-undo="9' in page.text
    back = ada.post(f"/review/cases/{cases[0]}/undo", data={"token": token})
    assert back.url.path == f"/review/cases/{cases[0]}"
    again = ada.post(f"/review/cases/{cases[0]}/undo", data={"token": token})  # a second press changes nothing
    assert token_in(again.text) == token_in(back.text)
    form = {"token": token_in(back.text), "label": "5"}
    page = ada.post(f"/review/cases/{cases[0]}/answer", data=form)
    assert page.url.path == f"/review/cases/{cases[1]}"  # which was theirs all the time
    assert "You said <strong>5</strong>" in page.text


def test_what_was_sent_too_late_is_kept(visit, cases, database):
    ada, bob = visit("ada"), visit("bob")
    token = claim(ada, cases[0])
    with database.transaction() as connection:
        connection.execute("update review_items set lease_until = now() - interval '1 s' where status = 'claimed'")
    claim(bob, cases[0])
    form = {"token": token, "label": "3", "comment": "a <b>flat</b> top"}
    refused = ada.post(f"/review/cases/{cases[0]}/answer", data=form)
    assert refused.status_code == 409
    assert "is with bob" in refused.text
    assert f'href="/review/cases/{cases[0]}"' in refused.text
    bob.post(f"/review/cases/{cases[0]}/release", data={"token": int(token) + 1})
    assert "What you typed before is kept" in ada.get(f"/review/cases/{cases[0]}").text
    page = ada.post(f"/review/cases/{cases[0]}/claim").text
    assert "a &lt;b&gt;flat&lt;/b&gt; top</textarea>" in page
    assert re.search(r'value="3"[^>]*class="own before"', page)


def test_whoever_leads_can_withdraw_a_case(visit, cases):
    ada = visit("ada")
    address = f"/review/cases/{cases[0]}/withdraw"
    assert ada.post(address, data={"why": " "}).status_code == 422
    assert "Withdrawn by ada" in ada.post(address, data={"why": "a test picture"}).text


def test_the_model_that_was_chosen_stays_chosen(visit, cases, database):
    later = [held(database, model="other", prediction="a") for _ in range(2)]
    ada = visit("ada")
    page = ada.post("/review/next", data={"model": "other"})
    assert page.url.path == f"/review/cases/{later[0]}"
    assert page.url.query == b"model=other"
    assert 'data-model="other"' in page.text
    assert "its labels are not known" in page.text  # the configuration has no such model


def test_a_broken_address_is_no_trouble(visit, cases):
    ada = visit("ada")
    assert ada.get(f"/review/cases/{uuid4()}").status_code == 404
    assert "There is no case with the id" in ada.get(f"/review/cases/{uuid4()}").text
    for after in (uuid4(), cases[0]):  # not theirs
        assert "You said" not in ada.get(f"/review/?after={after}").text


def test_a_character_that_cannot_be_stored_is_refused_in_words(visit, cases, database):
    ada = visit("ada")
    token = claim(ada, cases[0])
    refused = ada.post(f"/review/cases/{cases[0]}/answer", data={"token": token, "label": "7", "comment": "a\0b"})
    assert refused.status_code == 422
    assert "the character 0 cannot be stored" in refused.text
    assert ada.get("/review/?model=%00").status_code == 422
