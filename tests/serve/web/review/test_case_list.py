"""The list of cases: what is found is shown, all of it stands in the address, and nothing hostile does anything."""

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from demur.review import cases, queue
from demur.review.item import QueueOrder, Status
from demur.review.load import expect
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.review.app import console_app
from demur.serve.web.review.case_query import CaseQuery, read_query
from demur.traffic import log
from tests.conftest import entry, new_case, resolve

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def ids(database):
    """Three held texts, oldest first, the last of them blind; and one of another model."""
    start = datetime.now(UTC) - timedelta(hours=5)
    texts = ["a broken cup", HOSTILE, "a cup of tea", "a cup that is secret"]
    entries = [
        entry(
            model="sums" if text.endswith("secret") else "digits",
            created_at=start + timedelta(minutes=i),
            input=text,
            confidence=0.2 * i,
        )
        for i, text in enumerate(texts)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        for at, one in enumerate(entries):
            queue.enqueue(connection, [new_case(one, blind=at == 2)])
    return [str(one.record.id) for one in entries]


@pytest.fixture
def look(quickstart, database):
    """The list as somebody sees it."""
    people = {"ada": {"models": ["digits"]}, "lea": {"leads": True, "adjudicates": True}}
    review = quickstart.review.__class__.model_validate({"people": people})
    app = console_app(quickstart.model_copy(update={"review": review}), database)

    def look(name="ada", *, status=200, **query):
        client = TestClient(app, root_path="/review", headers={"X-Demur-Reviewer": name}, follow_redirects=False)
        reply = client.get(f"/review/?{urlencode(query)}")
        assert reply.status_code == status
        return reply

    return look


@pytest.fixture
def api(quickstart, database):
    """What `GET /v1/cases` answers somebody."""
    people = {"ada": {"models": ["digits"]}, "lea": {"leads": True, "adjudicates": True}}
    review = quickstart.review.__class__.model_validate({"people": people})
    app = console_app(quickstart.model_copy(update={"review": review}), database)

    def api(name="ada", *, code=200, **query):
        client = TestClient(app, root_path="/review", headers={"X-Demur-Reviewer": name})
        reply = client.get(f"/review/v1/cases?{urlencode(query)}")
        assert reply.status_code == code, reply.text
        return reply.json()

    return api


def shown(reply):
    return re.findall(r'class="glance"><a href="/review/cases/([0-9a-f-]+)"', reply.text)


def test_cases_are_found_by_text_within_what_a_person_may_see(look, ids):
    assert shown(look(q="cup")) == [ids[2], ids[0]]
    assert shown(look("lea", q="cup")) == [ids[3], ids[2], ids[0]]
    assert shown(look(q="cup", model="sums")) == []
    assert "2 characters" not in look(q="cu").text
    assert "3 characters at least are looked for" in look(q="cu").text


def test_an_id_leads_to_its_case_and_only_where_one_may_see_it(look, ids):
    assert look(q=f" {ids[0]} ", status=303).headers["location"].endswith(f"/review/cases/{ids[0]}")
    assert shown(look(q=ids[3])) == []


@pytest.mark.parametrize("text", [HOSTILE, "' or 1=1", "%%%", "___", "a\\'b", "\u202eabc", "x" * 5000])
def test_what_is_looked_for_is_text_and_nothing_else(look, ids, text):
    for query in ({"q": text}, {"said": text}, {"predicted": text}, {"by": text}, {"sort": text}, {"group": text}):
        page = look(**query).text
        assert "<script>alert" not in page
        assert shown(look(**query)) == ([ids[1]] if query == {"q": HOSTILE} else shown(look(**query)))
    assert len(shown(look(q=text))) <= 1


def test_columns_are_sorted_and_the_blind_are_not_sorted_by_confidence(look, ids):
    assert shown(look(sort="-age")) == [ids[2], ids[1], ids[0]]
    page = look(sort="confidence")
    assert shown(page) == [ids[0], ids[1], ids[2]]
    assert 'aria-sort="ascending"' in page.text
    assert "sort=-confidence" in page.text
    assert "40%" not in page.text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"confidence_from": "much"}, "Confidence_from: write a number from 0 to 1"),
        ({"confidence_to": "nan"}, "Confidence_to: write a number from 0 to 1"),
        ({"since": "yesterday"}, "Since: write a date like 2026-11-30"),
        ({"until": "9999-12-31"}, "Until: write a date like 2026-11-30"),
    ],
)
def test_what_cannot_be_looked_for_is_said_on_the_page(look, ids, query, words):
    page = look(**query).text
    assert words in page


def test_the_api_finds_what_the_page_finds_by_the_same_names(look, ids, api):
    for query in (
        {"q": "cup"},
        {"q": "cup", "sort": "age"},
        {"q": ids[0]},
        {"confidence_to": "0.1", "show": "open"},
        {"since": "2020-01-01", "until": "2020-01-02"},
        {"predicted": "7", "show": "all"},
        {"said": "7", "by": "ada", "overturned": "true", "disputed": "true"},
        {"show": "waiting", "sort": "-confidence"},
    ):
        found = [case["id"] for case in api(**query)["cases"]]
        page = look(**query, status=303) if query.get("q") == ids[0] else look(**query)
        assert found == ([ids[0]] if page.status_code == 303 else shown(page)), query
    assert [case["id"] for case in api("lea", q="cup")["cases"]] == [ids[3], ids[2], ids[0]]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"q": "cu"}, "q: 3 characters at least"),
        ({"show": "nonsense"}, "show: 'nonsense' is not one of: open"),
        ({"sort": "-nonsense"}, "sort: 'nonsense' is not one of: age"),
        ({"confidence_from": "2"}, "confidence_from: write a number from 0 to 1"),
        ({"until": "tomorrow"}, "until: write a date like 2026-11-30"),
        ({"show": "open", "status": "waiting"}, "show, status: write only one of them"),
        ({"page_number": "2"}, "page_number"),
    ],
)
def test_the_api_refuses_what_it_cannot_look_for(api, query, words):
    assert words in api(**query, code=422)["error"]["message"]


def test_a_day_counts_itself_and_a_time_is_exact(ids, api):
    today = datetime.now(UTC).astimezone().date().isoformat()
    assert len(api("lea", until=today)["cases"]) == 4
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    assert len(api("lea", until=an_hour_ago.isoformat())["cases"]) == 4
    assert api("lea", until=(an_hour_ago - timedelta(hours=9)).isoformat())["cases"] == []


def test_what_an_address_says_can_be_read_again():
    query = CaseQuery(
        show="waiting", q="a & b=c", mine=True, status=[Status.WAITING, Status.CLAIMED], since="2026-11-30"
    )
    assert read_query(query.written()) == query
    assert read_query("") == CaseQuery()


@pytest.mark.parametrize(
    "text", ["nonsense", "q=a&q=b", "mine=yes", "status=nowhere", "page_number=1", "q=%00", "&".join(["q=a"] * 99)]
)
def test_what_is_no_address_of_a_list_is_refused(text):
    with pytest.raises(InvalidRequest):
        read_query(text)


def test_every_page_and_the_api_tell_one_pace(quickstart, database, ids):
    with database.transaction() as connection:
        resolve(connection, UUID(ids[0]), "lea", "7")
        connection.execute("update review_items set created_at = created_at - interval '1 day'")
    client = TestClient(console_app(quickstart, database), root_path="/review", headers={"X-Demur-Reviewer": "lea"})
    assert "3 h of work at the pace of the last hour" in client.get("/review/").text  # one an hour, and three wait
    overview = client.get("/review/overview?window=7d").text
    assert re.search(
        r"<dt>Work left</dt><dd class=.value.>3 h</dd><dd class=.note.>at the pace of the last hour", overview
    )
    assert client.get("/review/v1/overview").json()["hours_of_work"] == pytest.approx(3)
    assert client.get("/review/v1/progress").json()["hours_of_work"] == pytest.approx(3)
    client.post(f"/review/cases/{ids[1]}/claim")
    assert "about 3 h left" in client.get(f"/review/cases/{ids[1]}").text  # two wait, and this one
    with database.transaction() as connection:
        first = cases.case(connection, UUID(ids[2]))
        assert expect(connection, first, QueueOrder.AGE).expected_seconds == pytest.approx(3600)


def test_the_address_holds_all_of_it(look, ids):
    page = look(q="cup", model="digits", confidence_to="0.5", show="all", overturned="true").text
    link = next(one for one in re.findall(r'href="(/review/\?[^"]*)"', page) if "q=cup" in one and "show=all" in one)
    for part in ("q=cup", "model=digits", "confidence_to=0.5", "show=all", "overturned=true"):
        assert part in link
