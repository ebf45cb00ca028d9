"""What a decision cost: from a scripted engine through a real host, fit and gateway, to the record and the response."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import httpx
import numpy as np
import pytest

from demur.audit.ledger.from_database import read_ledger
from demur.calibration_store.store import ArtifactStore
from demur.review import cases
from demur.serve.config.file import Config
from demur.serve.contract import wire
from demur.serve.contract.engine import Asking, EngineFailed, Piece
from demur.serve.fitting.fit import fit_model, fit_on_traffic
from demur.serve.hosts.host import Host
from demur.serve.hosts.language import kind as language_kind
from demur.serve.hosts.language.overheard import OverheardEngine, listening
from demur.serve.web.native.app import gateway_app
from demur.traffic import log
from demur.traffic.outcomes import LATEST
from tests.serve.conftest import make_handler
from tests.serve.scripted import ScriptedEngine, generation

LIMIT = 0.2


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


def model(name, **more):
    return {
        "task": {"kind": "generate"},
        "host": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "model": name, "max_tokens": 20},
        "scores": ["improbability", *more.pop("scores", [])],
        "confidence": {"score": "improbability", "calibrator": "platt"},
        "policy": {"kind": "threshold", "score": "improbability", "limit": LIMIT},
        **more,
    }


@pytest.fixture
def config(tmp_path):
    models = {
        "small": model("small", scores=["sample_disagreement"], samples={"max": 3}, escalate_to="large"),
        "large": model("large"),
        "alone": model("alone", scores=["sample_disagreement"], samples={"max": 3}, chat={"stream": "tentative"}),
    }
    return Config.model_validate({"artifacts": str(tmp_path / "artifacts"), "models": models})


def script(messages, asking):
    """The words of a question say how sure the model is of its reply. Sampled replies are the same."""
    asked = messages[-1]["content"]
    if "silent" in asked:
        raise EngineFailed("nobody is there")
    return generation("It is four", logprob=-0.5 if "doubt" in asked else -0.01)


def large_script(messages, asking):
    return generation("It is surely four now", logprob=-0.5 if "great" in messages[-1]["content"] else -0.01)


@pytest.fixture
def engines(monkeypatch):
    """The scripted engines, by model, that fits and hosts start."""
    found = {"small": ScriptedEngine(script), "large": ScriptedEngine(large_script), "alone": ScriptedEngine(script)}

    async def started(host):
        return found[host.model]

    monkeypatch.setattr(language_kind, "started", started)
    return found


@pytest.fixture
def fitted(config, engines, tmp_path):
    """Both first models with an artifact in force: sure replies are right, most of the others are not."""
    rows = [
        {"input": f"{'doubt' if at % 3 == 0 else 'sure'} {at}", "label": "It is four" if at % 3 or at % 5 == 0 else "5"}
        for at in range(150)
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    store = ArtifactStore(config.artifacts)
    for name in ("small", "alone"):
        done = fit_model(config, name, data, clock=clock, progress=lambda *_: None)
        store.promote(name, done.name, by="tests", why="", clock=clock)
    return config


def served(config, database, use):
    """Do `use` with a handler whose hosts run in its loop."""

    async def main():
        store = ArtifactStore(config.artifacts)
        hosts = {
            name: await Host.started(name, one, store, others=config.models) for name, one in config.models.items()
        }
        return await use(make_handler(config, {n: LocalLanguageHost(h) for n, h in hosts.items()}, database))

    return asyncio.run(main())


@dataclass
class LocalLanguageHost:
    """A host in this loop, in the place of the Ray handle."""

    host: Host
    complete: object = field(init=False)

    async def state(self):
        return self.host.state()

    async def decide(self, inputs, groups, draws):
        return await self.host.decide(inputs, groups, draws)

    async def decide_next(self, inputs, groups, step):
        return await self.host.decide_next(inputs, groups, step)

    def stream(self, value, group, draw):
        return self.host.stream(value, group, draw)


def body(text, model="small", **more):
    return json.dumps({"model": model, "input": text, **more}).encode()


def spent(cost):
    return {name: cost[name] for name in ("prompt_tokens", "completion_tokens", "calls")}


def test_every_step_of_a_cascade_is_paid_for(fitted, database):
    async def use(handler):
        return [(await handler.predict(body(text), None)).record for text in ("sure", "doubt it", "great doubt")]

    sure, passed_on, held = served(fitted, database, use)
    mine = {"prompt_tokens": 10, "completion_tokens": 12, "calls": 2}  # one prompt, one reply and three samples
    both = {"prompt_tokens": 20, "completion_tokens": 17, "calls": 3}
    assert (sure.action, spent(sure.cost)) == ("answer", mine)
    assert (sure.prediction, sure.reply["text"], sure.reply["finish_reason"]) == ("right", "It is four", "stop")
    assert (passed_on.action, spent(passed_on.cost)) == ("answer", both)
    assert passed_on.reply["text"] == "It is surely four now"
    assert [spent(step["cost"]) for step in passed_on.steps] == [
        mine,
        {"prompt_tokens": 10, "completion_tokens": 5, "calls": 1},
    ]
    assert passed_on.cost["seconds"] == pytest.approx(
        sum(step["cost"]["seconds"] for step in passed_on.steps), abs=2e-6
    )
    assert (held.action, spent(held.cost)) == ("review", both)
    with database.transaction() as connection:
        for record in (sure, passed_on, held):
            assert log.find_one(connection, record.id) == record
    told = wire.prediction_json(passed_on)
    assert told["prediction"] == "It is surely four now"
    assert told["cost"] == passed_on.cost
    assert list(told["cost"]) == ["prompt_tokens", "completion_tokens", "calls", "seconds"]


def test_a_call_that_failed_is_counted(fitted, database):
    async def use(handler):
        return (await handler.predict(body("silent", "alone"), None)).record

    record = served(fitted, database, use)
    assert (record.action, record.reply, record.prediction) == ("review", None, None)
    assert spent(record.cost) == {"prompt_tokens": 0, "completion_tokens": 0, "calls": 1}
    assert "nobody is there" in record.reason
    assert wire.prediction_json(record)["prediction"] is None


def test_a_classifier_costs_no_tokens(handler, clear_digit):
    done = asyncio.run(handler.predict(json.dumps({"model": "digits", "input": clear_digit}).encode(), None))
    assert done.record.cost is None
    assert wire.prediction_json(done.record)["cost"] is None


def test_a_text_is_right_when_people_say_so(fitted, database):
    """What is compared with the outcome is the prediction that the text is right: the same everywhere."""

    async def use(handler):
        done = [(await handler.predict(body(f"sure {at}", "alone"), None)).record for at in range(4)]
        for record, label in zip(done, ("right", "right", "wrong"), strict=False):
            await handler.inquiries.add_outcome(record.id, json.dumps({"label": label}).encode())

    served(fitted, database, use)
    ledger = read_ledger(database, "alone", precedence=LATEST, since=None, until=None, as_of=datetime.now(UTC))
    np.testing.assert_array_equal(ledger.quality, [1, 1, 0, np.nan])
    assert ledger.predicted.names == ("right", "wrong")
    assert ledger.predicted.codes.tolist() == [0] * 4
    assert ledger.true.codes.tolist() == [0, 0, 1, -1]


def test_outcomes_of_logged_texts_are_about_those_texts(fitted, database, engines):
    async def use(handler):
        for at in range(90):
            sure = at % 3 > 0
            done = await handler.predict(body(f"{'sure' if sure else 'doubt'} {at}", "alone"), None)
            told = "right" if sure or at % 5 == 0 else "wrong"
            await handler.inquiries.add_outcome(done.record.id, json.dumps({"label": told}).encode())

    served(fitted, database, use)

    def fit():
        range_ = {"since": None, "until": None, "every_outcome_known": True}
        return fit_on_traffic(fitted, "alone", database, clock=clock, progress=lambda *_: None, **range_)

    assert not any("does not write again" in remark for remark in fit().remarks)
    engines["alone"].script = lambda messages, asking: (
        "It is five" if messages[-1]["content"].endswith("1") else script(messages, asking)
    )
    assert any(remark.startswith("9 rows are left out") for remark in fit().remarks)


def test_the_report_of_a_model_of_texts_says_nothing_of_sets_that_it_has_not(fitted):
    store = ArtifactStore(fitted.artifacts)
    (name,) = store.names("alone")
    report = store.load("alone", name).manifest["report"]
    assert {"accuracy", "coverage", "ece"} <= set(report)
    assert not [line for line in report if "set_" in line]


def test_what_the_engine_ends_together_is_judged_together(fitted, engines, monkeypatch):
    async def main():
        host = await Host.started("alone", fitted.models["alone"], ArtifactStore(fitted.artifacts))
        judged, shares = [], host._panel.shares

        def noting(lineup, output, *rest, **more):
            judged.append(len(output))
            return shares(lineup, output, *rest, **more)

        monkeypatch.setattr(host._panel, "shares", noting)
        texts = ["sure 1", "doubt 2", "silent 3", "sure 4"]
        values = [replace(host.model.example(), messages=({"role": "user", "content": text},)) for text in texts]
        together = await asyncio.gather(*(host.decide([value], [None], [0]) for value in values))
        alone = [await host.decide([value], [None], [0]) for value in values]
        return judged, together, alone

    judged, together, alone = asyncio.run(main())
    assert max(judged) > 1
    assert sum(judged) == 8
    for shares, others in zip(together, alone, strict=True):
        [mine], [other] = shares, others
        assert mine.rows == other.rows == [0]
        assert mine.decided.actions == other.decided.actions
        assert mine.decided.scores == other.decided.scores
        assert mine.decided.replies == other.decided.replies


def heard(host, text):
    async def main():
        items = [item async for item in host.stream(text, None, 0)]
        return items[:-1], items[-1]

    return main()


def test_a_stream_is_what_the_decision_is_about(fitted, engines):
    async def main():
        host = await Host.started("alone", fitted.models["alone"], ArtifactStore(fitted.artifacts))
        return await heard(host, host.model.example())

    pieces, share = asyncio.run(main())
    assert pieces[0] == ""
    assert "".join(pieces) == share.decided.replies[0]["text"] == "It is four"
    assert len(pieces) > 2
    assert spent(share.decided.costs[0]) == {"prompt_tokens": 10, "completion_tokens": 12, "calls": 2}


def test_a_stream_that_nobody_wants_any_more_is_stopped_in_the_engine(fitted, engines):
    stopped = []

    class Slow(ScriptedEngine):
        async def stream(self, messages, asking):
            try:
                yield Piece(text="It ")
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                stopped.append(True)
                raise

    async def main():
        host = await Host.started("alone", fitted.models["alone"], ArtifactStore(fitted.artifacts))
        engine = Slow(script)
        host.model._engine._engine = engine
        items = host.stream(host.model.example(), None, 0)
        assert [await anext(items), await anext(items)] == ["", "It "]
        await items.aclose()
        for _ in range(5):
            await asyncio.sleep(0)
        assert engine.asked == []  # nothing else was asked either

    asyncio.run(main())
    assert stopped == [True]


def test_only_the_first_reply_of_a_task_is_overheard():
    engine = OverheardEngine(ScriptedEngine("one two"))
    said = []

    async def work():
        for asking in (Asking(max_tokens=9, temperature=1.0), *[Asking(max_tokens=9)] * 2):
            await engine.generate([], asking)

    async def main():
        await work()
        assert said == []
        await asyncio.create_task(work(), context=listening(said.append))

    asyncio.run(main())
    assert "".join(said) == "one two"


def test_a_tentative_stream_of_a_real_host(fitted, database):
    async def use(handler):
        app = gateway_app(handler, max_body_bytes=10_000)
        asked = {"model": "alone", "messages": [{"role": "user", "content": "doubt"}], "stream": True}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            return (await client.post("/v1/chat/completions", json=asked)).text

    events = served(fitted, database, use).strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert chunks[0]["demur"] == {"tentative": True}
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "It is four"
    last = chunks[-1]["demur"]
    assert last["action"] == "review"
    assert spent(last["cost"]) == {"prompt_tokens": 10, "completion_tokens": 12, "calls": 2}
    with database.transaction() as connection:
        assert cases.case(connection, last["id"]).status == "waiting"
