"""What may be done to artifacts over HTTP, by the client, on a real gateway, store and database."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from starlette.testclient import TestClient
from uuid_utils.compat import uuid7

from demur import AsyncClient, Client
from demur.calibration_store import model_jobs
from demur.calibration_store.model_jobs import JobStatus
from demur.calibration_store.reach import Reach, ReachPoint
from demur.calibration_store.shortfall import PromiseOutOfReach
from demur.client.errors import InvalidRequest, JobFailed, NotFound, NotPossible, StillWaiting, TooOften, Unreachable
from demur.serve.access.needs import GATEWAY
from demur.serve.config.access import Scope
from demur.serve.jobs.models import worker
from demur.serve.jobs.models.runner import JobRunner
from demur.serve.web.login.access_middleware import AccessMiddleware
from demur.serve.web.native.app import gateway_app
from tests.conftest import digit_rows
from tests.serve.access.doors import bearer, keeper_of, make
from tests.serve.conftest import make_handler
from tests.serve.listening import listening

pytestmark = pytest.mark.slow  # jobs run in processes of their own, as they do in the service


@pytest.fixture
def released(two, local_host, database, tmp_path):
    """A service with two artifacts: its configuration, its application, and their names."""
    config, _, first, second = two
    config = config.model_copy(update={"database": database.dsn, "data": tmp_path})
    handler = make_handler(config, {"digits": local_host}, database)
    return config, gateway_app(handler, max_body_bytes=config.limits.body_bytes), first, second


@pytest.fixture
def asking(released):
    _, app, _, _ = released
    with listening(app) as url, Client(url, name="ada") as client:
        yield client


def work(config, database):
    return JobRunner(config, database).run_waiting()


def test_a_fit_over_http_is_of_the_log_and_takes_no_other_traffic(released):
    _, app, _, _ = released
    with TestClient(app) as client:
        refused = client.post("/v1/releases/digits/jobs", json={"kind": "fit", "for_traffic": "new.jsonl"})
    assert refused.status_code == 422
    assert "for_traffic" in refused.text


def test_what_was_fitted_and_which_of_it_decides(asking, released):
    _, _, first, second = released
    found = {one.name: one for one in asking.artifacts.of("digits")}
    assert {name: one.role for name, one in found.items()} == {first: "in force", second: None}
    assert found[first].promises
    assert found[first].policy == "target_risk"
    change = asking.artifacts.promote("digits", second, why="it is better")
    assert (change.action, change.artifact, change.by, change.why) == ("promote", second, "ada", "it is better")
    assert change.raw["standing"]["in_force"] == second
    asking.artifacts.shadow("digits", first, why="to be sure")
    assert {one.role for one in asking.artifacts.of("digits")} == {"in force", "shadow"}
    asking.artifacts.shadow("digits", None, why="sure")
    assert asking.artifacts.rollback("digits", why="it was not").artifact == first
    started = asking.artifacts.canary("digits", second, share=0.1, held_between=(0, 0.5), why="a tenth first")
    assert started.raw["standing"]["canary"]["share"] == 0.1
    asking.artifacts.canary("digits", None, why="enough")
    actions = [change.action for change in asking.artifacts.history("digits")]
    assert actions == ["promote", "promote", "shadow", "stop_shadow", "rollback", "canary", "stop_canary"]


def test_what_cannot_be_done_is_refused_with_a_reason(asking, released):
    _, _, first, second = released
    artifacts = asking.artifacts
    for wrong in ("nobody", "../../other/artifacts/x", ".."):
        with pytest.raises(NotFound, match="GET /v1/artifacts/digits lists them"):
            artifacts.promote("digits", wrong, why="because")
    with pytest.raises(NotFound, match="there is no model 'letters'; there are: digits"):
        artifacts.of("letters")
    with pytest.raises(NotPossible):
        artifacts.rollback("digits", why="there is nothing before")
    with pytest.raises(NotPossible):
        artifacts.shadow("digits", first, why="it is in force already")
    with pytest.raises(InvalidRequest, match="share, held_between: a canary has both"):
        artifacts.canary("digits", second, share=0.5, why="because")
    with pytest.raises(InvalidRequest, match="leave share, held_between and max_risk out"):
        artifacts.canary("digits", None, share=0.5, why="because")
    with pytest.raises(InvalidRequest, match="held_between"):
        artifacts.canary("digits", second, share=0.5, held_between=(0.5, 0.2), why="because")
    with pytest.raises(InvalidRequest, match="why"):
        artifacts.promote("digits", second, why="")
    with pytest.raises(InvalidRequest, match="artifact: replay needs the name of an artifact here"):
        artifacts.replay("digits", None)
    with pytest.raises(InvalidRequest, match="why: a promotion needs a reason"):
        artifacts.fit("digits", promote=True)
    with pytest.raises(NotFound, match="there is no job"):
        artifacts.job(uuid7())
    assert len(artifacts.history("digits")) == 1


@pytest.mark.long
def test_a_release_without_the_database(asking, released, database, digits):
    """What a pipeline does: predict, tell outcomes, fit, compare, replay, promote."""
    config, _, first, second = released
    rows = digit_rows(digits)[:240]
    predictions = asking.predict_many("digits", [row["input"] for row in rows])
    asking.add_outcomes([{"id": one.id, "label": row["label"]} for one, row in zip(predictions, rows, strict=True)])
    since = datetime.now(UTC) - timedelta(hours=1)
    asked = asking.artifacts.fit(
        "digits", since=since, every_outcome_known=True, anyway=True, promote=True, why="fresh traffic"
    )
    assert (asked.status, asked.asked_by) == ("waiting", "ada")
    with pytest.raises(StillWaiting, match="the job has not ended within 0 s; it is waiting"):
        asking.artifacts.wait(asked.id, timeout=0)
    compared = asking.artifacts.compare("digits", first, second, since=since)
    replayed = asking.artifacts.replay("digits", second)
    assert work(config, database) == 3
    fitted = asking.artifacts.wait(asked.id, timeout=5)
    in_force = next(one for one in asking.artifacts.of("digits") if one.role == "in force")
    assert in_force.name == fitted.result["artifact"]
    assert fitted.result["n_fitted"] + fitted.result["n_reported"] == len(rows)
    assert asking.artifacts.history("digits")[-1].why == "fresh traffic"
    assert fitted.share == 1.0
    assert {"a", "b", "numbers", "flips"} <= set(asking.artifacts.wait(compared.id).result)
    assert asking.artifacts.wait(replayed.id).result


def test_a_job_that_fails_says_why(asking, released, database):
    config, *_ = released
    asked = asking.artifacts.fit("digits")
    work(config, database)
    with pytest.raises(JobFailed, match=r"fit of digits failed: .*NothingToFitOn"):
        asking.artifacts.wait(asked.id)


def test_a_fit_that_is_refused_tells_what_its_labels_could_promise(asking, released, database, monkeypatch):
    config, *_ = released
    with database.transaction() as connection:
        model_jobs.ask(connection, uuid7(), "digits", "fit", {}, asked_by="ada")
        job = model_jobs.take(connection, lease_seconds=60)
    point = ReachPoint(max_risk=0.05, answered=None, labels=900)
    refused = PromiseOutOfReach("too few labels")
    refused.reach = Reach(max_risk=0.05, delta=0.1, method="sgr", n=300, labels=900, settings=[], curve=[point])

    def refuse(*_, **__):
        raise refused

    monkeypatch.setattr(worker, "result_of", refuse)
    with pytest.raises(PromiseOutOfReach):
        worker.work(config, database, job)
    with database.transaction() as connection:
        model_jobs.failed(connection, job, "PromiseOutOfReach: too few labels")
    told = asking.artifacts.job(str(job.id))
    assert (told.status, told.error) == ("failed", "PromiseOutOfReach: too few labels")
    assert told.result["reach"]["labels"] == 900
    assert told.result["reach"]["curve"] == [{"max_risk": 0.05, "answered": None, "labels": 900}]


def test_a_job_whose_process_dies_is_tried_once_more(asking, released, database):
    config, *_ = released
    asked = asking.artifacts.fit("digits")
    died = JobRunner(config, database, worker=(sys.executable, "-c", "import os; os.abort()"))
    assert died.run_waiting() == 1
    failed = asking.artifacts.job(asked.id)
    assert failed.status == "failed"
    assert "ended with status -6" in failed.error
    again = asking.artifacts.fit("digits")
    for _ in range(model_jobs.MOST_ATTEMPTS):  # whoever has it goes, and the machine with it
        with database.transaction() as connection:
            assert model_jobs.take(connection, lease_seconds=-1).id.hex == again.id.replace("-", "")
    with database.transaction() as connection:
        assert model_jobs.take(connection, lease_seconds=60) is None
    assert "ended without a word" in asking.artifacts.job(again.id).error


def test_what_is_finished_after_the_lease_ran_out_does_not_count(released, database):
    with database.transaction() as connection:
        model_jobs.ask(connection, uuid7(), "digits", "fit", {}, asked_by="ada")
        slow = model_jobs.take(connection, lease_seconds=-1)
        quick = model_jobs.take(connection, lease_seconds=60)
        assert slow.id == quick.id
        with pytest.raises(model_jobs.JobLost):
            model_jobs.done(connection, slow, {"artifact": "of the slow one"})
        model_jobs.done(connection, quick, {"artifact": "of the quick one"})
        found = model_jobs.job_of(connection, quick.id)
    assert (found.status, found.result) == (JobStatus.DONE, {"artifact": "of the quick one"})


def test_jobs_of_one_model_are_bounded(asking):
    for _ in range(model_jobs.MOST_OPEN):
        asking.artifacts.fit("digits")
    with pytest.raises(TooOften, match="20 jobs of model 'digits' wait already"):
        asking.artifacts.fit("digits")


def test_with_await(released, database):
    config, app, first, second = released

    async def ask(url):
        async with AsyncClient(url, name="ada") as client:
            await client.artifacts.promote("digits", second, why="because")
            await client.artifacts.rollback("digits", why="because")
            asked = await client.artifacts.replay("digits", first)
            await asyncio.to_thread(work, config, database)
            with pytest.raises(JobFailed):
                await client.artifacts.wait(asked.id)
            return [change.artifact for change in await client.artifacts.history("digits")]

    with listening(app) as url:
        assert asyncio.run(ask(url)) == [first, second, first]


def test_only_keys_with_the_scope_admin_and_for_the_model(released, database):
    _, app, first, _ = released
    guarded = AccessMiddleware(app, keeper_of(database), GATEWAY)
    with TestClient(guarded, raise_server_exceptions=False) as client:
        admin = make(database, Scope.ADMIN, name="pipeline")
        asked = client.post("/v1/releases/digits/jobs", json={"kind": "fit"}, headers=bearer(admin))
        assert (asked.status_code, asked.json()["asked_by"]) == (202, "pipeline")
        others = {
            "predicts": (make(database, Scope.PREDICT, name="app"), "NotAllowed"),
            "another model": (make(database, Scope.ADMIN, name="else", models=["letters"]), "NotAllowed"),
        }
        for key, _ in others.values():
            for path in ("/v1/artifacts/digits", f"/v1/jobs/{asked.json()['id']}", "/v1/releases/digits"):
                assert client.get(path, headers=bearer(key)).status_code == 403
            promoted = client.post(
                "/v1/releases/digits/promote", json={"artifact": first, "why": "x"}, headers=bearer(key)
            )
            assert promoted.status_code == 403


def test_a_change_is_sent_once_even_if_the_reply_is_lost():
    """A rollback that is sent again goes one step further."""
    sent = []

    def lose(request):

        sent.append(request)
        raise httpx.ReadError("the connection broke")

    with (
        Client("http://demur.test", transport=httpx.MockTransport(lose)) as client,
        pytest.raises(Unreachable, match="broke"),
    ):
        client.artifacts.rollback("digits", why="because")
    assert len(sent) == 1


def test_show_gives_the_manifest(released):
    _, app, first, _ = released
    with TestClient(app) as client:
        assert client.get(f"/v1/artifacts/digits/{first}").json()["promises"]
        refused = client.get("/v1/artifacts/digits/nobody")
        assert (refused.status_code, refused.json()["error"]["kind"]) == (404, "UnknownArtifact")
        assert client.get("/v1/artifacts/digits/..%2f..%2fx").status_code == 404
