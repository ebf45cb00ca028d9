"""Whatever reads a body of the pages and their APIs, none is read beyond what is taken."""

import pytest
from starlette.testclient import TestClient

from demur.serve.web.audit.app import audits_app
from demur.serve.web.review.app import console_app
from demur.serve.web.shared.body_limits import FORM_BYTES
from tests.serve.web.audit.traffic import config_of


@pytest.fixture
def client_of(database):
    def client_of(make):
        told = config_of("digits", limits={"body_bytes": 2_000_000})
        return TestClient(make(told, database), headers={"X-Demur-Reviewer": "ada"}, follow_redirects=False)

    return client_of


@pytest.mark.parametrize(("make", "path"), [(console_app, "/hello"), (audits_app, "/monitors/alarms/1/undo")])
@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_form_is_no_larger_than_what_people_type(client_of, make, path, in_pieces):
    body = b"name=" + b"a" * FORM_BYTES
    content = iter([body[:1000], body[1000:]]) if in_pieces else body
    told = client_of(make).post(path, content=content, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert told.status_code in (400, 413, 422)
    assert told.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("in_pieces", [False, True])
def test_json_is_no_larger_than_configured(client_of, in_pieces):
    body = b'{"why": "' + b"a" * 2_000_000 + b'"}'
    content = iter([body[:1000], body[1000:]]) if in_pieces else body
    told = client_of(audits_app).post("/v1/alarms/1/undo", content=content)
    assert told.status_code == 413
    assert told.json()["error"]["kind"] == "TooLarge"


def test_what_fits_is_read(client_of):
    assert client_of(audits_app).post("/v1/alarms/1/undo", json={"why": "x"}).status_code == 404
    assert client_of(console_app).post("/hello", data={"name": "ada"}).status_code == 303
