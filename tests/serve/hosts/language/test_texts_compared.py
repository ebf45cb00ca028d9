"""Two artifacts of a model that writes texts, on a file and on records of a real database, and a replay of these."""

import json
from datetime import UTC, datetime

import pytest

from demur.serve.commands.compare_tables import remarks
from demur.serve.commands.replay_tables import left_out
from demur.serve.config.file import Config
from demur.serve.fitting.compare import compare_on_file, compare_on_traffic
from demur.serve.fitting.fit import fit_model
from demur.serve.fitting.replay import replay_traffic
from demur.traffic import log
from tests.conftest import entry
from tests.serve.comparing import quiet, serve_with
from tests.serve.scripted import ScriptedEngine, generation, settings

SPAN = {"since": None, "until": None, "progress": quiet}


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


def write(messages, asking):
    """It counts to 40, and is sure below 30."""
    number = int(messages[-1]["content"])
    return generation(str(min(number, 40)), logprob=-0.01 if number < 30 else -1.0 - number / 100)


@pytest.fixture
def fitted(monkeypatch, tmp_path):
    """The configuration, two artifacts that hold a tenth and a half, and a labelled file."""
    serve_with(monkeypatch, ScriptedEngine(write))
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"input": str(n), "label": str(n)}) for n in range(60)))
    names = []
    for rate in (0.1, 0.5):
        model = settings("generate", policy={"kind": "rejection_rate", "rate": rate})
        config = Config.model_validate({"artifacts": str(tmp_path / "artifacts"), "models": {"it": model}})
        names.append(fit_model(config, "it", path, clock=clock, progress=quiet, anyway=True).name)
    return config, *names, path


def test_texts_of_a_file_are_right_only_if_they_say_what_the_right_ones_do(fitted):
    config, a, b, path = fitted
    found = compare_on_file(config, "it", a, b, path, progress=quiet)
    assert (found.numbers.n, found.rewritten) == (60, 0)
    assert found.numbers.wrong_a > found.numbers.wrong_b == 0


def test_what_people_said_of_a_logged_text_counts_for_that_text_alone(fitted, database):
    config, a, b, _ = fitted
    logged = [(n, str(min(n, 40)) if n % 2 else "another text") for n in range(60)]
    entries = [
        entry(model="it", input=str(n), prediction="right", action="answer", reply={"text": t, "finish_reason": "stop"})
        for n, t in logged
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        for each, (n, text) in zip(entries, logged, strict=True):
            outcome = "right" if text == str(n) else "wrong"
            log.add_outcome(connection, each.record.id, label=outcome, source="test", author=None)
    found = compare_on_traffic(config, "it", a, b, database, **SPAN)
    assert (found.numbers.n, found.rewritten) == (30, 30)
    assert found.numbers.wrong_a > found.numbers.wrong_b == 0
    assert "30 about a text that is not written again" in remarks(found)[-1]

    replayed = replay_traffic(config, "it", b, database, **SPAN)
    assert (replayed.numbers.n, replayed.numbers.n_labelled, replayed.rewritten) == (60, 30, 30)
    assert replayed.numbers.now.risk == 0 < replayed.numbers.then.risk
    assert "30 one about a text that is not written again" in left_out(replayed)
