"""`demur export --as pairs` and `--as training`, and the same over the review API."""

import json
import sys

import pytest
import yaml
from starlette.testclient import TestClient

from demur.review import access, queue
from demur.serve.cli import main
from demur.serve.commands.terminal import out
from demur.serve.config.file import Config
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import entry, new_case

HOST = {"kind": "transformers", "checkpoint": "nowhere"}
SCORED = {"scores": ["improbability"], "confidence": {"score": "improbability"}}
MODEL = {"host": HOST, **SCORED, "policy": {"kind": "threshold", "limit": 0.3}}
MODELS = {"talker": {**MODEL, "task": {"kind": "generate"}}, "letters": {**MODEL, "task": {"kind": "choice"}}}


@pytest.fixture
def folder(tmp_path, database, monkeypatch):
    content = {"database": database.dsn, "artifacts": str(tmp_path / "artifacts"), "models": MODELS}
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    monkeypatch.setattr(out, "_width", 200)
    return tmp_path


@pytest.fixture
def demur(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["demur", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr().out
        return end.value.code if isinstance(end.value.code, str) else printed

    return run


@pytest.fixture
def corrected(database):
    """The ids of replies that people corrected."""
    entries = [
        entry(
            model="talker",
            input=f"How much is {n}?",
            reply={"text": f"wrong {n}", "finish_reason": "stop"},
            prediction="right",
            prediction_set=[],
            group="north" if n else "south",
        )
        for n in range(3)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
        for n, one in enumerate(entries):
            log.add_outcome(
                connection, one.record.id, label="wrong", source="review", author="ada", text=f"{n}\nis <b>{n}</b>"
            )
    return [one.record.id for one in entries]


def test_a_file_of_pairs(folder, demur, corrected, database):
    assert "3 rows of talker are in new/pairs.jsonl" in demur(
        "export", "--as", "pairs", "--model", "talker", "--to", "new/pairs.jsonl"
    )
    rows = [json.loads(line) for line in (folder / "new/pairs.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [str(one) for one in corrected]
    assert rows[1]["prompt"] == [{"role": "user", "content": "How much is 1?"}]
    assert rows[1]["chosen"] == [{"role": "assistant", "content": "1\nis <b>1</b>"}]
    with database.transaction() as connection:
        seen = access.views(connection, limit=9)
    assert {one.case_id for one in seen} == set(corrected)
    assert "is there already" in demur("export", "--as", "training", "--model", "talker", "--to", "new/pairs.jsonl")
    assert [path.name for path in (folder / "new").iterdir()] == ["pairs.jsonl"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--as", "pear", "--model", "talker"], "'pear' is not one of: parquet, pairs, training"),
        (["--as", "pairs"], "name the model with --model"),
        (["--as", "pairs", "--model", "letters"], "'letters' has a choice task"),
        (["--as", "pairs", "--model", "nobody"], "no model 'nobody'"),
    ],
)
def test_what_cannot_be_written_says_why(folder, demur, words, message):
    assert message in demur("export", *words, "--to", "x.jsonl")
    assert not list(folder.glob("x.jsonl*"))


def test_over_http_for_those_who_lead_as_far_as_they_see(database, corrected):
    people = {"lea": {"leads": True, "adjudicates": True, "groups": ["north"]}, "ada": {}}
    config = Config.model_validate({"models": MODELS, "review": {"people": people}})
    app = console_app(config, database)

    def get(name, query):
        client = TestClient(app, root_path="/review", base_url="http://testserver/review/")
        return client.get(f"v1/export?{query}", headers={"X-Demur-Reviewer": name})

    found = get("lea", "model=talker&format=pairs")
    assert [json.loads(line)["id"] for line in found.text.splitlines()] == [str(one) for one in corrected[1:]]
    assert found.headers["content-type"] == "application/x-ndjson"
    assert found.headers["x-demur-left-out"] == "0"
    assert "talker-pairs.jsonl" in found.headers["content-disposition"]
    assert len(get("lea", "model=talker&format=training").text.splitlines()) == 2
    assert get("lea", "model=talker&format=pairs&status=expired").headers["x-demur-left-out"] == "0"
    assert get("ada", "model=talker&format=pairs").status_code == 403
    assert get("lea", "model=letters&format=pairs").status_code == 422
