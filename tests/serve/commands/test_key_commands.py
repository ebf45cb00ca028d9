"""`demur keys`: what it makes, shows and refuses."""

from datetime import UTC, datetime, timedelta

import pytest
import yaml
from typer.testing import CliRunner

from demur.serve.access import keys as kept
from demur.serve.access import sessions
from demur.serve.access.tokens import read_token
from demur.serve.commands.key_commands import keys, rate_of
from demur.serve.config.file import BadConfig
from tests.conftest import ROOT

IN_AN_HOUR = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def demur_keys(tmp_path, monkeypatch, dsn):
    """Run one of the commands on a database of one's own."""
    content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    del content["models"]["sums"]
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content | {"database": dsn, "access": {"mode": "keys"}}))
    monkeypatch.setenv("COLUMNS", "300")

    def run(*words):
        return CliRunner().invoke(keys, [*words, "--config", str(tmp_path / "demur.yaml")])

    return run


def listed(database):
    with database.transaction() as connection:
        return kept.listed(connection)


def test_a_key_is_printed_once_and_alone(demur_keys, database):
    made = demur_keys("make", "Ada", "--scope", "predict", "--scope", "audit", "--expires", "90d", "--by", "ops")
    token = read_token(made.stdout.strip())
    assert token is not None
    assert f"demur keys revoke {token.id}" in made.stderr
    assert token.text not in made.stderr
    (key,) = listed(database)
    assert (key.id, key.name, key.scopes, key.created_by) == (token.id, "Ada", ("predict", "audit"), "ops")
    assert 89 < (key.expires_at - key.created_at).total_seconds() / 86400 < 91
    shown = demur_keys("list").stdout
    assert token.id in shown
    assert token.text.rpartition("_")[2] not in shown


def test_models_and_rates(demur_keys, database):
    limits = ["--model", "digits=5:50", "--requests", "20", "--predictions", "0.5:9"]
    demur_keys("make", "a", "--scope", "predict", *limits)
    (key,) = listed(database)
    assert key.models == ("digits",)
    rates = key.rates
    assert (rates.requests.per_second, rates.requests.burst) == (20, 20)
    assert (rates.predictions.per_second, rates.predictions.burst) == (0.5, 9)
    assert (rates.models["digits"].per_second, rates.models["digits"].burst) == (5, 50)
    shown = demur_keys("list").stdout
    for words in ("20 requests/s, 20 at once", "0.5 predictions/s, 9 at once", "5 predictions of digits/s, 50 at once"):
        assert words in shown


def test_a_link_is_printed_once_and_alone(demur_keys, database):
    made = demur_keys("login", "Ada", "--scope", "review", "--hours", "2")
    address, _, code = made.stdout.strip().partition("#")
    assert address == "http://127.0.0.1:8000/review/login"
    assert code not in made.stderr
    assert "with this Ada logs in once" in made.stderr
    with database.transaction() as connection:
        person = sessions.use_code(connection, read_token(code))
        sessions.begin_session(connection, person, by="code", idle_seconds=60, expires_at=IN_AN_HOUR)
    assert "Ada" in demur_keys("sessions").stdout
    demur_keys("login", "Ada", "--scope", "review")
    assert "1 sessions and 1 unused links of Ada are ended" in demur_keys("logout", "Ada").stdout
    assert "nobody is logged in" in demur_keys("sessions").stdout


def test_a_revoked_key_is_listed_only_if_asked(demur_keys, database):
    token = read_token(demur_keys("make", "[/Ada]", "--scope", "predict").stdout.strip())
    assert f"key {token.id} of [/Ada] was revoked at" in demur_keys("revoke", token.id, "--by", "eve").stdout
    assert "no key is in force" in demur_keys("list").stdout
    assert "by eve" in demur_keys("list", "--all").stdout
    assert listed(database)[0].revoked_by == "eve"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["make", "ada"], "say what it may do: --scope with one of: predict, review, audit, admin"),
        (["make", "ada", "--scope", "review", "--model", "digits"], "what people may review is in `review.people`"),
        (["login", "ada"], "say what it may do"),
        (["make", "  ", "--scope", "predict"], "a name has 1 to 100 characters"),
        (["make", "a\x07", "--scope", "predict"], "a name has 1 to 100 characters"),
        (["make", "ada", "--scope", "predict", "--model", "other"], "there is no model 'other'"),
        (["make", "ada", "--scope", "predict", "--requests", "many"], "--requests: 'many' is no rate; write 20"),
        (["make", "ada", "--scope", "predict", "--expires", "2020-01-01"], "is no time to come like 90d"),
        (["make", "ada", "--scope", "predict", "--expires", "-1d"], "is no time to come like 90d"),
        (["revoke", "nobody"], "there is no key 'nobody'"),
    ],
)
def test_a_problem_is_one_sentence(demur_keys, database, words, said):
    done = demur_keys(*words)
    assert said in str(done.exception)
    assert listed(database) == []


@pytest.mark.parametrize("text", ["", "0", "-1", "5:", ":5", "5:0", "nan", "inf", "5:nan", "1e12"])
def test_what_is_no_rate(text):
    with pytest.raises(BadConfig, match="is no rate"):
        rate_of("--requests", text)
