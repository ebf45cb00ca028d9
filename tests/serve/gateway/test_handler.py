"""The road of a request without Ray and without HTTP: real model, real artifact, real PostgreSQL."""

import asyncio
import json
import logging
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from demur.review import cases
from demur.serve.config.file import OutcomesConfig
from demur.serve.contract import wire
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.commit import Writing
from demur.serve.contract.hosts import ModelNotReady, UnknownModel
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.gateway import journal
from demur.serve.gateway.pipeline import RequestGroup
from demur.traffic import log
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.draw import Draws, limit
from demur.traffic.log import KeyReused
from tests.conftest import entry, find_shadow, resolve
from tests.serve.conftest import DRAW_KEY, LocalHost, make_handler
from tests.serve.hosting import RunningHost


def body(value, **more):
    return json.dumps({"model": "digits", "input": value, **more}).encode()


def count(database, table):
    with database.transaction() as connection:
        return connection.execute(f"select count(*) from {table}").fetchone()[0]


def serve(handler, *bodies, keys=None):
    async def main():
        calls = [handler.predict(b, k) for b, k in zip(bodies, keys or [None] * len(bodies), strict=True)]
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(main())


def test_a_clear_input_is_answered_and_on_record(handler, database, clear_digit):
    (done,) = serve(handler, body(clear_digit, group="somewhere", cluster="patient 7"))
    record = done.record
    assert record.action == "answer"
    assert record.prediction in record.prediction_set
    assert record.confidence > 0.9
    assert set(record.scores) == {"softmax_response", "entropy", "mahalanobis"}
    assert record.label_probability == 0
    assert record.id.version == 7
    assert (record.group, record.cluster) == ("somewhere", "patient 7")
    assert set(record.timings) == {"queued", "model"}
    with database.transaction() as connection:
        assert log.find_one(connection, record.id) == record
        assert log.find_input(connection, record.id) == clear_digit
        assert cases.find(connection, record.id) is None


def test_a_doubtful_input_is_held_and_in_the_queue(handler, database, doubtful_digit):
    (done,) = serve(handler, body(doubtful_digit))
    assert done.record.action == "review"
    assert "is below" in done.record.reason
    assert done.record.label_probability == 1
    with database.transaction() as connection:
        assert cases.case(connection, done.record.id).status == "waiting"


def test_what_comes_together_goes_to_the_model_in_one_call(handler, local_host, clear_digit):
    serve(handler, body(clear_digit))
    local_host.batches.clear()
    done = serve(handler, *[body(clear_digit)] * 100)
    assert local_host.batches == [64, 36]
    assert len({d.record.id for d in done}) == 100


def test_one_bad_item_spoils_nothing_for_its_batch(handler, clear_digit):
    items = [
        {"model": "digits", "input": clear_digit},
        {"model": "digits", "input": [[2.0] * 8] * 8},
        {"model": "nobody", "input": clear_digit},
        {"model": "digits", "input": clear_digit, "colour": "red"},
        "not an object",
        {"model": "digits", "input": clear_digit},
    ]
    results = asyncio.run(handler.predict_batch(json.dumps({"items": items}).encode(), None))
    kinds = [type(result).__name__ for result in results]
    assert kinds == [
        "CommitResult",
        "InvalidRequest",
        "UnknownModel",
        "InvalidRequest",
        "InvalidRequest",
        "CommitResult",
    ]


def test_the_same_key_and_input_give_the_stored_answer(handler, database, clear_digit):
    (first,) = serve(handler, body(clear_digit), keys=["k1"])
    (again,) = serve(handler, body(clear_digit), keys=["k1"])
    assert not first.replayed
    assert again.replayed
    assert again.record == first.record
    assert count(database, "records") == 1


def test_the_order_of_json_keys_is_not_another_input(handler, clear_digit):
    other = json.dumps({"input": clear_digit, "model": "digits"}).encode()
    (first,) = serve(handler, body(clear_digit), keys=["k1"])
    (again,) = serve(handler, other, keys=["k1"])
    assert again.record == first.record


@pytest.mark.parametrize("value", [2**200, [float("nan")], {"a": {"b": [None, True]}}, "\u0000\U0001f600"])
def test_a_key_does_not_mind_what_the_input_is(handler, value):
    (refused,) = serve(handler, body(value), keys=["k1"])
    assert isinstance(refused, InvalidRequest)


def test_the_same_key_with_another_input_is_refused(handler, database, clear_digit, doubtful_digit):
    serve(handler, body(clear_digit), keys=["k1"])
    (refused,) = serve(handler, body(doubtful_digit), keys=["k1"])
    assert isinstance(refused, KeyReused)
    assert count(database, "records") == 1


def test_retries_at_the_same_moment_write_once(handler, database, clear_digit, doubtful_digit):
    done = serve(handler, *[body(clear_digit)] * 20, body(doubtful_digit), keys=["k1"] * 21)
    assert len({d.record.id for d in done[:20]}) == 1
    assert isinstance(done[20], KeyReused)
    assert count(database, "records") == 1


def test_two_gateways_agree_on_a_key(handler, quickstart, local_host, database, clear_digit):
    other = make_handler(quickstart, {"digits": local_host}, database)

    async def main():
        return await asyncio.gather(*(h.predict(body(clear_digit), "k1") for h in [handler, other] * 8))

    assert len({done.record.id for done in asyncio.run(main())}) == 1
    assert count(database, "records") == 1


def test_a_batch_under_a_key_is_stored_item_by_item(handler, database, clear_digit, doubtful_digit):
    batch = json.dumps(
        {"items": [{"model": "digits", "input": x} for x in (clear_digit, [[]], doubtful_digit)]}
    ).encode()
    first = asyncio.run(handler.predict_batch(batch, "k2"))
    again = asyncio.run(handler.predict_batch(batch, "k2"))
    assert [r.record.id for r in (first[0], first[2])] == [r.record.id for r in (again[0], again[2])]
    assert isinstance(again[1], InvalidRequest)
    assert count(database, "records") == 2
    with pytest.raises(KeyReused):
        asyncio.run(handler.predict(body(clear_digit), "k2"))


class Broken(LocalHost):
    """A host that fails on inputs that are all zero, and hangs on those that are all one."""

    async def decide(self, inputs, groups, draws):
        if any(pixels.max() == 0 for pixels in inputs):
            raise RuntimeError("a bug in the model")
        if any(pixels.min() == 1 for pixels in inputs):
            await asyncio.sleep(60)
        return await super().decide(inputs, groups, draws)


@pytest.fixture
def broken(quickstart, digits_host, database):
    model = quickstart.models["digits"]
    hasty = model.model_copy(update={"host": model.host.model_copy(update={"timeout_seconds": 3.0})})
    config = quickstart.model_copy(update={"models": {"digits": hasty}})
    return make_handler(config, {"digits": Broken(digits_host)}, database)


def test_an_input_on_which_the_model_fails_is_held_alone(broken, database, clear_digit):
    done = serve(broken, body(clear_digit), body([[0] * 8] * 8), body(clear_digit))
    assert [d.record.action for d in done] == ["answer", "review", "answer"]
    held = done[1].record
    assert held.reason == "the model failed on this input, and what is unknown is held"
    assert (held.prediction, held.confidence, held.artifact, held.scores) == (None, None, None, {})
    with database.transaction() as connection:
        assert log.find_one(connection, held.id) == held
        assert cases.case(connection, held.id).status == "waiting"


def test_a_model_without_reviewers_abstains_when_it_fails(quickstart, digits_host, database):
    model = quickstart.models["digits"]
    alone = model.model_copy(update={"policy": {**model.policy, "otherwise": "abstain"}})
    alone.__dict__.pop("recipe", None)  # it was built from the other policy
    config = quickstart.model_copy(update={"models": {"digits": alone}})
    (held,) = serve(make_handler(config, {"digits": Broken(digits_host)}, database), body([[0] * 8] * 8))
    assert held.record.action == "abstain"
    assert held.record.label_probability == 0
    assert count(database, "review_items") == 0


def test_inputs_get_a_time_to_be_forgotten(quickstart, local_host, database, clear_digit):
    config = quickstart.model_copy(update={"keep_inputs_days": 30.0})
    (done,) = serve(make_handler(config, {"digits": local_host}, database), body(clear_digit))
    with database.transaction() as connection:
        row = connection.execute("select expires_at from payloads").fetchone()
    assert row[0] - done.record.created_at == timedelta(days=30)


def test_a_model_that_does_not_answer_in_time_answers_nothing(broken):
    (held,) = serve(broken, body([[1] * 8] * 8))
    assert held.record.action == "review"
    assert "no answer within 3 s" in held.record.reason


def test_an_output_that_is_not_a_number_is_held(handler, digits_host, database, clear_digit, monkeypatch):
    run = digits_host.model.run

    def spoilt(inputs, needs, **more):
        output = run(inputs, needs, **more)
        output.probabilities[0] = float("nan")
        return output

    monkeypatch.setattr(digits_host.model, "run", spoilt)
    first, second = serve(handler, body(clear_digit), body(clear_digit))
    assert first.record.action == "review"
    assert first.record.prediction is None
    assert first.record.confidence is None
    assert "not a number" in first.record.reason
    assert second.record.action == "answer"
    with database.transaction() as connection:
        assert log.find_one(connection, first.record.id) == first.record


def test_without_an_artifact_nothing_is_answered_until_one_is_promoted(quickstart, database, clear_digit, tmp_path):
    store = ArtifactStore(str(tmp_path))
    host = RunningHost("digits", quickstart.models["digits"], store)
    handler = make_handler(quickstart, {"digits": LocalHost(host)}, database)
    (refused,) = serve(handler, body(clear_digit))
    assert isinstance(refused, ArtifactNotFound)
    assert "demur fit digits" in str(refused)
    assert asyncio.run(handler.inquiries.health())["models"]["digits"]["status"] == "no artifact"
    assert count(database, "records") == 0

    shutil.copytree(f"{quickstart.artifacts}/digits/artifacts", tmp_path / "digits/artifacts")
    (name,) = store.names("digits")
    store.promote("digits", name, by="ada", why="", clock=lambda: datetime.now(UTC))
    host.refresh()
    (done,) = serve(handler, body(clear_digit))
    assert done.record.artifact == name


def test_the_shadow_is_on_record_and_the_caller_sees_nothing_of_it(two, database, clear_digit, doubtful_digit):
    config, store, first, second = two
    host = RunningHost("digits", config.models["digits"], store)
    handler = make_handler(config, {"digits": LocalHost(host)}, database)
    (before,) = serve(handler, body(clear_digit))
    assert "shadow" not in before.record.timings
    store.shadow("digits", second, by="ada", why="", clock=lambda: datetime.now(UTC))
    host.refresh()
    done = serve(handler, body(clear_digit))  # alone as before: other neighbours, other last digits
    done += serve(handler, body(doubtful_digit), body(clear_digit), keys=[None, "k"])
    (again,) = serve(handler, body(clear_digit), keys=["k"])
    assert again.replayed
    assert count(database, "shadow_decisions") == 3
    answer = wire.prediction_json(done[0].record)
    assert {**answer, "id": 0} == {**wire.prediction_json(before.record), "id": 0}
    for d in done:
        with database.transaction() as connection:
            shadow = find_shadow(connection, d.record.id)
            assert log.find_one(connection, d.record.id) == d.record
        assert d.record.artifact == first
        assert shadow.artifact == second
        assert shadow.prediction == d.record.prediction
        assert "the rival's limit" in shadow.reason
        assert d.record.timings["shadow"] > 0
        assert second not in json.dumps(asyncio.run(handler.inquiries.prediction(d.record.id)))
    assert asyncio.run(handler.inquiries.health())["models"]["digits"]["shadow"] == second


def test_a_canary_gets_its_share_and_every_record_names_who_decided(two, database, clear_digit):
    config, store, first, second = two
    store.start_canary(
        "digits", second, share=0.3, held_between=(0, 1), max_risk=None, by="", why="", clock=lambda: datetime.now(UTC)
    )
    host = RunningHost("digits", config.models["digits"], store)
    handler = make_handler(config, {"digits": LocalHost(host)}, database)
    done = serve(handler, *[body(clear_digit)] * 200)
    of_canary = [d.record for d in done if d.record.artifact == second]
    assert 30 < len(of_canary) < 90
    drawn = Draws(DRAW_KEY, "canary")
    for d in done:
        theirs = drawn.of(str(d.record.id)) < limit(0.3)
        assert d.record.artifact == (second if theirs else first)
        assert ("the rival's limit" in d.record.reason) == theirs
        assert set(d.record.scores) == (
            {"softmax_response"} if theirs else {"softmax_response", "entropy", "mahalanobis"}
        )
    assert asyncio.run(handler.inquiries.health())["models"]["digits"]["canary"] == {"artifact": second, "share": 0.3}


def test_draws_are_made_while_there_is_a_canary_and_not_otherwise(two, database, clear_digit, monkeypatch):
    config, store, first, second = two
    host, seen = RunningHost("digits", config.models["digits"], store), []

    class Noted(LocalHost):
        async def decide(self, inputs, groups, draws):
            seen.append(draws is not None)
            return await super().decide(inputs, groups, draws)

    handler = make_handler(config, {"digits": Noted(host)}, database)
    serve(handler, body(clear_digit))
    store.start_canary(
        "digits",
        second,
        share=0.9999999,
        held_between=(0, 1),
        max_risk=None,
        by="",
        why="",
        clock=lambda: datetime.now(UTC),
    )
    host.host.refresh()
    done = serve(handler, body(clear_digit)) + serve(handler, body(clear_digit))
    assert {d.record.artifact for d in done} == {second}
    assert seen == [False, False, True, True]  # the second was asked again, with a draw
    store.stop_canary("digits", by="", why="", clock=lambda: datetime.now(UTC))
    host.host.refresh()
    monkeypatch.setattr(handler.model("digits"), "_draws_until", 0.0)
    (last,) = serve(handler, body(clear_digit))
    assert last.record.artifact == first
    assert seen[4:] == [False]


def test_retries_under_a_key_meet_the_same_artifact(two, database, clear_digit):
    """Even those that the database has lost: what is drawn hangs on the key, not on the id."""
    config, store, _, second = two
    store.start_canary(
        "digits", second, share=0.5, held_between=(0, 1), max_risk=None, by="", why="", clock=lambda: datetime.now(UTC)
    )
    host = RunningHost("digits", config.models["digits"], store)
    handler = make_handler(config, {"digits": LocalHost(host)}, database)
    batch = json.dumps({"items": [{"model": "digits", "input": clear_digit}] * 20}).encode()
    tries = []
    for _ in range(3):
        done = asyncio.run(handler.predict_batch(batch, "k"))
        tries.append([d.record.artifact for d in done])
        with database.transaction() as connection:
            connection.execute("delete from idempotency_keys")
    assert tries[0] == tries[1] == tries[2]
    assert len(set(tries[0])) == 2  # items of one batch are drawn apart
    assert count(database, "records") == 60


@pytest.fixture
def checking(quickstart, local_host, database):
    """A handler that checks a fifth."""
    model = quickstart.models["digits"].model_copy(update={"spot_check": 0.2})
    config = quickstart.model_copy(update={"models": {"digits": model}})
    return make_handler(config, {"digits": local_host}, database)


def test_a_share_of_the_answers_is_checked_by_people(checking, database, clear_digit, doubtful_digit):
    done = serve(checking, *[body(clear_digit)] * 200, body(doubtful_digit))
    with database.transaction() as connection:
        kinds = dict(connection.execute("select record_id, kind from review_items").fetchall())
    drawn = Draws(DRAW_KEY, "spot-check")
    for d in done:
        selected = drawn.of(str(d.record.id)) < limit(0.2)
        held = d.record.action == "review"
        assert kinds.get(d.record.id) == ("held" if held else "spot_check" if selected else None)
        assert d.record.label_probability == (1 if held else 0.2)
        assert (wire.prediction_json(d.record)["review"] is None) == (not held)
    assert 20 < list(kinds.values()).count("spot_check") < 65
    drawn_one = next(record_id for record_id, kind in kinds.items() if kind == "spot_check")
    assert asyncio.run(checking.inquiries.prediction(drawn_one))["review"]["status"] == "waiting"


def test_what_is_held_without_a_person_is_checked_as_well(quickstart, digits_host, database):
    model = quickstart.models["digits"]
    alone = model.model_copy(update={"policy": {**model.policy, "otherwise": "abstain"}, "spot_check": 1.0})
    alone.__dict__.pop("recipe", None)  # it was built from the other policy
    config = quickstart.model_copy(update={"models": {"digits": alone}})
    (held,) = serve(make_handler(config, {"digits": Broken(digits_host)}, database), body([[0] * 8] * 8))
    assert (held.record.action, held.record.label_probability) == ("abstain", 1)
    with database.transaction() as connection:
        assert connection.execute("select kind from review_items").fetchall() == [("spot_check",)]


def test_nobody_is_drawn_where_no_spot_check_is_configured(handler, database, clear_digit):
    done = serve(handler, *[body(clear_digit)] * 50)
    assert {d.record.label_probability for d in done} == {0}
    assert count(database, "review_items") == 0


def test_the_group_goes_to_the_host_with_its_input(quickstart, local_host, database, clear_digit):
    seen = []

    class Noted(LocalHost):
        async def decide(self, inputs, groups, draws):
            seen.append((len(inputs), list(groups), draws))
            return await super().decide(inputs, groups, draws)

    handler = make_handler(quickstart, {"digits": Noted(local_host.host)}, database)
    serve(handler, body(clear_digit, group="a"), body(clear_digit), body(clear_digit, group="b"))
    assert seen == [(3, ["a", None, "b"], None)]


def test_unknown_models_are_named(handler, clear_digit):
    (refused,) = serve(handler, json.dumps({"model": "nobody", "input": clear_digit}).encode())
    assert isinstance(refused, UnknownModel)
    assert "there are: digits" in str(refused)


def test_a_host_that_is_still_starting_is_waited_for_and_no_longer(quickstart, database, clear_digit):
    class Starting:
        async def state(self):
            await asyncio.sleep(60)

    model = quickstart.models["digits"]
    hasty = model.model_copy(update={"host": model.host.model_copy(update={"timeout_seconds": 0.2})})
    handler = make_handler(
        quickstart.model_copy(update={"models": {"digits": hasty}}), {"digits": Starting()}, database
    )
    (refused,) = serve(handler, body(clear_digit))
    assert isinstance(refused, ModelNotReady)


def test_without_a_database_nothing_is_acknowledged(handler, database, clear_digit, monkeypatch):
    def gone():
        raise DatabaseUnavailable("PostgreSQL at somewhere does not answer")

    monkeypatch.setattr(database, "transaction", gone)
    (refused,) = serve(handler, body(clear_digit))
    assert isinstance(refused, DatabaseUnavailable)
    assert asyncio.run(handler.inquiries.health())["database"] == "unavailable"


def test_a_record_that_postgresql_refuses_takes_no_neighbour_with_it(handler, database, clear_digit):
    """The door lets no such group in; this is what happens if something else does one day."""
    bad = json.loads(body(clear_digit))

    async def main():
        requests = [wire.PredictRequest(**bad), wire.PredictRequest(**bad)]
        object.__setattr__(requests[1], "group", "a\0b")
        return await handler.pipeline.run(RequestGroup(requests=requests, uses=[None, None]))

    good, refused = asyncio.run(main())
    assert good.record.action == "answer"
    assert type(refused).__name__ == "Unwritable"
    assert count(database, "records") == 1


def test_where_too_much_waits_to_be_written_rows_are_not_decided_again(handler, database, clear_digit, monkeypatch):
    """One by one they would find no more room, and move the control of their model a second time."""
    tries = []

    async def full(items):
        tries.append(len(items))
        raise Overloaded("too much waits for the database already")

    monkeypatch.setattr(handler._writer._commits, "submit", full)
    refused = serve(handler, *[body(clear_digit)] * 3)
    assert [type(one) for one in refused] == [Overloaded] * 3
    assert tries == [1]
    assert count(database, "records") == 0


def test_a_record_that_json_cannot_spell_takes_no_neighbour_with_it(database):
    odd, fine = entry(reply={"text": "\ud800", "finish_reason": "stop"}), entry()
    [refused], [written] = journal.commit(database, [Writing(odd), Writing(fine)])
    assert type(refused).__name__ == "Unwritable"
    assert written.record == fine.record


def test_a_failure_over_one_prediction_takes_no_neighbour_with_it(handler, database, clear_digit, monkeypatch):
    def fails_for_one(model, groups, confidences):
        if "odd" in groups:
            raise ZeroDivisionError
        return [0.0] * len(groups)

    monkeypatch.setattr(handler._finisher.spot_checks, "probabilities", fails_for_one)

    async def main():
        bodies = [body(clear_digit, group=group) for group in ("a", "odd", "b")]
        return await asyncio.gather(*(handler.predict(one, None) for one in bodies), return_exceptions=True)

    first, odd, second = asyncio.run(main())
    assert [first.record.group, type(odd), second.record.group] == ["a", ZeroDivisionError, "b"]
    assert count(database, "records") == 2


def test_what_a_refused_record_holds_is_in_no_log(database, caplog):
    secret = "they said it in confidence"
    odd = replace(entry(input=secret), record=replace(entry().record, reason=secret, prediction=secret, model=None))
    caplog.set_level("INFO", logger="demur.journal")
    logging.getLogger("demur").propagate = True
    ((refused,),) = journal.commit(database, [Writing(odd)])
    assert "violates not-null constraint" in str(refused)
    assert "violates not-null constraint" in caplog.text
    assert secret not in caplog.text + str(refused)


def test_what_became_of_it(handler, database, doubtful_digit):
    (done,) = serve(handler, body(doubtful_digit))
    record_id = done.record.id

    async def look():
        return await handler.inquiries.prediction(record_id)

    assert asyncio.run(look())["review"]["status"] == "waiting"
    with database.transaction() as connection:
        resolve(connection, record_id, "ada", "8")
    seen = asyncio.run(look())
    assert seen["review"]["status"] == "resolved"
    assert (seen["outcome"]["label"], seen["outcome"]["author"]) == ("8", "ada")
    asyncio.run(handler.inquiries.add_outcome(record_id, b'{"label": "3", "source": "the archive"}'))
    seen = asyncio.run(look())
    assert seen["outcome"]["label"] == "3"
    assert [(told["source"], told["counts"]) for told in seen["outcomes"]] == [("review", False), ("the archive", True)]
    assert seen["counts_by"] == "the latest"


def test_the_configured_outcome_counts(quickstart, local_host, database, doubtful_digit):
    config = quickstart.model_copy(
        update={
            "models": {
                "digits": quickstart.models["digits"].model_copy(
                    update={"outcomes": OutcomesConfig(precedence=("lab", "review"))}
                )
            }
        }
    )
    handler = make_handler(config, {"digits": local_host}, database)
    (done,) = serve(handler, body(doubtful_digit))

    async def tell_and_look():
        for label, source in [("1", "lab"), ("2", "crm"), ("3", "lab"), ("4", "api")]:
            await handler.inquiries.add_outcome(done.record.id, json.dumps({"label": label, "source": source}).encode())
        return await handler.inquiries.prediction(done.record.id)

    seen = asyncio.run(tell_and_look())
    assert seen["outcome"]["label"] == "3"
    assert [told["counts"] for told in seen["outcomes"]] == [False, False, True, False]
    assert seen["counts_by"] == "lab, then review, then any other source; among equals the latest"


def test_ids_are_the_servers(handler, clear_digit):
    refused, done = serve(handler, body(clear_digit, id="01234567-89ab-7cde-8f01-23456789abcd"), body(clear_digit))
    assert isinstance(refused, InvalidRequest)
    assert isinstance(done.record.id, UUID)
