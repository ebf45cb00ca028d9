"""Leads change many cases over the API and by the form: who may, what is refused, and what the pages say."""

import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from demur.review import queue
from demur.serve.web.review import case_changes
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import entry, new_case

HOSTILE = "<script>alert('x')</script>"
PEOPLE = {
    "ada": {},
    "bob": {"models": ["digits"]},
    "lea": {"leads": True, "adjudicates": True},
    "len": {"leads": True, "models": ["sums"]},
}


@pytest.fixture
def ids(database):
    """Three cases of one model, oldest first, and one of another."""
    start = datetime.now(UTC) - timedelta(hours=5)
    models = ["digits", "digits", "digits", "sums"]
    entries = [
        entry(model=model, created_at=start + timedelta(minutes=i), input=f"cup {i}") for i, model in enumerate(models)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
    return [str(one.record.id) for one in entries]


@pytest.fixture
def visit(quickstart, database):
    """Pages and API as somebody."""

    def visit(name="lea", people=PEOPLE):
        review = quickstart.review.__class__.model_validate({"people": people})
        app = console_app(quickstart.model_copy(update={"review": review}), database)
        return TestClient(app, root_path="/review", headers={"X-Demur-Reviewer": name})

    return visit


@pytest.fixture
def ask(visit):
    def ask(body, *, status=200, **who):
        reply = visit(**who).post("/review/v1/cases/bulk", json=body)
        assert reply.status_code == status, reply.text
        return reply.json() if status == 200 else reply.json()["error"]["message"]

    return ask


def lines(visit, **query):
    return {one["id"]: one for one in visit().get("/review/v1/cases", params=query).json()["cases"]}


def test_cases_are_changed_by_their_ids(visit, ask, ids):
    due = datetime.now(UTC) + timedelta(hours=2)
    values = {"priority": 7, "due_at": due.isoformat(), "assigned_to": " bob "}
    told = ask({"ids": ids, "values": values, "why": "he knows them"})
    assert told["changed"] == ids[:3]
    assert told["left"] == [{"case_id": ids[3], "why": "bob does not review such cases"}]
    assert ask({"ids": ids[:3], "values": values, "why": "again"})["unchanged"] == ids[:3]
    found = lines(visit, assigned_to="bob")
    assert set(found) == set(ids[:3])
    assert {(one["priority"], one["assigned_to"]) for one in found.values()} == {(7, "bob")}
    events = visit().get(f"/review/v1/cases/{ids[0]}/events").json()["events"]
    assert (events[-1]["actor"], events[-1]["detail"]["why"]) == ("lea", "he knows them")
    assert ask({"ids": ids[:1], "values": {"assigned_to": None}, "why": "he is away"})["changed"] == ids[:1]
    assert set(lines(visit, assigned_to="bob")) == set(ids[1:3])


def test_all_that_fit_are_changed_and_no_more_than_were_told(visit, ask, ids, monkeypatch):
    assert visit().get("/review/v1/cases?show=waiting&model=digits&count=true").json()["count"] == 3
    wanted = {"matching": "show=waiting&model=digits", "withdraw": True, "why": "test data"}
    assert "3 cases fit by now, and 2 did" in ask({**wanted, "expected": 2}, status=409)
    monkeypatch.setattr(case_changes, "MOST_CASES", 2)
    assert "more than 2 cases fit" in ask({**wanted, "expected": 3}, status=422)
    monkeypatch.undo()
    assert ask({**wanted, "expected": 3}) == {"changed": ids[:3], "unchanged": [], "left": []}
    assert ask({**wanted, "expected": 3}) == {"changed": [], "unchanged": [], "left": []}
    assert lines(visit, show="waiting").keys() == {ids[3]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "write either withdraw or values"),
        ({"withdraw": True, "values": {"priority": 1}}, "write either withdraw or values"),
        ({"values": {}}, "write either withdraw or values"),
        ({"values": {"priority": None}}, "priority: write a number"),
        ({"values": {"priority": 1000}}, "priority"),
        ({"values": {"due_at": "2020-01-01T00:00:00Z"}}, "the due time lies in the past or too far ahead"),
        ({"values": {"due_at": "9999-01-01T00:00:00Z"}}, "the due time lies in the past or too far ahead"),
        ({"values": {"due_at": "2030-01-01"}}, "due_at"),
        ({"values": {"assigned_to": "bbo"}}, "the person 'bbo' is not one of: ada, bob, lea, len"),
        ({"values": {"assigned_to": "a\u202eb"}}, "all of them printable"),
        ({"values": {"status": "resolved"}}, "status"),
        ({"withdraw": True, "why": " "}, "why: say why"),
        ({"withdraw": True, "why": "\0"}, "why"),
        ({"withdraw": True, "ids": []}, "ids"),
        ({"withdraw": True, "ids": ["seven"]}, "ids"),
        ({"withdraw": True, "ids": [str(uuid4()) for _ in range(1001)]}, "ids"),
        ({"withdraw": True, "matching": "show=open"}, "write either ids or matching"),
        ({"withdraw": True, "ids": None}, "write either ids or matching"),
        ({"withdraw": True, "expected": 3}, "expected"),
        ({"withdraw": True, "ids": None, "matching": "nonsense=1", "expected": 9}, "'nonsense' is not one of"),
        ({"withdraw": True, "ids": None, "matching": "q=a", "expected": 9}, "q: 3 characters at least"),
        ({"withdraw": True, "ids": None, "matching": "q=%00abc", "expected": 9}, "character 0"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(visit, ask, ids, change, words):
    before = lines(visit)
    assert words in ask({"ids": ids, "why": "because", **change}, status=422)
    assert lines(visit) == before


def test_only_who_leads_changes_cases_and_only_their_own(visit, ask, ids):
    body = {"ids": [*ids, str(uuid4())], "withdraw": True, "why": "because"}
    assert "does not lead reviews" in ask(body, name="ada", status=403)
    form = {"what": "withdraw", "why": "because", "id": ids}
    assert visit("ada").post("/review/bulk", data=form).status_code == 403
    told = ask(body, name="len")
    assert told["changed"] == [ids[3]]
    assert {one["why"] for one in told["left"]} == {"there is no such case among those that you review"}
    assert len(told["left"]) == 4  # one of them is nobody's: both are told alike


def test_nothing_is_changed_when_something_fails(visit, ask, ids, monkeypatch):
    def boom(*_args, **_more):
        raise RuntimeError("just now")

    monkeypatch.setattr(queue, "announce_all", boom)
    before = lines(visit)
    with pytest.raises(RuntimeError):
        ask({"ids": ids, "withdraw": True, "why": "because"})
    assert lines(visit) == before


def test_the_form_above_the_list_is_for_those_who_lead(visit, ids):
    page = visit().get("/review/?model=digits").text
    assert "All 3 that fit the list" in page
    assert len(re.findall(r'name="id" value="[0-9a-f-]{36}" form="changing"', page)) == 3
    assert 'name="matching" value="show=open&amp;model=digits"' in page
    assert '<option value="bob">' in page
    plain = visit("ada").get("/review/").text
    assert "Change several cases" not in plain
    assert 'form="changing"' not in plain


@pytest.mark.parametrize(
    ("form", "values"),
    [
        ({"what": "assign", "person": "bob"}, {"assigned_to": "bob"}),
        ({"what": "unassign"}, {"assigned_to": None}),
        ({"what": "priority", "priority": "4"}, {"priority": 4}),
        ({"what": "no-due"}, {"due_at": None}),
        ({"what": "withdraw"}, {"status": "withdrawn"}),
    ],
)
def test_the_form_changes_what_is_ticked(visit, ids, form, values):
    page = visit().post("/review/bulk", data={**form, "id": ids[:2], "why": "because", "back": "model=digits"})
    assert page.status_code == 200
    assert 'href="/review/?model=digits">Back to the list' in page.text
    found = lines(visit, model="digits")
    for one in ids[:2]:
        assert {key: found[one][key] for key in values} == values
    assert found[ids[2]]["status"] == "waiting"
    assert found[ids[2]]["priority"] == 0


def test_the_form_sets_a_due_time_in_hours(visit, ids):
    form = {"what": "due", "hours": "1.5", "id": ids[0], "why": "x"}
    assert visit().post("/review/bulk", data=form).status_code == 200
    due = datetime.fromisoformat(lines(visit)[ids[0]]["due_at"]) - datetime.now(UTC)
    assert timedelta(minutes=85) < due < timedelta(minutes=91)
    for hours in ("", "soon", "nan", "inf", "-1", "0", "1e300"):
        assert visit().post("/review/bulk", data={**form, "hours": hours}).status_code == 422, hours


def test_the_form_changes_all_that_fit_and_names_what_was_left(visit, ids):
    visit("ada").post(f"/review/cases/{ids[1]}/claim")
    form = {"what": "withdraw", "every": "true", "matching": "show=open&model=digits", "expected": "3", "why": "test"}
    page = visit().post("/review/bulk", data=form).text
    assert "2 cases were withdrawn" in page
    assert "1 of 3 was left:" in page
    assert f'href="/review/cases/{ids[1]}"' in page
    assert "it is with ada" in page
    assert "1 of 1 was left:" in visit().post("/review/bulk", data=form).text  # sent twice


@pytest.mark.parametrize(
    "form",
    [
        {"what": "withdraw", "why": "because"},
        {"what": "withdraw", "why": " ", "id": ["0"]},
        {"what": "explode", "why": "because"},
        {"what": "assign", "why": "because", "person": HOSTILE},
        {"what": "withdraw", "every": "true", "matching": HOSTILE, "why": "because"},
    ],
)
def test_a_hostile_form_is_refused_as_a_page(visit, ids, form):
    page = visit().post("/review/bulk", data={"id": ids[0], **form} if form.get("person") else form)
    assert page.status_code == 422
    assert HOSTILE not in page.text


def test_names_are_text_and_a_stranger_is_pointed_out(visit, ids):
    anybody = visit(people={})
    page = anybody.post("/review/bulk", data={"what": "assign", "person": HOSTILE, "id": ids[0], "why": HOSTILE}).text
    assert "has answered a case yet" in page
    pages = [page, *(anybody.get(path).text for path in ("/review/", f"/review/cases/{ids[0]}"))]
    assert all(HOSTILE not in one for one in pages)
    back = {"what": "unassign", "id": ids[0], "why": "x", "back": HOSTILE}
    assert HOSTILE not in anybody.post("/review/bulk", data=back).text


def test_a_case_says_whom_it_is_kept_for(visit, ask, ids):
    ask({"ids": ids[:2], "values": {"assigned_to": "bob"}, "why": "he knows"})
    assert "kept for <bdi>bob</bdi>" in visit("ada").get(f"/review/cases/{ids[0]}").text
    assert "Claim this case" not in visit("ada").get(f"/review/cases/{ids[0]}").text
    refused = visit("ada").post(f"/review/v1/cases/{ids[0]}/claim")
    assert refused.status_code == 403
    assert "kept for bob" in refused.json()["error"]["message"]
    bob = visit("bob").get("/review/").text
    assert 'My shelf <span class="n">2</span>' in bob
    assert "My shelf" not in visit("ada").get("/review/").text
    assert visit("bob").post("/review/v1/cases/next").json()["case_id"] == ids[0]
    assert visit("ada").post("/review/v1/cases/next").json()["case_id"] == ids[2]


def test_the_history_of_a_case_says_what_was_changed(visit, ask, ids):
    ask({"ids": ids[:1], "values": {"assigned_to": "bob", "priority": 2}, "why": "he knows"})
    ask({"ids": ids[:1], "withdraw": True, "why": "nobody needs it"})
    page = visit().get(f"/review/cases/{ids[0]}").text
    assert "kept for bob, priority 2: he knows" in page
    assert "withdrawn: nobody needs it" in page
