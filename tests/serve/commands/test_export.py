"""`demur export`, and an audit of what it wrote."""

import json
import sys
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import yaml

from demur.audit.report.plan import Settings
from demur.serve.cli import main
from demur.serve.commands.terminal import out
from demur.serve.jobs.reports import making
from tests.audit.report.test_in_parts import apart
from tests.serve.web.audit.traffic import CLASSIFIER, write_traffic

START = datetime.now(UTC) - timedelta(hours=5)


@pytest.fixture
def folder(tmp_path, database, monkeypatch):
    content = {"database": database.dsn, "artifacts": str(tmp_path / "artifacts"), "models": {"digits": CLASSIFIER}}
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    monkeypatch.setattr(out, "_width", 200)
    monkeypatch.setattr(making, "settled", lambda _, moment: moment)  # nobody else writes here
    monkeypatch.setattr(making, "Settings", partial(Settings, replicates=99))
    return tmp_path


@pytest.fixture
def demur(monkeypatch, capsys):
    """Run a command; return what it printed, or the sentence that it ended with."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["demur", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr().out
        return end.value.code if isinstance(end.value.code, str) else printed

    return run


def estimates(path):
    return {(one["name"], one["of"]): one["value"] for one in json.loads(path.read_text())["estimates"]}


def test_an_export_is_audited_as_the_database_is(folder, demur, database):
    write_traffic(database, "digits", n=400, wrong=4, first=START)
    with database.transaction() as connection:  # nothing waits to be settled
        connection.execute("update outcomes set created_at = created_at - interval '1 minute'")
    printed = demur("export", "--to", "out")
    assert "400" in printed
    assert demur("export", "--to", "out").count(" 0 ") == 4  # records, outcomes, reviews, files
    printed = demur("audit", "--parquet", "out", "--out", "of-export", "--max-risk", "0.05")
    assert "kept" in printed
    (line,) = [line for line in printed.splitlines() if line.startswith("the same again: ")]
    assert line.endswith("--parquet out")
    end = json.loads((folder / "of-export/digits.json").read_text())["as_of"]
    demur("audit", "--out", "of-database", "--as-of", end, "--max-risk", "0.05")
    assert apart(estimates(folder / "of-export/digits.json"), estimates(folder / "of-database/digits.json")) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["audit", "--ray"], "demur: --ray goes with --parquet"),
        (["audit", "--parquet", "out", "--store"], "demur: --store goes without --parquet"),
        (["audit", "--parquet", "nowhere"], "demur: there is no export of 'digits' in nowhere/model=digits; run demur"),
        (["export", "--to", "out", "--model", "nobody"], "demur: there is no model 'nobody' in the configuration"),
        (["export", "--to", "out", "--since", "soon"], "demur: 'soon' is neither an age like 7d"),
    ],
)
def test_a_problem_is_one_sentence(folder, demur, words, said):
    assert demur(*words).startswith(said)
