"""What the OpenAPI documents say of who gets in is what the gate does."""

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from demur.serve.access.needs import AUDIT, GATEWAY, REVIEW
from demur.serve.config.access import AccessConfig
from demur.serve.web.audit.app import audits_app
from demur.serve.web.login.access_middleware import AccessMiddleware
from demur.serve.web.native.app import gateway_app
from demur.serve.web.review.app import console_app
from tests.serve.access.doors import keeper_of
from tests.serve.conftest import make_handler

pytestmark = pytest.mark.slow  # three applications are made

HTTP = {"get", "post", "put", "patch", "delete"}


@pytest.fixture
def apps(quickstart, database):
    """Each application by its prefix, behind the gate, and the needs of its routes."""
    config = quickstart.model_copy(update={"access": AccessConfig()})
    handler = make_handler(config, {}, database)
    keeper = keeper_of(database)
    return {
        "": (AccessMiddleware(gateway_app(handler, max_body_bytes=1000, needs=GATEWAY), keeper, GATEWAY), None),
        "/review": (
            AccessMiddleware(console_app(config, database), keeper, REVIEW, cookie="demur-session"),
            "demur-session",
        ),
        "/audit": (
            AccessMiddleware(audits_app(config, database), keeper, AUDIT, cookie="demur-session"),
            "demur-session",
        ),
    }


def test_an_operation_asks_for_a_key_where_the_gate_does(apps):
    for prefix, (app, cookie) in apps.items():
        whole = Starlette()
        whole.mount(prefix, app)
        client = TestClient(whole, follow_redirects=False)
        document = client.get(f"{prefix}/openapi.json").json()
        schemes = document["components"]["securitySchemes"]
        assert (schemes["bearer"]["type"], schemes["bearer"]["scheme"]) == ("http", "bearer")
        assert (schemes["api_key"]["in"], schemes["api_key"]["name"]) == ("header", "X-Api-Key")
        assert schemes.get("session", {}).get("name") == cookie
        asked = 0
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                assert method in HTTP
                address = f"{prefix}{path}".replace("{id}", "7").replace("{", "").replace("}", "")
                closed = client.request(method, address).status_code == 401
                assert bool(operation["security"]) is closed, (method, path)
                assert ("Needs the scope `" in operation.get("description", "")) is closed
                assert all(set(way) <= set(schemes) for way in operation["security"])
                asked += closed
        assert asked >= 9


def test_where_nobody_is_asked_no_document_says_so(quickstart, database):
    handler = make_handler(quickstart, {}, database)
    for app in (
        gateway_app(handler, max_body_bytes=1000),
        console_app(quickstart, database),
        audits_app(quickstart, database),
    ):
        told = app.openapi()
        assert "securitySchemes" not in told["components"]
        assert not any("security" in operation for path in told["paths"].values() for operation in path.values())
