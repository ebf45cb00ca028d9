"""Finding cases, and finding nothing by what one may not see."""

from datetime import UTC, datetime, timedelta

import pytest

from demur.review import queue, search, settling
from demur.review.cases import Filter
from demur.review.item import EVERYTHING, ReviewerScope, ReviewVerdict
from demur.review.search import CaseSearch, SearchTooWide
from demur.review.settling import Settlement
from demur.traffic import log
from tests.conftest import entry, new_case

START = datetime(2026, 11, 1, tzinfo=UTC)
INPUTS = ["a broken cup", "100% wool", "100 sheep", "under_score", "underXscore", "back\\slash", {"note": 'say "cup"'}]


@pytest.fixture
def held(database):
    """Held predictions with texts, oldest first; the last two are blind."""
    entries = [
        entry(model="mood", created_at=START + timedelta(days=i), input=text, prediction="fair", confidence=i / 10)
        for i, text in enumerate(INPUTS)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        for at, one in enumerate(entries):
            queue.enqueue(connection, [new_case(one, blind=at > 4)])
    return [one.record.id for one in entries]


@pytest.fixture
def find(database, held):
    """The places of the cases that somebody finds."""

    def find(name="ada", *, scope=EVERYTHING, limit=50, **asked):
        with database.transaction() as connection:
            cases = search.found(connection, CaseSearch(**asked), name, scope=scope, limit=limit)
        return [held.index(case.id) for case in cases]

    return find


def say(database, case_id, name, label, comment=None):
    with database.transaction() as connection:
        claim = queue.claim(connection, case_id, name, lease_seconds=60)
        verdict = ReviewVerdict(label=label, comment=comment, saw_prediction=False)
        queue.answer(connection, case_id, name, token=claim.token, verdict=verdict, undo_seconds=0)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("broken", [0]),
        ("CUP", [6, 0]),
        ("100%", [1]),  # no sign of a pattern
        ("r_s", [3]),
        ("back\\", [5]),
        ('say "cup', [6]),
        ("' or 1=1 --", []),
    ],
)
def test_a_text_is_found_as_it_is_written(find, text, places):
    assert find(text=text) == places or find(text=text) == sorted(places, reverse=True)


def test_an_id_or_its_beginning_is_found(find, held):
    assert find(text=str(held[2])) == [2]
    assert 2 in find(text=str(held[2])[:18])


def test_nothing_is_found_in_what_was_erased_or_is_not_ones_own(find, held, database):
    with database.transaction() as connection:
        connection.execute("delete from payloads where record_id = %s", (held[0],))
    assert find(text="broken") == []
    assert find(text="sheep", scope=ReviewerScope(models=("other",))) == []
    assert find(text=str(held[2]), scope=ReviewerScope(models=("other",))) == []


def test_comments_of_others_are_found_once_the_case_has_ended(find, held, database):
    say(database, held[0], "bob", "bad", comment="torn in two")
    assert (find(text="torn"), find("bob", text="torn")) == ([], [0])
    assert (find(said="bad"), find(said_by="bob"), find("bob", said="bad")) == ([], [], [0])
    with database.transaction() as connection:
        settling.settle(connection, Settlement())
    assert (find(text="torn"), find(said="bad"), find(said_by="bob")) == ([0], [0], [0])
    assert (find(overturned=True), find(overturned=True, said="fair")) == ([0], [])


def test_what_the_model_said_blindly_is_neither_found_nor_sorted_by(find, held, database):
    assert find(predicted="fair") == [4, 3, 2, 1, 0]
    assert find(confidence_from=0.3, confidence_to=1.0) == [4, 3]
    assert find(sort="confidence")[:5] == [0, 1, 2, 3, 4]
    say(database, held[6], "ada", "bad")
    assert find(confidence_from=0.5) == [6]
    assert find("bob", confidence_from=0.5) == []


def test_dates_and_columns(find):
    assert find(since=START + timedelta(days=2), until=START + timedelta(days=4)) == [3, 2]
    assert find(sort="age", limit=2) == [0, 1]
    assert find(sort="; drop table review_items") == [6, 5, 4, 3, 2, 1, 0]
    assert find(which=Filter(model="other")) == []


def test_a_search_that_takes_too_long_is_ended_with_a_sentence(find, monkeypatch):
    monkeypatch.setattr(search, "MOST_MILLISECONDS", 200)
    monkeypatch.setattr(search, "IN_TEXT", "(select pg_sleep(2)::text = %(like)s)")
    with pytest.raises(SearchTooWide, match="look for more characters"):
        find(text="anything")
    monkeypatch.undo()
    assert find(text="broken") == [0]


def test_disputed_cases_are_found_while_they_are_open_and_once_they_are_decided(database, held, find):
    say(database, held[0], "ada", "good")
    with database.transaction() as connection:
        connection.execute("update review_items set opinions_wanted = 2 where id = any(%s)", (held[:2],))
        settling.settle(connection, Settlement(), held[0])
    say(database, held[0], "bob", "bad")
    with database.transaction() as connection:
        settling.settle(connection, Settlement(), held[0])
    assert find(disputed=True) == [0]
    say(database, held[0], "eve", "bad")
    assert find(disputed=True) == [0]
    with database.transaction() as connection:
        settling.settle(connection, Settlement(), held[0])
    assert find(disputed=True) == [0]
    assert find(disputed=True, which=Filter(model="other")) == []
