"""The page of who saw what: what it shows, and to whom."""

import html
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from demur.review import access
from demur.serve.access.needs import REVIEW
from demur.serve.config.access import Scope
from demur.serve.web.login.access_middleware import AccessMiddleware
from demur.serve.web.review import access_log
from demur.serve.web.review.app import console_app
from tests.serve.access.doors import bearer, keeper_of, make

CASES = [uuid4() for _ in range(3)]


@pytest.fixture
def seen(database):
    with database.transaction() as connection:
        access.note(connection, CASES[:2], "ada", through="page", shown=["input", "prediction"])
        access.note(connection, CASES[1:], "bob <b>", through="export", shown=["everything"])
        access.note(connection, CASES[2:], "ada", through="api", shown=[])


@pytest.fixture
def open_door(quickstart, database, seen):
    return TestClient(console_app(quickstart, database), root_path="/review", headers={"X-Demur-Reviewer": "lea"})


@pytest.fixture
def guarded(quickstart, database, seen):
    gate = AccessMiddleware(console_app(quickstart, database), keeper_of(database), REVIEW, cookie="demur-session")
    return TestClient(gate, root_path="/review", follow_redirects=False)


def rows(page: str) -> list[list[str]]:
    """The cells of the table, without the time and without links."""
    table = page.partition("<caption")[2].partition("</table>")[0]
    found = [row.split("<td")[2:] for row in table.split("<tr>")[2:]]
    return [[_text(cell) for cell in row] for row in found]


def _text(cell: str) -> str:
    inside = cell.partition(">")[2].partition("</td>")[0]
    return html.unescape(inside.partition('">')[2].partition("</a>")[0] if "<a " in inside else inside)


def test_it_shows_who_saw_what_the_latest_first(open_door):
    assert rows(open_door.get("/review/access-log").text) == [
        ["ada", str(CASES[2]), "api", "that it exists"],
        ["bob <b>", str(CASES[2]), "export", "everything"],
        ["bob <b>", str(CASES[1]), "export", "everything"],
        ["ada", str(CASES[1]), "page", "input, prediction"],
        ["ada", str(CASES[0]), "page", "input, prediction"],
    ]


def test_one_asks_for_a_case_or_a_person(open_door):
    of_case = rows(open_door.get("/review/access-log", params={"case": f" {CASES[1]} "}).text)
    assert [row[0] for row in of_case] == ["bob <b>", "ada"]
    assert len(rows(open_door.get("/review/access-log", params={"person": "ada"}).text)) == 3
    assert "Nobody was shown such a case" in open_door.get("/review/access-log", params={"person": "eve"}).text


def test_earlier_ones_are_on_further_pages(open_door, monkeypatch):
    monkeypatch.setattr(access_log, "MOST_SHOWN", 2)
    page, found = open_door.get("/review/access-log?person=ada").text, []
    while True:
        found += [row[1] for row in rows(page)]
        _, link, more = page.partition('<p><a href="/review/access-log?')
        if not link:
            break
        page = open_door.get(f"/review/access-log?{html.unescape(more.partition(chr(34))[0])}").text
    assert found == [str(case) for case in (CASES[2], CASES[1], CASES[0])]


@pytest.mark.parametrize(
    "query", ["case=7", "before=x", "before=-1", f"before={2**63}", "before=" + "9" * 5000, "case=%00"]
)
def test_what_is_no_question_is_a_422(open_door, query):
    assert open_door.get(f"/review/access-log?{query}").status_code == 422


def test_it_is_for_those_with_the_scope_admin(guarded, database):
    for scope in (Scope.PREDICT, Scope.REVIEW, Scope.AUDIT):
        refused = guarded.get("/review/access-log", headers=bearer(make(database, scope)))
        assert refused.status_code == 403
        assert "bob" not in refused.text
    assert guarded.get("/review/access-log").status_code == 303  # to the login
    admin = bearer(make(database, Scope.ADMIN))
    assert len(rows(guarded.get("/review/access-log", headers=admin).text)) == 5
    link = '<a href="/review/access-log">Access log</a>'
    assert link in guarded.get("/review/", headers=admin).text
    assert link not in guarded.get("/review/", headers=bearer(make(database, Scope.REVIEW))).text


def test_where_nobody_is_asked_it_is_for_those_who_lead(quickstart, database, seen):
    people = {"lea": {"leads": True, "adjudicates": True}, "ada": {}}
    review = type(quickstart.review).model_validate({**quickstart.review.model_dump(), "people": people})
    visit = TestClient(console_app(quickstart.model_copy(update={"review": review}), database), root_path="/review")
    assert visit.get("/review/access-log", headers={"X-Demur-Reviewer": "ada"}).status_code == 403
    assert len(rows(visit.get("/review/access-log", headers={"X-Demur-Reviewer": "lea"}).text)) == 5
