"""Logins at a provider: what is believed, and every lie that is not."""

import base64
import hmac
import json
import re
import time
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey
from pydantic import ValidationError
from starlette.testclient import TestClient

from demur.serve.access import oidc
from demur.serve.access.needs import REVIEW
from demur.serve.config.access import AccessConfig, NoAccessSecret, OidcConfig, check_access_secrets
from demur.serve.web.login.access_middleware import AccessMiddleware
from demur.serve.web.review.app import console_app
from tests.serve.access.doors import keeper_of
from tests.serve.access.fake_provider import CLIENT, SECRET, FakeProvider

pytestmark = pytest.mark.slow  # each makes the application anew

HERE = "http://testserver"


@pytest.fixture(scope="module")
def provider():
    running = FakeProvider()
    yield running
    running.close()


@pytest.fixture
def access(provider, monkeypatch):
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    provider.be_honest(preferred_username="ada", groups=["lab", "reviewers"])
    provider.published = [provider.key]
    told = {
        "issuer": provider.issuer,
        "client_id": CLIENT,
        "client_secret_env": "OIDC_SECRET",
        "roles": {"reviewers": ["review"], "risk": ["audit", "review"]},
    }
    return AccessConfig(url=HERE, oidc=told)


@pytest.fixture
def browser(access, quickstart, database):
    config = quickstart.model_copy(update={"access": access})
    gate = AccessMiddleware(console_app(config, database), keeper_of(database), REVIEW, cookie=access.cookie)
    return TestClient(gate, base_url=HERE, root_path="/review", follow_redirects=False)


def log_in(browser, provider, back="", **changed):
    """Go to the provider, log in there, and come back."""
    browser.cookies.clear()
    sent = browser.get("/review/login/oidc", params={"back": back})
    assert sent.status_code == 303, sent.text
    return browser.get("/review/login/oidc/callback", params=provider.authorize(sent.headers["location"]) | changed)


def test_who_logs_in_there_is_logged_in_here(browser, provider):
    assert "With single sign-on" in browser.get("/review/login").text
    done = log_in(browser, provider, back="/review/overview")
    assert done.status_code == 200
    assert 'content="0; url=/review/overview"' in done.text  # a redirect would come without the strict cookie
    assert browser.get("/review/v1/me").json()["name"] == "ada"
    cookies = done.headers.get_list("set-cookie")
    assert any(re.match(r"demur-session=.*HttpOnly.*SameSite=strict", cookie) for cookie in cookies)
    assert any(cookie.startswith('demur-session-login=""') for cookie in cookies)


def test_what_is_asked_of_the_provider(browser, provider):
    sent = browser.get("/review/login/oidc")
    query = parse_qs(urlsplit(sent.headers["location"]).query)
    assert query["redirect_uri"] == [f"{HERE}/review/login/oidc/callback"]
    assert query["scope"] == ["openid profile email"]
    assert len(query["state"][0]) == len(query["nonce"][0]) == 64
    assert re.search(r"demur-session-login=.*HttpOnly; Max-Age=600; Path=/; SameSite=lax", sent.headers["set-cookie"])


NOW = int(time.time())


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"nonce": "another"}, "belongs to another login"),
        ({"nonce": None}, "belongs to another login"),
        ({"iss": "https://elsewhere.example"}, "not to be trusted"),
        ({"iss": None}, "not to be trusted"),
        ({"aud": "another"}, "not to be trusted"),
        ({"aud": ["another"]}, "not to be trusted"),
        ({"aud": None}, "not to be trusted"),
        ({"azp": "another", "aud": [CLIENT, "another"]}, "meant for another service"),
        ({"exp": NOW - 3600}, "not to be trusted"),
        ({"exp": None}, "not to be trusted"),
        ({"exp": "tomorrow"}, "not to be trusted"),
        ({"iat": NOW + 3600}, "not to be trusted"),
        ({"nbf": NOW + 3600}, "not to be trusted"),
        ({"sub": None}, "not to be trusted"),
        ({"preferred_username": None}, "not said who you are"),
        ({"preferred_username": "a\u0007b"}, "not said who you are"),
        ({"preferred_username": ["ada"]}, "not said who you are"),
        ({"groups": ["lab"]}, "may nothing here"),
        ({"groups": None}, "may nothing here"),
        ({"groups": {"reviewers": True}}, "may nothing here"),
        ({"groups": [["reviewers"]]}, "may nothing here"),
    ],
)
def test_what_is_not_as_it_must_be_lets_nobody_in(browser, provider, claims, said):
    provider.be_honest(preferred_username="ada", groups=["reviewers"])
    provider.claims |= claims
    refused = log_in(browser, provider)
    assert refused.status_code == 403
    assert said in refused.text
    assert "demur-session" not in browser.cookies


@pytest.mark.parametrize("aud", [[CLIENT], [CLIENT, "another"]])
def test_one_of_several_audiences_will_do(browser, provider, aud):
    provider.claims["aud"] = aud
    assert log_in(browser, provider).status_code == 200


def forged(header, sign):
    """A token that was put together by hand."""

    def part(content):
        return base64.urlsafe_b64encode(content).rstrip(b"=")

    def forge(claims):
        signed = b".".join((part(json.dumps(header).encode()), part(json.dumps(claims).encode())))
        return b".".join((signed, part(sign(signed)))).decode()

    return forge


def test_signatures(browser, provider):
    """By another key under the same name, with the public key as a shared secret, and none at all."""
    public = provider.key.as_pem(private=False)
    provider.sign_with = RSAKey.generate_key(2048, {"kid": "first"})
    assert "not to be trusted" in log_in(browser, provider).text
    for provider.forge in (
        forged({"alg": "HS256", "kid": "first"}, lambda signed: hmac.digest(public, signed, "sha256")),
        forged({"alg": "none"}, lambda _: b""),
        forged({"alg": "RS256", "kid": "first"}, lambda _: b""),
        lambda _: "not.a.token",
        lambda _: None,
    ):
        assert log_in(browser, provider).status_code == 403
    assert "demur-session" not in browser.cookies


def test_a_new_key_of_the_provider_is_asked_for(browser, provider, monkeypatch):
    monkeypatch.setattr(oidc, "LEAST_APART_SECONDS", 0.0)
    assert log_in(browser, provider).status_code == 200
    fresh = RSAKey.generate_key(2048, {"kid": "second", "use": "sig", "alg": "RS256"})
    provider.published, provider.sign_with = [fresh], fresh
    assert log_in(browser, provider).status_code == 200


def test_states(browser, provider):
    """What comes back must have begun in this browser, and is good once."""
    for changed in ({"state": "another"}, {"state": ""}, {"state": "é"}):
        assert "did not begin in this browser" in log_in(browser, provider, **changed).text
    assert "another provider answered" in log_in(browser, provider, iss="https://elsewhere.example").text.lower()
    assert "let nobody in" in log_in(browser, provider, error="access_denied").text
    sent = browser.get("/review/login/oidc")
    back = provider.authorize(sent.headers["location"])
    kept = browser.cookies["demur-session-login"]
    browser.cookies.clear()  # as in the browser of somebody whom this link was sent to
    assert "did not begin in this browser" in browser.get("/review/login/oidc/callback", params=back).text
    browser.cookies.set("demur-session-login", kept)
    assert browser.get("/review/login/oidc/callback", params=back).status_code == 200
    browser.cookies.set("demur-session-login", kept)
    asked = provider.token_requests
    assert "This login is over" in browser.get("/review/login/oidc/callback", params=back).text
    assert provider.token_requests == asked


def test_what_the_browser_keeps_is_what_this_service_sealed():
    seal, begun = oidc.Seal("a secret"), oidc.LoginStart(address="a", state="s", nonce="n", verifier="v")
    kept = seal.closed(begun, back="/review/überall", now=100.0)
    assert seal.opened(kept, now=101.0) == oidc.PendingLogin(state="s", nonce="n", verifier="v", back="/review/überall")
    assert oidc.Seal("a secret").opened(kept, now=101.0) is not None  # another replica
    assert seal.opened(kept, now=100.0 + 60 * oidc.LOGIN_MINUTES) is None
    content, _, signature = kept.partition(".")
    for changed in (
        "",
        ".",
        kept[:-1],
        f"{content}x.{signature}",
        f".{signature}",
        "é.é",
        content,
        f"{kept}.{signature}",
    ):
        assert seal.opened(changed, now=101.0) is None
    assert oidc.Seal("another secret").opened(kept, now=101.0) is None
    assert re.fullmatch(r"[\w.-]+", kept)
    assert "verifier" not in repr(seal.opened(kept, now=101.0))


def test_strangers_who_begin_logins_keep_nobody_out(browser, provider, database):
    for _ in range(100):
        browser.cookies.clear()
        assert browser.get("/review/login/oidc").status_code == 303
        for cookie in ("", "made.up"):
            browser.cookies.set("demur-session-login", cookie)
            told = browser.get("/review/login/oidc/callback", params={"state": "x", "code": "y"})
            assert "did not begin in this browser" in told.text
    with database.transaction() as connection:
        assert connection.execute("select count(*) from access_logins").fetchone() == (0,)
    assert log_in(browser, provider).status_code == 200


def test_a_provider_that_is_away_is_not_asked_by_everybody(monkeypatch):
    away, asked = oidc.Provider(OidcConfig(issuer="http://127.0.0.1:9", client_id=CLIENT), HERE), []
    request = away._http.request
    monkeypatch.setattr(away._http, "request", lambda *told, **more: asked.append(told) or request(*told, **more))
    for _ in range(5):
        with pytest.raises(oidc.LoginRefused, match="does not answer"):
            away.begin()
    assert len(asked) == 1
    monkeypatch.setattr(oidc, "LEAST_APART_SECONDS", 0.0)
    with pytest.raises(oidc.LoginRefused, match="does not answer"):
        away.begin()
    assert len(asked) == 2
    away.close()


def test_a_code_without_its_verifier_is_nothing(browser, provider, monkeypatch):
    opened = oidc.Seal.opened
    monkeypatch.setattr(
        oidc.Seal, "opened", lambda *told, **more: replace(opened(*told, **more), verifier="another verifier")
    )
    refused = log_in(browser, provider)
    assert "The provider refused, with status 400" in refused.text


def test_a_provider_that_says_it_is_another_one(browser, provider):
    provider.issuer_said = "https://elsewhere.example"
    refused = browser.get("/review/login/oidc")
    assert refused.status_code == 403
    assert "correct access.oidc.issuer" in refused.text


def test_an_address_counts_only_if_it_was_verified(provider, monkeypatch):
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    config = OidcConfig(
        issuer=provider.issuer, client_id=CLIENT, client_secret_env="OIDC_SECRET", name_claim="email",
        everyone=("review",),
    )  # fmt: skip
    for verified, passes in ((True, True), (False, False), (None, False), ("true", False)):
        provider.be_honest(email="ada@example.org", email_verified=verified)
        asked = oidc.Provider(config, f"{HERE}/review/login/oidc/callback")
        begun = asked.begin()
        code = provider.authorize(begun.address)["code"]
        if passes:
            person = asked.finish(code, nonce=begun.nonce, verifier=begun.verifier)
            assert (person.name, person.scopes) == ("ada@example.org", ("review",))
        else:
            with pytest.raises(oidc.LoginRefused, match="verified"):
                asked.finish(code, nonce=begun.nonce, verifier=begun.verifier)
        assert begun.state not in repr(begun)
        asked.close()


def test_a_provider_that_is_away(quickstart):
    away = oidc.Provider(OidcConfig(issuer="http://127.0.0.1:9", client_id=CLIENT), HERE)
    with pytest.raises(oidc.LoginRefused, match="does not answer"):
        away.begin()
    away.close()


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"oidc": {"issuer": "https://a.example", "client_id": "x"}}, "say where people reach this service"),
        ({"url": HERE, "oidc": {"issuer": "http://a.example", "client_id": "x"}}, "is not an address like"),
        ({"url": HERE, "oidc": {"issuer": "https://a.example", "client_id": "x", "scopes": ["email"]}}, "`openid`"),
        ({"url": "ftp://x"}, "is not an address like"),
        ({"url": "https://u:p@x"}, "is not an address like"),
        ({"mode": "open", "proxy": {"secret_env": "X"}}, "asks nobody who they are"),
        ({"url": HERE, "oidc": {"issuer": "https://a.example", "client_id": "x", "everyone": ["all"]}}, "predict"),
    ],
)
def test_a_configuration_that_cannot_be(told, said):
    with pytest.raises(ValidationError, match=said):
        AccessConfig.model_validate(told)


def test_a_secret_that_is_not_there_is_said_at_the_start(access, monkeypatch):
    check_access_secrets(access)
    monkeypatch.delenv("OIDC_SECRET")
    with pytest.raises(NoAccessSecret, match="OIDC_SECRET is not set"):
        check_access_secrets(access)
    assert SECRET not in repr(access)
