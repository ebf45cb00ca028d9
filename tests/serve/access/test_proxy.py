"""Headers of a proxy in front: whom they make of somebody, and who cannot send them."""

import asyncio
from datetime import UTC, datetime

import pytest
from starlette.testclient import TestClient

from demur.serve.access.authenticator import Authenticator
from demur.serve.access.caller import caller_of
from demur.serve.access.needs import GATEWAY, REVIEW
from demur.serve.access.own_hosts import OwnHosts
from demur.serve.access.proxy import TrustedProxy
from demur.serve.config.access import NoAccessSecret, ProxyConfig, Scope
from demur.serve.web.login.access_middleware import AccessMiddleware
from demur.serve.web.login.browser_guard import BrowserGuard
from tests.serve.access.doors import bearer, make

SECRET = "0123456789abcdef0123456789abcdef"
SHOWN = {"X-Demur-Proxy-Secret": SECRET}
HERE = OwnHosts(["testserver"])


async def echo(scope, receive, send):
    caller = caller_of(scope)
    told = "nobody" if caller is None else f"{caller.name} {','.join(sorted(caller.scopes))} {caller.via}"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": told.encode()})


@pytest.fixture
def proxied(database, monkeypatch):
    """The door of the gateway, or of the review pages, behind a proxy."""
    monkeypatch.setenv("PROXY_SECRET", SECRET)
    config = ProxyConfig(secret_env="PROXY_SECRET", roles={"lab": ("review",), "ops": ("predict", "audit")})
    keeper = Authenticator(database, clock=lambda: datetime.now(UTC), proxy=TrustedProxy(config))
    keeper.ring.look()
    gates = {
        "": BrowserGuard(AccessMiddleware(echo, keeper, GATEWAY), HERE),
        "/review": BrowserGuard(AccessMiddleware(echo, keeper, REVIEW, cookie="demur-session"), HERE, has_pages=True),
    }
    return lambda root="": TestClient(gates[root], root_path=root, follow_redirects=False)


def test_who_the_proxy_says_it_is(proxied):
    person = SHOWN | {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "lab, ops,other"}
    assert proxied().get("/v1/models", headers=person).text == "ada audit,predict,review proxy"
    assert proxied("/review").get("/review/", headers=person).text.startswith("ada")
    pole = SHOWN | {"X-Forwarded-User": "Łukasz".encode(), "X-Forwarded-Groups": "ops"}
    assert proxied().get("/v1/models", headers=pole).text.startswith("Łukasz")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Forwarded-User": "ada", "X-Forwarded-Groups": "ops"}, 401),  # nobody showed the secret
        ({"X-Forwarded-User": "ada", "X-Forwarded-Groups": "ops", "X-Forwarded-For": "127.0.0.1"}, 401),
        (SHOWN | {"X-Demur-Proxy-Secret": SECRET[:-1], "X-Forwarded-User": "ada"}, 401),
        (SHOWN | {"X-Demur-Proxy-Secret": "", "X-Forwarded-User": "ada", "X-Forwarded-Groups": "ops"}, 401),
        (SHOWN | {"X-Forwarded-Groups": "ops"}, 401),  # the proxy lets somebody through whom it does not know
        (SHOWN | {"X-Forwarded-User": "", "X-Forwarded-Groups": "ops"}, 403),
        (SHOWN | {"X-Forwarded-User": "a\u0007", "X-Forwarded-Groups": "ops"}, 403),
        (SHOWN | {"X-Forwarded-User": "ada"}, 403),
        (SHOWN | {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "lab"}, 403),
    ],
)
def test_who_is_not_let_in(proxied, headers, status):
    assert proxied().get("/v1/models", headers=headers).status_code == status


def test_what_is_there_twice_is_believed_in_neither_form(proxied):
    headers = [("X-Demur-Proxy-Secret", SECRET), ("X-Forwarded-Groups", "ops")]
    for twice in (("X-Forwarded-User", "eve"), ("X-Demur-Proxy-Secret", SECRET)):
        both = [*headers, ("X-Forwarded-User", "ada"), twice]
        assert proxied().get("/v1/models", headers=both).status_code == 401


def test_a_key_counts_before_what_the_proxy_says(proxied, database):
    key = make(database, Scope.PREDICT, name="robot")
    person = SHOWN | {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "ops"}
    assert proxied().get("/v1/models", headers=person | bearer(key)).text.startswith("robot")
    assert proxied().get("/v1/models", headers=person | bearer(key[:-1])).status_code == 401


def test_another_site_does_nothing_through_the_proxy(proxied):
    person = SHOWN | {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "lab"}
    evil = person | {"Origin": "https://evil.example"}
    assert proxied("/review").post("/review/next", headers=evil).status_code == 403
    assert proxied("/review").post("/review/next", headers=person).status_code == 200  # a machine
    assert proxied("/review").post("/review/next", headers=person | {"Origin": "http://testserver"}).status_code == 200


def test_without_a_proxy_its_headers_are_nothing(database):
    keeper = Authenticator(database, clock=lambda: datetime.now(UTC))
    client = TestClient(AccessMiddleware(echo, keeper, GATEWAY))
    person = SHOWN | {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "ops"}
    assert client.get("/v1/models", headers=person).status_code == 401
    with pytest.raises(PermissionError):
        asyncio.run(keeper.admit({name.lower(): value for name, value in person.items()}, Scope.PREDICT))


@pytest.mark.parametrize("secret", ["", "short", "é" * 40])
def test_a_secret_that_can_be_guessed_is_refused(secret, monkeypatch):
    monkeypatch.setenv("PROXY_SECRET", secret)
    with pytest.raises(NoAccessSecret, match="PROXY_SECRET"):
        TrustedProxy(ProxyConfig(secret_env="PROXY_SECRET"))
