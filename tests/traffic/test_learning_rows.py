"""Preference pairs and training rows, from what people said of replies."""

from datetime import UTC, datetime, timedelta

import pytest

from demur.traffic import log
from demur.traffic.learning_rows import learning_rows
from tests.conftest import entry

ASKED = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How much?"}]}
START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def told(database):
    """A reply, and what somebody says of it."""

    def told(reply, *outcomes, value=ASKED, model="talker", day=0):
        written = None if reply is None else {"text": reply, "finish_reason": "stop", "reasoning": "hm"}
        at = START + timedelta(days=day)
        one = entry(model=model, input=value, reply=written, prediction="right", prediction_set=[], created_at=at)
        with database.transaction() as connection:
            log.append(connection, [one])
            for label, source, text, codes in outcomes:
                log.add_outcome(
                    connection, one.record.id, label=label, source=source, author=None, text=text, codes=codes
                )
        return one.record.id

    return told


def rows(database, form, **more):
    with database.transaction() as connection:
        found = learning_rows(connection, "talker", form, **{"precedence": (), **more})
        return [(row.record_id, {k: v for k, v in row.content.items() if k != "id"}) for row in found]


def said(text):
    return {"role": "assistant", "content": text}


def test_a_corrected_reply_is_a_pair_and_a_conversation(database, told):
    fixed = told("It is 41.", ("wrong", "review", "It is 42.", ("not true",)))
    right = told("It is 7.", ("right", "review", None, ()), value="How many?")
    told("It is 8.", ("wrong", "review", None, ()))  # nobody said what it should have been
    told("It is 9.")
    told("It is 10.", ("wrong", "review", "It is 11.", ()), model="other")
    told(None, ("wrong", "review", "It is 12.", ()))
    assert rows(database, "pairs") == [
        (
            fixed,
            {
                "prompt": ASKED["messages"],
                "chosen": [said("It is 42.")],
                "rejected": [said("It is 41.")],
                "codes": ["not true"],
            },
        )
    ]
    assert rows(database, "training") == [
        (fixed, {"messages": [*ASKED["messages"], said("It is 42.")]}),
        (right, {"messages": [{"role": "user", "content": "How many?"}, said("It is 7.")]}),
    ]


def test_the_outcome_that_counts_is_the_one_that_counts(database, told):
    record_id = told("41", ("wrong", "review", "42", ()), ("right", "lab", None, ()), ("wrong", "review", "43", ()))
    assert rows(database, "pairs")[0][1]["chosen"] == [said("43")]
    assert rows(database, "pairs", precedence=("lab",)) == []
    assert rows(database, "training", precedence=("lab",))[0] == (
        record_id,
        {"messages": [*ASKED["messages"], said("41")]},
    )


def test_what_was_erased_is_not_there(database, told):
    record_id = told("41", ("wrong", "review", "42", ()))
    with database.transaction() as connection:
        connection.execute("delete from payloads where record_id = %s", (record_id,))
    assert rows(database, "pairs") == rows(database, "training") == []


def test_some_records_and_some_time(database, told):
    ids = [told(f"{day}", ("wrong", "review", "x", ()), day=day) for day in range(4)]
    assert [one for one, _ in rows(database, "pairs", records=ids[1:3])] == ids[1:3]
    since, until = START + timedelta(days=1), START + timedelta(days=3)
    assert [one for one, _ in rows(database, "pairs", since=since, until=until)] == ids[1:3]
    assert rows(database, "pairs", records=[]) == []


def test_what_is_no_conversation_gives_no_row(database, told):
    told("41", ("wrong", "review", "42", ()), value={"a": 1})
    assert rows(database, "pairs") == []
