"""The address of a database, which may hold a password, can stand outside of the configuration, and is never shown."""

import pytest
import yaml
from pydantic import ValidationError
from starlette.testclient import TestClient

from demur.serve.config.file import BadConfig, Config
from demur.serve.configuration import load_config
from demur.serve.web.native.app import gateway_app
from demur.traffic.database import BadAddress, Database, DatabaseUnavailable
from tests.serve.conftest import make_handler
from tests.serve.web.audit.traffic import CLASSIFIER

PASSWORD = "marked-3f9c"
ADDRESS = f"postgresql://demur:{PASSWORD}@127.0.0.1:1/demur"


def config(database):
    return Config.model_validate({"models": {"digits": CLASSIFIER}, "database": database})


def test_it_is_read_from_the_environment_or_from_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("DEMUR_TEST_DATABASE", f" {ADDRESS}\n")
    (tmp_path / "secret").write_text(f"{ADDRESS}\n")
    assert config("env:DEMUR_TEST_DATABASE").database == ADDRESS
    assert config(f"file:{tmp_path}/secret").database == ADDRESS


@pytest.mark.parametrize("place", ["env:DEMUR_NOT_SET", "file:/no/such/file", "file:{empty}", "env:DEMUR_TEST_WRONG"])
def test_what_is_not_there_is_told_by_its_place(monkeypatch, tmp_path, place):
    (tmp_path / "empty").write_text("\n")
    monkeypatch.setenv("DEMUR_TEST_WRONG", f"mysql://{PASSWORD}")
    with pytest.raises(ValidationError) as told:
        config(place.replace("{empty}", str(tmp_path / "empty")))
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump({"models": {"digits": CLASSIFIER}, "database": f"x{ADDRESS}"}))
    with pytest.raises(BadConfig) as bad:
        load_config(tmp_path / "demur.yaml")
    assert "database" in str(told.value)
    assert PASSWORD not in str(bad.value)


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://demur:{PASSWORD}%zz@db/demur",
        f"postgresql://demur:{PASSWORD}@{PASSWORD}@db/demur",
        f"postgresql://demur:{PASSWORD}/7@db/demur",
        f"postgresql://demur:{PASSWORD}#7@db/demur",
        f"postgresql://demur:{PASSWORD} 7@db/demur",
        f"postgresql://demur:{PASSWORD}?7@db/demur",
    ],
)
def test_a_password_that_is_written_wrongly_is_not_told(address, monkeypatch, tmp_path):
    monkeypatch.setenv("DEMUR_TEST_DATABASE", address)
    written = {"models": {"digits": CLASSIFIER}, "database": "env:DEMUR_TEST_DATABASE"}
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(written))
    with pytest.raises(BadConfig, match="database: write `embedded`, or an address such as") as bad:
        load_config(tmp_path / "demur.yaml")
    assert PASSWORD not in str(bad.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://postgres:@/postgres?host=/tmp/demur-x/postgres",
        "postgres://demur@db/demur",
        "postgresql://demur:a%40b@db1:5432,db2:5432/demur?target_session_attrs=read-write",
        "postgresql://[::1]:5432/demur?options=-csearch_path%3Dx%20-cy%3Doff",
        "postgresql:///demur",
        "postgresql://%2Fvar%2Frun/demur?sslrootcert=/etc/a@b",
    ],
)
def test_good_addresses_are_taken(address):
    assert config(address).database == address


def test_what_the_library_cannot_read_it_does_not_repeat():
    with pytest.raises(BadAddress) as told:
        Database(f"postgresql://demur@db/demur?password={PASSWORD}%zz")
    assert PASSWORD not in str(told.value)
    assert told.value.__cause__ is None


@pytest.mark.slow
def test_it_is_nowhere_to_be_seen(monkeypatch, caplog):
    monkeypatch.setenv("DEMUR_TEST_DATABASE", ADDRESS)
    told = config("env:DEMUR_TEST_DATABASE")
    assert PASSWORD not in repr(told) + str(told)
    database = Database(told.database, patience_seconds=0.2)
    with pytest.raises(DatabaseUnavailable) as unavailable, database.transaction():
        pass
    assert PASSWORD not in str(unavailable.value) + repr(unavailable.value)
    handler = make_handler(told, {}, database)
    with TestClient(gateway_app(handler, max_body_bytes=1000)) as client:
        answers = [client.get("/healthz"), client.get("/openapi.json"), client.get(f"/v1/predictions/{'0' * 32}")]
    assert [answer.status_code for answer in answers] == [503, 200, 503]
    database.close()
    assert PASSWORD not in "".join(answer.text for answer in answers) + caplog.text
