"""Keys in the database, and how replicas come to know them."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import connect

from demur.serve.access import keys as kept
from demur.serve.access.authenticator import LOOK_APART_SECONDS
from demur.serve.access.keys import KeyNotFound, Rates
from demur.serve.access.rates import Rate
from demur.serve.access.refusals import NotAllowed, NotKnown, TooOften
from demur.serve.access.tokens import read_token
from demur.serve.config.access import Scope
from demur.traffic.database import Database, DatabaseUnavailable
from tests.serve.access.doors import bearer, keeper_of, make, revoke


def admit(keeper, key, needs=Scope.PREDICT):
    headers = {name.lower(): value for name, value in bearer(key).items()}
    return asyncio.run(keeper.admit(headers, needs))


@pytest.fixture
def replicas(dsn, database):
    """Two gateways with one database."""
    other = Database(dsn)
    yield keeper_of(database), keeper_of(other)
    other.close()


def test_a_key_is_found_as_it_was_made(database):
    rates = Rates(
        requests=Rate(per_second=1, burst=2),
        predictions=Rate(per_second=3, burst=4),
        models={"digits": Rate(per_second=5, burst=6)},
    )
    ends = datetime.now(UTC) + timedelta(days=1)
    text = make(database, Scope.PREDICT, Scope.AUDIT, models=["digits"], rates=rates, expires_at=ends)
    with database.transaction() as connection:
        (key,) = kept.listed(connection)
        ((usable, hashed),) = kept.usable(connection)
    assert key == usable
    assert (key.name, key.scopes, key.models) == ("ada", (Scope.PREDICT, Scope.AUDIT), ("digits",))
    assert key.rates == rates
    assert key.expires_at == ends
    assert hashed == read_token(text).hash


def test_no_secret_is_in_the_database(dsn, database):
    secret = make(database, Scope.PREDICT).rpartition("_")[2]
    with connect(dsn) as connection:
        for table in ("access_keys", "access_codes", "access_sessions", "access_logins", "access_changes"):
            rows = connection.execute(f"select t::text from {table} t").fetchall()
            assert not any(secret in row for (row,) in rows)


def test_who_shows_a_key_is_known_by_its_name(database):
    key = make(database, Scope.PREDICT, name="Ada L.", models=["digits"])
    caller = admit(keeper_of(database), key)
    assert (caller.name, caller.key_id) == ("Ada L.", key.split("_")[1])
    caller.check_model("digits")
    with pytest.raises(NotAllowed, match=r"this key is not for 'other'; it is for: digits"):
        caller.check_model("other")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "Basic YWRhOmFkYQ=="},
        {"authorization": "Bearer sk-something"},
        {"authorization": "Bearer demur_abcdefghij_" + "a" * 40},
        {"authorization": "Bearer " + "a" * 100_000},
        {"x-api-key": "demur_abcdefghij_" + "a" * 40},
        {"x-api-key": ""},
    ],
)
def test_strangers_are_not_known(database, headers):
    make(database, Scope.PREDICT)
    with pytest.raises(NotKnown):
        asyncio.run(keeper_of(database).admit(headers, Scope.PREDICT))


def test_a_wrong_secret_under_a_good_id_is_refused(database):
    key = make(database, Scope.PREDICT)
    wrong = key[:-4] + key[-4:].swapcase().translate(str.maketrans("0123456789", "1234567890"))
    assert wrong != key
    with pytest.raises(NotKnown):
        admit(keeper_of(database), wrong)


def test_a_key_in_x_api_key_will_do_and_the_scheme_may_be_written_as_one_likes(database):
    keeper, key = keeper_of(database), make(database, Scope.PREDICT)
    assert asyncio.run(keeper.admit({"x-api-key": key}, Scope.PREDICT)).name == "ada"
    assert asyncio.run(keeper.admit({"authorization": f"bearer  {key} "}, Scope.PREDICT)).name == "ada"


@pytest.mark.parametrize("has", Scope)
@pytest.mark.parametrize("needs", Scope)
def test_a_scope_is_for_what_it_is_for_and_admin_for_all(database, has, needs):
    keeper, key = keeper_of(database), make(database, has)
    if has in (needs, Scope.ADMIN):
        assert admit(keeper, key, needs).scopes == {has}
    else:
        with pytest.raises(NotAllowed, match=f"this needs the scope `{needs}`, and 'ada' has: {has}"):
            admit(keeper, key, needs)


def test_a_new_key_gets_in_at_once_everywhere(replicas, database):
    key = make(database, Scope.PREDICT)
    for keeper in replicas:
        assert admit(keeper, key).name == "ada"


def test_a_revoked_key_is_out_in_every_replica_when_it_looks_next(replicas, database):
    key, other = make(database, Scope.PREDICT), make(database, Scope.PREDICT, name="bob")
    for keeper in replicas:
        admit(keeper, key)
    revoke(database, key)
    for keeper in replicas:
        keeper.ring.look()
        with pytest.raises(NotKnown, match="was revoked"):
            admit(keeper, key)
        assert admit(keeper, other).name == "bob"


def test_revoking_twice_changes_nothing_and_an_unknown_key_is_said(database):
    key = make(database, Scope.PREDICT)
    with database.transaction() as connection:
        first = kept.revoke_key(connection, key.split("_")[1], by="ada")
    with database.transaction() as connection:
        assert kept.revoke_key(connection, first.id, by="bob") == first
    with pytest.raises(KeyNotFound, match=r"no key 'nobody'"), database.transaction() as connection:
        kept.revoke_key(connection, "nobody", by="ada")


def test_a_key_ends_when_its_time_is_up_though_nobody_looks(database):
    now = datetime.now(UTC)
    key = make(database, Scope.PREDICT, expires_at=now + timedelta(hours=1))
    times = iter([now, now + timedelta(hours=1)])
    keeper = keeper_of(database, clock=lambda: next(times, now + timedelta(hours=2)))
    assert admit(keeper, key).name == "ada"
    with pytest.raises(NotKnown, match="has expired"):
        admit(keeper, key)


def test_what_has_expired_is_not_even_read(database):
    key = make(database, Scope.PREDICT, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    keeper = keeper_of(database)
    assert keeper.ring.caller(read_token(key)) is None
    with database.transaction() as connection:
        assert kept.usable(connection) == []


def test_while_the_database_is_away_the_known_keys_go_on_and_others_are_told_to_wait(database, caplog, monkeypatch):
    known = make(database, Scope.PREDICT)
    keeper = keeper_of(database)
    late = make(database, Scope.PREDICT)

    def away(*_args):
        raise DatabaseUnavailable("PostgreSQL at nowhere does not answer; start it, or correct its address")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "transaction", away)
        with caplog.at_level(logging.INFO, "demur.access"):
            keeper.ring.look()
            keeper.ring.look()
            assert admit(keeper, known).name == "ada"
            with pytest.raises(DatabaseUnavailable, match="does not answer"):
                admit(keeper, late)
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "keys cannot be read; the 1 known ones go on"
    ]
    keeper.ring.look()
    assert admit(keeper, late).name == "ada"


def test_a_flood_of_strangers_asks_the_database_now_and_then(database, monkeypatch):
    keeper, looks = keeper_of(database), []
    look = keeper.ring.look
    monkeypatch.setattr(keeper.ring, "look", lambda: looks.append(1) or look())

    async def flood():
        strangers = [f"demur_{n:010d}_{'a' * 40}" for n in range(500)]
        tried = (keeper.caller(f"Bearer {text}", None) for text in strangers)
        return await asyncio.gather(*tried, return_exceptions=True)

    assert LOOK_APART_SECONDS > 0
    results = asyncio.run(flood())
    assert {type(result) for result in results} == {NotKnown}
    assert len(looks) < 20


def test_nothing_is_read_while_nothing_changes(database, monkeypatch):
    make(database, Scope.PREDICT)
    keeper, reads = keeper_of(database), []
    monkeypatch.setattr(
        "demur.serve.access.key_cache.usable", lambda connection: reads.append(1) or kept.usable(connection)
    )
    keeper.ring.look()
    assert reads == []
    make(database, Scope.PREDICT)
    keeper.ring.look()
    assert reads == [1]


def test_requests_beyond_the_rate_are_told_when_to_come_again(database):
    rates = Rates(requests=Rate(per_second=0.1, burst=2))
    keeper, key = keeper_of(database), make(database, Scope.PREDICT, rates=rates)
    admit(keeper, key)
    admit(keeper, key)
    with pytest.raises(TooOften, match=r"0\.1 requests per second, 2 at once; try again in 10 s") as refused:
        admit(keeper, key)
    assert 9 < refused.value.seconds <= 10


def test_predictions_are_counted_together_and_by_model(database):
    rates = Rates(predictions=Rate(per_second=0.1, burst=10), models={"digits": Rate(per_second=0.1, burst=3)})
    caller = admit(keeper_of(database), make(database, Scope.PREDICT, rates=rates))
    caller.take_predictions({"digits": 3, "other": 2})
    with pytest.raises(TooOften, match="predictions of digits per second"):
        caller.take_predictions({"digits": 1})
    caller.take_predictions({"other": 5})
    with pytest.raises(TooOften, match="10 at once"):
        caller.take_predictions({"other": 1})


def test_what_is_left_of_a_rate_stays_when_other_keys_change(database):
    rates = Rates(requests=Rate(per_second=0.01, burst=1))
    keeper, key = keeper_of(database), make(database, Scope.PREDICT, rates=rates)
    admit(keeper, key)
    make(database, Scope.PREDICT, name="bob")
    keeper.ring.look()
    with pytest.raises(TooOften):
        admit(keeper, key)


def test_no_repr_shows_a_secret_or_its_hash(database):
    key = make(database, Scope.PREDICT)
    keeper = keeper_of(database)
    shown = repr(admit(keeper, key)) + repr(keeper.ring._entries)
    assert key.rpartition("_")[2] not in shown
    assert repr(read_token(key).hash) not in shown
