"""Texts in the place of replies: which of several counts, when one is taken back, and when they go."""

from datetime import UTC, datetime, timedelta

import pytest

from demur.review import cases, corrections, erasing, queue, settling
from demur.review.item import ReviewVerdict
from demur.review.settling import Settlement
from demur.traffic import log
from tests.conftest import entry, new_case

WRITTEN = {"text": "It is 41.", "finish_reason": "stop"}


@pytest.fixture
def held(database):
    """Put a reply into the queue; its id."""

    def held(*, expires=None, **case):
        one = entry(model="talker", prediction="right", prediction_set=[], reply=WRITTEN)
        one.input_expires_at = expires
        with database.transaction() as connection:
            log.append(connection, [one])
            queue.enqueue(connection, [new_case(one, **case)])
        return one.record.id

    return held


@pytest.fixture
def say(database):
    """Somebody answers, and it settles unless they may still take it back."""

    def say(case_id, who, label="wrong", text=None, codes=(), undo=0.0):
        verdict = ReviewVerdict(label=label, text=text, codes=codes, saw_prediction=True)
        with database.transaction() as connection:
            token = queue.claim(connection, case_id, who, lease_seconds=60).token
            queue.answer(connection, case_id, who, token=token, verdict=verdict, undo_seconds=undo)
            again = queue.answer(connection, case_id, who, token=token, verdict=verdict, undo_seconds=undo)
            assert again.status == "answered"
            settling.settle(connection, Settlement(), case_id)
        return token, verdict

    return say


def state(database, case_id):
    with database.transaction() as connection:
        return cases.case(connection, case_id), log.outcomes_of(connection, case_id)


def texts(database):
    with database.transaction() as connection:
        return [
            connection.execute(f"select count(*) from {table}").fetchone()[0]
            for table in ("review_corrections", "corrected_replies")
        ]


def test_a_text_becomes_part_of_the_outcome(database, held, say):
    case_id = held()
    say(case_id, "ada", text="It is 42.", codes=("not true",))
    case, (outcome,) = state(database, case_id)
    assert case.status == "resolved"
    assert (outcome.label, outcome.text, outcome.codes, outcome.author) == ("wrong", "It is 42.", ["not true"], "ada")


def test_another_text_is_another_answer(database, held):
    case_id = held()
    with database.transaction() as connection:
        token = queue.claim(connection, case_id, "ada", lease_seconds=60).token
        one = ReviewVerdict(label="wrong", text="It is 42.", saw_prediction=True)
        queue.answer(connection, case_id, "ada", token=token, verdict=one, undo_seconds=9)
        for other in (
            ReviewVerdict(label="wrong", text="It is 43.", saw_prediction=True),
            ReviewVerdict(label="wrong", saw_prediction=True),
            ReviewVerdict(label="wrong", text="It is 42.", codes=("rude",), saw_prediction=True),
        ):
            with pytest.raises(queue.ClaimLost):
                queue.answer(connection, case_id, "ada", token=token, verdict=other, undo_seconds=9)


def test_who_takes_an_answer_back_finds_the_text_again(database, held, say):
    case_id = held()
    token, _ = say(case_id, "ada", text="It is 42.", codes=("rude",), undo=60)
    with database.transaction() as connection:
        queue.undo(connection, case_id, "ada", token=token, lease_seconds=60)
        draft = cases.draft_of(connection, case_id, "ada")
    assert draft == {"label": "wrong", "reason": None, "comment": None, "text": "It is 42.", "codes": ["rude"]}


def test_texts_that_differ_go_to_somebody_who_decides(database, held, say):
    case_id = held(opinions_wanted=2)
    say(case_id, "ada", text="It is 42.", codes=("rude",))
    say(case_id, "bob", text="It is 43.", codes=("not true",))
    case, outcomes = state(database, case_id)
    assert (case.status, outcomes) == ("adjudication", [])
    with database.transaction() as connection:
        assert cases.events_of(connection, case_id)[-1].detail == {"why": "they correct it differently"}
    say(case_id, "cleo", text="It is 42.", codes=("not true",))
    case, (outcome,) = state(database, case_id)
    assert (case.resolution, outcome.text, outcome.codes) == ("adjudicated", "It is 42.", ["not true"])


def test_one_text_of_two_opinions_counts_and_has_its_author(database, held, say):
    case_id = held(opinions_wanted=2)
    say(case_id, "ada", text="It is 42.\n", codes=("rude",))
    say(case_id, "bob", codes=("not true",))
    case, (outcome,) = state(database, case_id)
    assert case.resolution == "agreed"
    assert (outcome.text, outcome.author, outcome.codes) == ("It is 42.\n", "ada", ["rude", "not true"])


def test_the_same_text_but_for_blanks_around_it_is_no_dispute(database, held, say):
    case_id = held(opinions_wanted=2)
    say(case_id, "ada", text="It is 42.\n")
    say(case_id, "bob", text="It is 42.")
    assert state(database, case_id)[0].resolution == "agreed"


def test_the_text_of_whoever_was_outvoted_is_not_part_of_the_outcome(database, held, say):
    case_id = held(opinions_wanted=3)
    say(case_id, "ada", text="It is 42.", codes=("rude",))
    say(case_id, "bob", label="right")
    say(case_id, "cleo", label="right")
    _, (outcome,) = state(database, case_id)
    assert (outcome.label, outcome.text, outcome.codes) == ("right", None, None)


def test_who_erases_the_reply_erases_the_texts(database, held, say):
    case_id = held()
    say(case_id, "ada", text="It is 42.")
    with database.transaction() as connection:
        queue.keep_draft(connection, case_id, "bob", {"text": "It is 44."})
        erasing.erase(connection, case_id, "lea")
        assert cases.draft_of(connection, case_id, "bob") is None
        queue.keep_draft(connection, case_id, "bob", {"text": "It is 44.", "comment": "late"})  # from a page still open
        assert cases.draft_of(connection, case_id, "bob") == {"text": None, "comment": "late"}
        assert [one.text for one in cases.opinions_of(connection, [case_id])[case_id]] == [None]
    assert texts(database) == [0, 0]
    assert [(one.label, one.text) for one in state(database, case_id)[1]] == [("wrong", None)]


def test_an_answer_that_settles_after_the_reply_was_erased_has_no_text(database, held, say):
    case_id = held()
    say(case_id, "ada", text="It is 42.", undo=60)
    with database.transaction() as connection:
        erasing.erase(connection, case_id, "lea")
        connection.execute("update review_items set settles_at = clock_timestamp() where id = %s", (case_id,))
        settling.settle(connection, Settlement(), case_id)
    case, (outcome,) = state(database, case_id)
    assert (case.status, outcome.label, outcome.text) == ("resolved", "wrong", None)


def test_texts_have_the_time_of_the_reply(database, held, say):
    gone, kept = held(expires=datetime.now(UTC) - timedelta(days=1)), held()
    for case_id in (gone, kept):
        say(case_id, "ada", text="It is 42.")
        with database.transaction() as connection:
            queue.keep_draft(connection, case_id, "bob", {"text": "It is 44.", "comment": "late"})
    with database.transaction() as connection:
        assert queue.forget_inputs(connection) == 1
        drafts = [cases.draft_of(connection, case_id, "bob") for case_id in (gone, kept)]
        assert not corrections.is_reply_kept(connection, gone)
    assert drafts == [{"comment": "late"}, {"text": "It is 44.", "comment": "late"}]
    assert texts(database) == [1, 1]
    assert [state(database, one)[1][0].text for one in (gone, kept)] == [None, "It is 42."]
