import math
from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import IntegrityError
from uuid_utils.compat import uuid7

from demur.serve.contract.commit import Writing
from demur.serve.database.opening import MIGRATIONS, open_database
from demur.serve.gateway.journal import commit
from demur.traffic import log
from demur.traffic.database import Database, migrate
from demur.traffic.log import KeyReused, RecordNotFound
from demur.traffic.record import KeyUse, ShadowDecision
from tests.conftest import entry, find_shadow


def use(key="k", position=0, fingerprint=b"f"):
    return KeyUse(key=key, position=position, fingerprint=fingerprint)


def test_a_record_is_read_as_it_was_written(database):
    written = entry(group="a group", scores={"z": 1e-300, "a": None, "m": math.pi})
    with database.transaction() as connection:
        log.append(connection, [written])
    with database.transaction() as connection:
        read = log.find_one(connection, written.record.id)
        assert log.find_input(connection, written.record.id) == written.input
    assert read == written.record
    assert list(read.scores) == ["z", "a", "m"]  # the order is part of the answer


def test_writing_again_changes_nothing(database):
    written = entry()
    for write in (log.append, log.append_plainly, log.append):
        with database.transaction() as connection:
            write(connection, [written])
    with database.transaction() as connection:
        assert connection.execute("select count(*) from records").fetchone() == (1,)


def test_a_transaction_that_fails_writes_nothing(database):
    written = entry()
    with pytest.raises(ZeroDivisionError), database.transaction() as connection:  # noqa: PT012
        log.append(connection, [written])
        raise ZeroDivisionError
    with database.transaction() as connection, pytest.raises(RecordNotFound, match=str(written.record.id)):
        log.find_one(connection, written.record.id)


def test_the_first_use_of_a_key_wins(database):
    first, second = entry(key=use()), entry(key=use())
    with database.transaction() as connection:
        assert log.claim_keys(connection, {one.record.id: one.key for one in (first, second)}) == {second.record.id}
        log.append(connection, [first])
    with database.transaction() as connection:
        assert log.claim_keys(connection, {uuid7(): use(position=1)}) == set()
        assert list(log.find_by_key(connection, use()).values()) == [first.record]
        with pytest.raises(KeyReused, match="'k'"):
            log.find_by_key(connection, use(fingerprint=b"another input"))
        assert log.find_by_key(connection, use("another key")) == {}


SECRET = sha256(b"a short input").digest()
"""What anybody can compute who guesses the input."""


def kept_of_keys(database):
    with database.transaction() as connection:
        rows = connection.execute("select key, fingerprint from idempotency_keys order by position").fetchall()
    return [(key, bytes(fingerprint)) for key, fingerprint in rows]


def test_no_digest_is_kept_that_can_be_made_from_a_guess(database):
    first, second = (entry(key=use(key, 0, SECRET)) for key in ("order-1", "order-2"))
    commit(database, [Writing(first), Writing(second)])
    digests = [digest for _, digest in kept_of_keys(database)]
    assert len(set(digests)) == 2  # and the same input under two keys is not seen to be the same
    assert all(SECRET not in digest for digest in digests)


def test_of_the_key_of_a_deleted_input_only_what_recognises_it_is_kept(database):
    batch = [entry(key=use("order-1", at, SECRET)) for at in range(3)]
    commit(database, [Writing(one) for one in batch])
    ids = [one.record.id for one in batch]
    for _ in range(2):  # the second time changes nothing
        with database.transaction() as connection:
            connection.execute(log.FORGET_KEYS.format(ids="%s"), (ids[1],))
        kept = kept_of_keys(database)
        assert [key == "order-1" for key, _ in kept] == [True, False, True]
        assert kept[1][0].startswith("forgotten ")
    with database.transaction() as connection:
        assert {at: found.id for at, found in log.find_by_key(connection, use("order-1", 0, SECRET)).items()} == dict(
            enumerate(ids)
        )
    with database.transaction() as connection, pytest.raises(KeyReused):
        log.find_by_key(connection, use("order-1", 0, sha256(b"another input").digest()))
    again = entry(key=use("order-1", 0, SECRET))
    assert [one.record.id for (one,) in commit(database, [Writing(again)])] == ids[:1]


def test_what_an_older_version_wrote_a_moment_ago_is_recognised(database):
    """While old and new gateways run beside each other."""
    written = entry()
    with database.transaction() as connection:
        log.append(connection, [written])
        connection.execute(
            "insert into idempotency_keys (key, position, fingerprint, record_id) values ('old', 0, %s, %s)",
            (SECRET, written.record.id),
        )
        assert log.find_by_key(connection, use("old", 0, SECRET))[0].id == written.record.id
        connection.execute(log.FORGET_KEYS.format(ids="%s"), (written.record.id,))
    assert SECRET not in kept_of_keys(database)[0][1]
    with database.transaction() as connection:
        assert log.find_by_key(connection, use("old", 0, SECRET))[0].id == written.record.id


def test_old_digests_are_keyed_and_still_compared(empty_dsn):
    database = Database(empty_dsn)
    migrate(database, [step for step in MIGRATIONS if step.room != "traffic" or step.version != 11])
    kept, gone = entry(), entry()
    with database.transaction() as connection:
        log.append(connection, [kept, gone])
        for key, one in (("kept", kept), ("gone", gone)):
            connection.execute(
                "insert into idempotency_keys (key, position, fingerprint, record_id) values (%s, 0, %s, %s)",
                (key, SECRET, one.record.id),
            )
        connection.execute("delete from payloads where record_id = %s", (gone.record.id,))
    migrate(database, MIGRATIONS)
    assert not any(SECRET in digest or key == "gone" for key, digest in kept_of_keys(database))
    with database.transaction() as connection:
        for key, one in (("kept", kept), ("gone", gone)):
            assert log.find_by_key(connection, use(key, 0, SECRET))[0].id == one.record.id
    with database.transaction() as connection, pytest.raises(KeyReused):
        log.find_by_key(connection, use("gone", 0, sha256(b"another input").digest()))
    database.close()


def test_outcomes_are_kept_in_order(database):
    written = entry()
    with database.transaction() as connection:
        log.append(connection, [written])
        for label in ("1", "7"):
            log.add_outcome(connection, written.record.id, label=label, source="api", author=None)
    with database.transaction() as connection:
        assert [told.label for told in log.outcomes_of(connection, written.record.id)] == ["1", "7"]


def test_an_input_may_hold_any_character(database):
    written, neighbour = entry(input="a\u0000b \U0001f600"), entry()
    done = [one for (one,) in commit(database, [Writing(neighbour), Writing(written)])]
    assert [one.record for one in done] == [neighbour.record, written.record]
    with database.transaction() as connection:
        assert log.find_input(connection, written.record.id) == "a\u0000b \U0001f600"
        assert log.find_input(connection, neighbour.record.id) == neighbour.input


def test_what_the_shadow_decided_is_read_as_it_was_written(database):
    shadow = ShadowDecision(
        artifact="toy-2", prediction=["a", "b"], confidence=0.5, action="answer", reason="enough", prediction_set=["a"]
    )
    unsure = replace(shadow, prediction=None, confidence=None, action="review", prediction_set=[])
    first, second, none = (replace(entry(), shadow=told) for told in (shadow, unsure, None))
    for write in (log.append, log.append_plainly, log.append):  # only the first changes anything
        with database.transaction() as connection:
            write(connection, [first, second, none])
    with database.transaction() as connection:
        assert [find_shadow(connection, e.record.id) for e in (first, second, none)] == [shadow, unsure, None]


def test_the_key_of_draws_is_made_once(database, dsn):
    with database.transaction() as connection:
        key = log.draw_key(connection)
    again = open_database(dsn)
    with again.transaction() as connection:
        assert log.draw_key(connection) == key
        with pytest.raises(IntegrityError):
            connection.execute("insert into draw_key (key) values ('another one')")
    again.close()
    assert len(key) == 64


@pytest.mark.parametrize("write", [log.append, log.append_plainly])
@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4),
    numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=4),
)
def test_whatever_is_written_is_read_again(database, write, texts, numbers):
    written = entry(
        top_labels=texts,
        prediction_set=texts[::-1],
        top_probabilities=numbers,
        label_confidence=numbers[1:],
        reason=" ".join(texts),
        group=texts[0] if texts else None,
        prediction=texts,
    )
    with database.transaction() as connection:
        write(connection, [written])
    with database.transaction() as connection:
        found = log.find_one(connection, written.record.id)
    for field in (
        "top_labels",
        "prediction_set",
        "top_probabilities",
        "label_confidence",
        "reason",
        "group",
        "prediction",
    ):
        assert repr(getattr(found, field)) == repr(getattr(written.record, field))  # as 0.0 and -0.0 differ


def test_many_large_inputs_are_written_in_parts(database, monkeypatch):
    monkeypatch.setattr(log, "LARGEST_STATEMENT", 1000)
    written = [entry(input="x" * length) for length in (10, 400, 900, 2000, 5)]
    with database.transaction() as connection:
        log.append(connection, written)
        assert [log.find_input(connection, one.record.id) for one in written] == [one.input for one in written]
