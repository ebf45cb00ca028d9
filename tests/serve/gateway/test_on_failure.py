"""A model whose endpoint is away: from a real endpoint through host, fit, gateway and HTTP to the caller, and what is
on record of it."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import grpc
import httpx
import openai
import pytest
import uvicorn
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from tritonclient.grpc import service_pb2

from demur.audit.ledger.from_database import read_ledger
from demur.calibration_store.store import ArtifactStore
from demur.serve.access.caller import Caller, Via
from demur.serve.config.file import Config, LimitsConfig
from demur.serve.contract.inference_protocol.messages import SERVICE
from demur.serve.fitting import rerun
from demur.serve.fitting.fit import fit_model
from demur.serve.fitting.rerun import NobodyReplied
from demur.serve.gateway.upstream import UpstreamUnavailable
from demur.serve.hosts.host import Host
from demur.serve.telemetry.request_middleware import RequestMiddleware
from demur.serve.web.inference_protocol.grpc_server import listening
from demur.serve.web.native.app import gateway_app
from demur.traffic import failed_requests, log
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.outcomes import LATEST
from demur.uncertainty.checks import UnknownScore
from tests.serve.conftest import make_handler
from tests.serve.endpoint import choice, choices, delta, refusal, running, token
from tests.serve.gateway.test_cost_on_record import LocalLanguageHost

LIMIT = 0.2


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


def says(text):
    """A model whose words hang on the question: of what it doubts it is not sure."""

    def said(body):
        sure = "doubt" not in body["messages"][-1]["content"]
        told = choice(text, [token(text, -0.01 if sure else -0.5)])
        return choices(told if body.get("logprobs") else choice(text))

    return said


@pytest.fixture
def endpoint():
    with running() as server:
        server.replies = [says("It is four")]
        yield server


@pytest.fixture
def other():
    with running() as server:
        server.replies = [says("It is surely four")]
        yield server


def model(endpoint, **more):
    host = {"timeout_seconds": 20, "retries": 0, "max_tokens": 20, **more.pop("host", {})}
    return {
        "task": {"kind": "generate"},
        "host": {"kind": "openai", "base_url": endpoint.url, "model": "m", **host},
        "scores": ["improbability"],
        "confidence": {"score": "improbability", "calibrator": "platt"},
        "policy": {"kind": "threshold", "score": "improbability", "limit": LIMIT},
        **more,
    }


def configured(tmp_path, **models):
    return Config.model_validate({"artifacts": str(tmp_path / "artifacts"), "models": models})


def fitted(config, tmp_path, *names):
    """An artifact in force for each of these models: sure replies are right, most of the others are not."""
    rows = [
        {"input": f"{'doubt' if at % 3 == 0 else 'sure'} {at}", "label": "It is four" if at % 3 or at % 5 == 0 else "5"}
        for at in range(90)
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    store, done = ArtifactStore(config.artifacts), {}
    for name in names or config.models:
        done[name] = fit_model(config, name, data, clock=clock, progress=lambda *_: None)
        store.promote(name, done[name].name, by="tests", why="", clock=clock)
    return done


@asynccontextmanager
async def gateway(config, database):
    """A handler whose hosts run in this loop, and its address over HTTP."""
    store = ArtifactStore(config.artifacts)
    hosts = {name: await Host.started(name, one, store, others=config.models) for name, one in config.models.items()}
    handler = make_handler(config, {name: LocalLanguageHost(host) for name, host in hosts.items()}, database)
    app = RequestMiddleware(gateway_app(handler, max_body_bytes=100_000), handler.telemetry)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            client.handler = handler
            yield client
    finally:
        server.should_exit = True
        await serving
        for host in hosts.values():
            await host.model.close()


def served(config, database, use):
    async def main():
        async with gateway(config, database) as client:
            return await use(client)

    return asyncio.run(main())


def counts(database):
    tables = ("records", "payloads", "review_items", "idempotency_keys", "shadow_decisions", "failed_requests")
    with database.transaction() as connection:
        return {table: connection.execute(f"select count(*) from {table}").fetchone()[0] for table in tables}


NOTHING = dict.fromkeys(("records", "payloads", "review_items", "idempotency_keys", "shadow_decisions"), 0)


def failures(database):
    with database.transaction() as connection:
        return connection.execute(
            'select model, "group", status, reason, retry_after, passed_to, request_id from failed_requests order by id'
        ).fetchall()


def ask(client, text="sure", name="talker", **more):
    return client.post("/v1/predict", json={"model": name, "input": text}, **more)


BUSY = {"retry-after": "7"}

SAID = json.dumps({"messages": [{"role": "user", "content": "sure"}]})
AS_BYTES = len(SAID).to_bytes(4, "little") + SAID.encode()


def test_the_caller_of_every_door_is_told(endpoint, database, tmp_path):
    config = configured(tmp_path, talker=model(endpoint), hasty=model(endpoint, chat={"stream": "tentative"}))
    fitted(config, tmp_path)
    endpoint.replies = [refusal(429, "slow down", **BUSY)]
    words = "model 'talker' could not be asked: it answered 429, and nothing was decided; try again a little later"

    async def use(client):
        native = await ask(client, headers={"X-Request-Id": "seven"})
        assert (native.status_code, native.headers["retry-after"]) == (503, "7")
        assert native.json() == {"error": {"kind": "UpstreamUnavailable", "message": words}}

        batch = await client.post("/v1/predict/batch", json={"items": [{"model": "talker", "input": "sure"}] * 2})
        assert batch.status_code == 200
        told = {"kind": "UpstreamUnavailable", "message": words}
        item = {"status": 503, "replayed": False, "prediction": None, "error": told, "retry_after": 7}
        assert batch.json() == {"results": [item] * 2}

        async with openai.AsyncOpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0) as official:
            for name, stream in (("talker", False), ("talker", True), ("hasty", True)):
                with pytest.raises(openai.InternalServerError) as refused:
                    await official.chat.completions.create(
                        model=name, messages=[{"role": "user", "content": "sure"}], stream=stream
                    )
                assert refused.value.status_code == 503
                assert refused.value.response.headers["retry-after"] == "7"
                assert (refused.value.code, refused.value.type) == ("UpstreamUnavailable", "server_error")

        body = {"inputs": [{"name": "input", "shape": [1], "datatype": "BYTES", "data": [SAID]}]}
        rest = await client.post("/v2/models/talker/infer", json=body)
        assert (rest.status_code, rest.headers["retry-after"], rest.json()) == (503, "7", {"error": words})

        async with (
            listening(client.handler, host="127.0.0.1", port=0, limits=LimitsConfig()) as port,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            infer = channel.unary_unary(
                f"/{SERVICE}/ModelInfer",
                request_serializer=service_pb2.ModelInferRequest.SerializeToString,
                response_deserializer=service_pb2.ModelInferResponse.FromString,
            )
            request = service_pb2.ModelInferRequest(model_name="talker", raw_input_contents=[AS_BYTES])
            request.inputs.add(name="input", datatype="BYTES", shape=[1])
            with pytest.raises(grpc.aio.AioRpcError) as unavailable:
                await infer(request, timeout=60)
            assert (unavailable.value.code(), unavailable.value.details()) == (grpc.StatusCode.UNAVAILABLE, words)
            assert unavailable.value.trailing_metadata()["retry-after"] == "7"

            endpoint.replies = [refusal(401, "who are you?")]
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await infer(request, timeout=60)
            assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION

        native = await ask(client)
        assert (native.status_code, "retry-after" in native.headers) == (502, False)
        assert native.json()["error"]["kind"] == "UpstreamFailed"
        assert "it refused the key, and nothing was decided; whoever runs this" in native.json()["error"]["message"]
        assert endpoint.url not in native.text  # which is nobody's business
        health = (await client.get("/healthz")).json()
        assert f"{endpoint.url} refused the key in OPENAI_API_KEY" in health["models"]["talker"]["detail"]

    served(config, database, use)
    assert counts(database) == {**NOTHING, "failed_requests": 10}
    first, *_, last = failures(database)
    assert first == ("talker", None, 503, f"{endpoint.url} answered 429: slow down", 7, None, "seven")
    assert last[2:4] == (502, f"{endpoint.url} refused the key in OPENAI_API_KEY (401: who are you?)")
    ledger = read_ledger(database, "talker", precedence=LATEST, since=None, until=None, as_of=datetime.now(UTC))
    assert len(ledger) == 0


def test_an_idempotency_key_is_not_used_up_by_a_failure(endpoint, database, tmp_path):
    config = configured(tmp_path, talker=model(endpoint))
    fitted(config, tmp_path)
    key = {"Idempotency-Key": "k1"}

    async def use(client):
        endpoint.replies = [refusal(500)]
        items = {"items": [{"model": "talker", "input": text} for text in ("sure 1", "sure 2")]}
        assert (await ask(client, headers=key)).status_code == 503
        endpoint.replies = [lambda body: refusal(500) if "2" in body["messages"][0]["content"] else says("four")(body)]
        first = (await client.post("/v1/predict/batch", json=items, headers={"Idempotency-Key": "k2"})).json()
        endpoint.replies = [says("It is four")]
        assert (await ask(client, headers=key)).json()["action"] == "answer"
        again = (await client.post("/v1/predict/batch", json=items, headers={"Idempotency-Key": "k2"})).json()
        return [[one["status"] for one in told["results"]] for told in (first, again)], first, again

    statuses, first, again = served(config, database, use)
    assert statuses == [[200, 503], [200, 200]]
    assert again["results"][0] == {**first["results"][0], "replayed": True}  # the same record
    assert counts(database)["records"] == 3


@pytest.mark.parametrize(
    "said",
    [
        choices(choice("", finish="content_filter")),
        choices(),
        Response("{", media_type="application/json"),
        refusal(400, "the prompt is too long"),
    ],
)
def test_what_may_be_the_inputs_fault_is_held(endpoint, database, tmp_path, said):
    config = configured(tmp_path, talker=model(endpoint))
    fitted(config, tmp_path)
    endpoint.replies = [said]
    told = served(config, database, ask).json()
    assert (told["action"], told["prediction"]) == ("review", None)
    assert counts(database) == {**NOTHING, "records": 1, "payloads": 1, "review_items": 1, "failed_requests": 0}


def test_held_where_that_is_configured(endpoint, database, tmp_path):
    config = configured(tmp_path, talker=model(endpoint, on_failure="hold"))
    fitted(config, tmp_path)
    endpoint.replies = [refusal(500, "boom")]
    told = served(config, database, ask).json()
    assert told["action"] == "review"
    assert (
        told["reason"]
        == f"the model could not be asked: {endpoint.url} answered 500: boom, and what is unknown is held"
    )
    assert counts(database)["failed_requests"] == 0


def test_a_model_that_is_too_slow(endpoint, database, tmp_path):
    config = configured(tmp_path, talker=model(endpoint), slow=model(endpoint, host={"timeout_seconds": 1}))
    fitted(config, tmp_path, "slow")

    async def use(client):
        endpoint.delay = 30
        return await ask(client, name="slow")

    told = served(config, database, use)
    assert told.status_code == 503
    assert "gave no" in told.json()["error"]["message"]
    assert failures(database)[0][2] == 503


def test_a_tentative_stream_that_breaks_ends_with_an_error(endpoint, database, tmp_path):
    config = configured(tmp_path, hasty=model(endpoint, chat={"stream": "tentative"}))
    fitted(config, tmp_path)
    broken = {"error": {"message": "provider is down", "code": 503}}
    endpoint.replies = [endpoint.streams([delta("It "), delta("is "), broken])]

    async def use(client):
        async with openai.AsyncOpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0) as official:
            chunks = await official.chat.completions.create(
                model="hasty", messages=[{"role": "user", "content": "sure"}], stream=True
            )
            heard = []

            async def listen():
                async for chunk in chunks:
                    heard.append(chunk.choices[0].delta.content)

            with pytest.raises(openai.APIError, match="it answered 503, and nothing was decided"):
                await listen()
            return "".join(heard)

    assert served(config, database, use).startswith("It ")
    assert counts(database) == {**NOTHING, "failed_requests": 1}


def test_the_following_endpoint_answers_by_the_same_artifact(endpoint, other, database, tmp_path):
    told = model(endpoint, host={"endpoints": [{"base_url": other.url}]}, on_failure="next")
    config = configured(tmp_path, talker=told)
    [name] = [done.name for done in fitted(config, tmp_path).values()]
    endpoint.replies = [refusal(503)]

    async def use(client):
        said = (await ask(client)).json()
        other.replies = [refusal(503)]
        return said, (await ask(client)).status_code

    said, both_away = served(config, database, use)
    assert (said["prediction"], said["action"], said["artifact"]) == ("It is surely four", "answer", name)
    assert both_away == 503
    with database.transaction() as connection:
        [cost] = connection.execute("select cost from records").fetchone()
    assert (cost["calls"], cost["elsewhere"]) == (1, {other.url: 1})
    assert "elsewhere" not in said["cost"]  # it is for those who run the service


def falls_back(endpoint, other, tmp_path):
    config = configured(tmp_path, talker=model(endpoint, on_failure="next", fall_back_to="spare"), spare=model(other))
    return config, fitted(config, tmp_path)


def test_another_model_decides_by_its_own_artifact(endpoint, other, database, tmp_path):
    config, done = falls_back(endpoint, other, tmp_path)
    endpoint.replies = [refusal(503, "away")]
    key = {"Idempotency-Key": "k1"}

    async def use(client):
        first = (await ask(client, headers=key)).json()
        endpoint.replies = [says("It is four")]
        assert (await ask(client, headers=key)).json() == first
        endpoint.replies = [refusal(503, "away")]
        items = [{"model": name, "input": "doubt"} for name in ("talker", "spare")]
        batch = (await client.post("/v1/predict/batch", json={"items": items})).json()["results"]
        chat = await client.post(
            "/v1/chat/completions", json={"model": "talker", "messages": [{"role": "user", "content": "sure"}]}
        )
        body = {"inputs": [{"name": "input", "shape": [1], "datatype": "BYTES", "data": [SAID]}]}
        rest = await client.post("/v2/models/talker/infer", json=body)
        pinned = await client.post(f"/v2/models/talker/versions/{done['talker'].name}/infer", json=body)
        return first, batch, chat.json(), rest.json(), pinned

    first, batch, chat, rest, pinned = served(config, database, use)
    assert (first["model"], first["artifact"], first["action"]) == ("spare", done["spare"].name, "answer")
    assert first["prediction"] == "It is surely four"
    assert first["reason"].endswith("; asked in the place of 'talker', which was away")
    assert [one["prediction"]["model"] for one in batch] == ["spare", "spare"]
    assert [one["prediction"]["action"] for one in batch] == ["review", "review"]
    assert (chat["model"], chat["choices"][0]["message"]["content"]) == ("spare", "It is surely four")
    assert "error" not in rest, rest
    assert (rest["model_version"], rest["parameters"]["model"]) == (done["spare"].name, "spare")
    assert pinned.status_code == 503  # who wants this artifact gets no other
    with database.transaction() as connection:
        assert connection.execute("select distinct model from records").fetchall() == [("spare",)]
        [told, alone] = failed_requests.count(connection, model="talker", since=None, until=None)[::-1]
    assert (told.passed_to, told.n) == ("spare", 4)
    assert (alone.passed_to, alone.n) == (None, 1)


def test_who_may_not_ask_the_other_model_is_told(endpoint, other, database, tmp_path):
    config, _ = falls_back(endpoint, other, tmp_path)
    endpoint.replies = [refusal(503)]
    caller = Caller(name="ada", scopes=frozenset(), via=Via.KEY, models=frozenset({"talker"}))

    async def use(client):
        body = json.dumps({"model": "talker", "input": "sure"}).encode()
        with pytest.raises(UpstreamUnavailable):
            await client.handler.predict(body, None, caller)

    served(config, database, use)
    assert failures(database)[0][5] is None


def test_where_the_other_model_cannot_stand_in_the_first_is_told_of(endpoint, other, database, tmp_path):
    config = configured(tmp_path, talker=model(endpoint, on_failure="next", fall_back_to="spare"), spare=model(other))
    fitted(config, tmp_path, "talker")  # and the spare one has no artifact
    endpoint.replies = [refusal(503)]
    assert "model 'talker' could not be asked" in served(config, database, ask).json()["error"]["message"]


def test_a_model_of_a_cascade_that_is_away(endpoint, other, database, tmp_path):
    """What is not answered because the first model is away is not what its artifact was fitted for."""
    config = configured(tmp_path, talker=model(endpoint, escalate_to="large"), large=model(other))
    fitted(config, tmp_path, "talker")
    held = config.model_copy(
        update={"models": {n: m.model_copy(update={"on_failure": "hold"}) for n, m in config.models.items()}}
    )

    async def use(client):
        escalated = (await ask(client, "doubt")).json()
        other.replies = [refusal(503)]
        later = await ask(client, "doubt")
        other.replies = [says("It is surely four")]
        endpoint.replies = [refusal(503)]
        return escalated, later.status_code, (await ask(client, "doubt")).status_code

    escalated, later, first = served(config, database, use)
    assert [step["model"] for step in escalated["steps"]] == ["talker", "large"]
    assert (later, first) == (503, 503)
    asked = len(other.asked)
    told = served(held, database, ask).json()
    assert (told["action"], len(other.asked)) == ("review", asked)
    assert "could not be asked" in told["reason"]


def test_what_cannot_be_written_is_not_told(endpoint, database, tmp_path):
    config = configured(tmp_path, talker=model(endpoint))
    fitted(config, tmp_path)
    endpoint.replies = [refusal(500)]

    async def use(client):
        database.close()
        return await ask(client)

    told = served(config, database, use)
    assert (told.status_code, told.json()["error"]["kind"]) == (503, DatabaseUnavailable.__name__)


def test_what_an_endpoint_repeats_is_redacted(endpoint, database, tmp_path):
    told = {"redact": {"patterns": {"number": {"pattern": r"\d{9}"}}}}
    config = Config.model_validate(
        {"artifacts": str(tmp_path / "artifacts"), "models": {"talker": model(endpoint)}, **told}
    )
    fitted(config, tmp_path)
    endpoint.replies = [refusal(500, "cannot read 123456789")]
    served(config, database, ask)
    assert failures(database)[0][3] == f"{endpoint.url} answered 500: cannot read [removed]"


REFUSES_TEMPERATURE = JSONResponse(
    {"error": {"message": "Unsupported value: 'temperature'", "param": "temperature", "code": "unsupported_value"}}, 400
)


def reasoning(body):
    return REFUSES_TEMPERATURE if "temperature" in body else says("It is four")(body)


def test_an_artifact_judges_only_replies_of_the_kind_that_it_was_fitted_for(endpoint, database, tmp_path):
    config = configured(tmp_path, talker=model(endpoint))
    fitted(config, tmp_path)

    async def use(client):
        assert (await ask(client)).json()["action"] == "answer"
        endpoint.replies = [reasoning]
        return (await ask(client)).json(), (await client.get("/healthz")).json()

    told, health = served(config, database, use)
    assert (told["action"], told["prediction"]) == ("review", None)
    assert "the endpoint refuses temperature=0, with which artifact talker-" in told["reason"]
    assert "fit a new one with `demur fit`" in told["reason"]
    assert f"{endpoint.url} refuses temperature=0" in health["models"]["talker"]["detail"]

    async def after_a_restart(client):
        return await ask(client), (await client.get("/healthz")).json()

    refused, health = served(config, database, after_a_restart)
    assert refused.status_code == 503
    assert "the endpoint refuses temperature=0" in health["models"]["talker"]["detail"]


def test_what_a_fit_did_without_is_noted_and_left_out_from_then_on(endpoint, database, tmp_path):
    endpoint.replies = [reasoning]
    config = configured(tmp_path, talker=model(endpoint))
    done = fitted(config, tmp_path)["talker"]
    artifact = ArtifactStore(config.artifacts).load("talker", done.name)
    assert artifact.manifest["model"]["left_out"] == ["temperature=0"]
    assert any("refuses temperature=0" in remark for remark in artifact.manifest["remarks"])
    endpoint.replies = [says("It is four")]  # it would take it now
    endpoint.asked.clear()
    assert served(config, database, ask).json()["action"] == "answer"
    assert not any("temperature" in body for body in endpoint.asked)


def test_a_shadow_that_was_fitted_another_way_is_refused(endpoint, database, tmp_path):
    """One reply cannot be written both with a parameter and without."""
    config = configured(tmp_path, talker=model(endpoint))
    first = fitted(config, tmp_path)["talker"]
    endpoint.replies = [reasoning]
    fitted(config, tmp_path)
    store = ArtifactStore(config.artifacts)
    store.shadow("talker", first.name, by="tests", why="", clock=clock)

    async def use(client):
        return (await ask(client)).json()["action"], (await client.get("/healthz")).json()["models"]["talker"]

    action, health = served(config, database, use)
    assert (action, health["shadow"]) == ("answer", None)
    assert "the shadow is refused: of artifacts" in health["detail"]
    assert "only one was fitted without temperature=0" in health["detail"]


@pytest.mark.slow
def test_a_fit_takes_no_rows_that_were_asked_in_two_ways(endpoint, tmp_path):
    config = configured(tmp_path, talker=model(endpoint))
    seen = []

    def changes_its_mind(body):
        seen.append(body)
        return reasoning(body) if len(seen) > 70 else says("It is four")(body)

    endpoint.replies = [changes_its_mind]
    with pytest.raises(ValueError, match="refused temperature=0 in some of the rows and took it in others"):
        fitted(config, tmp_path)


@pytest.mark.slow
def test_a_fit_waits_for_an_endpoint_and_says_when_it_gave_up(endpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(rerun, "PAUSES_SECONDS", (0.01, 0.01))
    config = configured(tmp_path, talker=model(endpoint))
    answers = says("It is four")
    seen = []

    def stumbles(body):
        seen.append(body)
        return refusal(503) if len(seen) % 10 == 0 else answers(body)

    endpoint.replies = [stumbles]
    done = fitted(config, tmp_path)["talker"]
    assert len(seen) > 90
    manifest = ArtifactStore(config.artifacts).load("talker", done.name).manifest
    assert manifest["data"]["n"] == 90
    endpoint.replies = [refusal(503, "down")]
    with pytest.raises(NobodyReplied, match=r"answered 503: down; 64 of 64 inputs got no reply, so start again later"):
        fitted(config, tmp_path)


def test_missing_log_probabilities_say_which_key_to_set(endpoint, database, tmp_path):
    config = configured(tmp_path, talker=model(endpoint))
    fitted(config, tmp_path)
    endpoint.replies = [choices(choice("It is four"))]
    told = served(config, database, ask).json()
    assert told["action"] == "review"
    cause = f"{endpoint.url} told no log-probabilities; if it never gives them, set host.gives_logprobs: false"
    assert told["reason"].startswith(f"improbability is undefined, and what is unknown is held: {cause}")
    with pytest.raises(UnknownScore) as refused:
        fitted(config, tmp_path)
    said = str(refused.value)
    assert "is unknown in all of" in said
    assert f"log-probabilities, which improbability reads: {cause}" in said
    assert said.count("gives_logprobs") == said.count("None of the") == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"on_failure": "next"}, "name who is asked then, with host.endpoints or fall_back_to"),
        ({"fall_back_to": "spare"}, "fall_back_to: nobody would ask there; write `on_failure: next`"),
        ({"host": {"endpoints": [{"base_url": "http://x/v1"}]}}, "host.endpoints: nobody would ask there"),
        ({"on_failure": "next", "fall_back_to": "nobody"}, "there is no model 'nobody'"),
        ({"on_failure": "next", "fall_back_to": "talker"}, "round in a circle"),
        ({"on_failure": "next", "fall_back_to": "letters"}, "has another task"),
        ({"on_failure": "next", "fall_back_to": "plain"}, "decides nothing"),
        ({"on_failure": "next", "fall_back_to": "spare", "chat": {"stream": "tentative"}}, "chat.stream"),
        ({"on_failure": "wait"}, "on_failure"),
    ],
)
def test_what_is_configured_can_be_done(endpoint, tmp_path, changes, message):
    letters = {"task": {"kind": "choice"}}
    with pytest.raises(ValidationError, match=message):
        configured(
            tmp_path,
            talker=model(endpoint, **changes),
            spare=model(endpoint),
            plain=model(endpoint, chat={"proxy": True}),
            letters=model(endpoint, **letters),
        )


def test_an_endpoint_is_named_once(endpoint, tmp_path):
    twice = {"endpoints": [{"base_url": f"{endpoint.url}/"}]}
    with pytest.raises(ValidationError, match="is named twice"):
        configured(tmp_path, talker=model(endpoint, host=twice, on_failure="next"))


def test_by_default_only_an_endpoint_fails(endpoint, tmp_path):
    local = {"kind": "transformers", "checkpoint": "nowhere"}
    config = configured(tmp_path, talker=model(endpoint), local={**model(endpoint), "host": local})
    assert [config.models[name].when_away for name in ("talker", "local")] == ["fail", "hold"]


def test_a_record_of_a_failure_can_be_read_by_its_id_nowhere(endpoint, database, tmp_path):
    """It is no prediction: nobody is asked about it, and no outcome can be told of it."""
    config = configured(tmp_path, talker=model(endpoint))
    fitted(config, tmp_path)
    endpoint.replies = [refusal(500)]

    async def use(client):
        await ask(client)
        with database.transaction() as connection:
            [record_id] = connection.execute("select id from failed_requests").fetchone()
            assert log.find(connection, [record_id]) == {}
        return await client.get(f"/v1/predictions/{record_id}")

    assert served(config, database, use).status_code == 404
