"""Login at a provider of OpenID Connect: the authorization code flow with PKCE, state and nonce."""

import base64
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any
from urllib.parse import urlencode

import httpx

from demur.serve.access.roles import person_of
from demur.serve.access.sessions import LoggedInPerson, LoginRefused
from demur.serve.config.access import OidcConfig
from demur.traffic.database import Connection

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
"""Signatures that are taken. None with a shared secret, and never no signature."""

LEEWAY_SECONDS = 60
LOGIN_MINUTES = 10
KEPT_SECONDS = 3600.0
"""How long the provider's document and keys are kept; keys are asked for again when one is not among them."""

LEAST_APART_SECONDS = 10.0
"""So that tokens with made-up keys do not become requests to the provider, nor does every login while it is away."""


@dataclass(frozen=True, kw_only=True)
class LoginStart:
    """A login that has begun: where the browser goes, and what must come back."""

    address: str = field(repr=False)
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)


class Provider:
    """One provider, as its own document describes it."""

    def __init__(self, config: OidcConfig, redirect_uri: str, *, timeout_seconds: float = 10.0) -> None:
        self._config, self._redirect_uri = config, redirect_uri
        self._http = httpx.Client(timeout=timeout_seconds)
        self._lock = threading.Lock()
        self._document: tuple[float, dict[str, Any]] | None = None
        self._away: tuple[float, LoginRefused] | None = None
        self._keys: tuple[float, Any] | None = None

    def close(self) -> None:
        self._http.close()

    def begin(self) -> LoginStart:
        """Raises `LoginRefused` where the provider does not answer."""
        state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._config.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self._config.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._described()["authorization_endpoint"]
        address = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"
        return LoginStart(address=address, state=state, nonce=nonce, verifier=verifier)

    def finish(self, code: str, *, nonce: str, verifier: str) -> LoggedInPerson:
        """Who has logged in there; raises `LoginRefused` for anything that is not as it must be."""
        told = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "client_id": self._config.client_id,
            "code_verifier": verifier,
        }
        secret = self._config.secret()
        auth = None if secret is None else httpx.BasicAuth(self._config.client_id, secret)
        tokens = self._asked("POST", self._described()["token_endpoint"], data=told, auth=auth)
        claims = self._claims(tokens.get("id_token"), nonce)
        name = claims.get(self._config.name_claim)
        if self._config.name_claim == "email" and claims.get("email_verified") is not True:
            raise LoginRefused("the provider does not say that your address was verified")
        roles = claims.get(self._config.roles_claim, ())
        roles = [roles] if isinstance(roles, str) else roles
        known = [role for role in roles if isinstance(role, str)] if isinstance(roles, list | tuple) else []
        return person_of(name, known, self._config.roles, self._config.everyone)

    def _claims(self, token: object, nonce: str) -> Mapping[str, Any]:
        """What a token says, after its signature and everything that it must say has been checked."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        if not isinstance(token, str):
            raise LoginRefused("the provider did not say who you are")
        registry = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": self._config.issuer},
            aud={"essential": True, "value": self._config.client_id},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
        )
        try:
            try:
                decoded = jwt.decode(token, self._jwks(), algorithms=ALGORITHMS)
            except (JoseError, ValueError):  # perhaps with a key that is newer than those that are kept
                decoded = jwt.decode(token, self._jwks(again=True), algorithms=ALGORITHMS)
            claims: dict[str, Any] = decoded.claims
            registry.validate(claims)
        except (JoseError, ValueError) as error:
            raise LoginRefused(f"what the provider said is not to be trusted: {' '.join(str(error).split())}") from None
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise LoginRefused("what the provider said belongs to another login; begin again")
        if claims.get("azp", self._config.client_id) != self._config.client_id:
            raise LoginRefused("what the provider said is meant for another service")
        return claims

    def _described(self) -> dict[str, Any]:
        with self._lock:
            if self._document is None or monotonic() - self._document[0] > KEPT_SECONDS:
                if self._away is not None and monotonic() - self._away[0] < LEAST_APART_SECONDS:
                    raise LoginRefused(str(self._away[1]))
                try:
                    self._document = monotonic(), self._document_of_provider()
                except LoginRefused as error:
                    self._away = monotonic(), error
                    raise
            return self._document[1]

    def _document_of_provider(self) -> dict[str, Any]:
        document = self._asked("GET", f"{self._config.issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self._config.issuer:
            raise LoginRefused("the provider says that it is another one; correct access.oidc.issuer")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not self._config.trusts(document.get(name)):
                raise LoginRefused(f"the provider's {name} is not one that can be trusted")
        return document

    def _jwks(self, *, again: bool = False) -> Any:
        from joserfc.jwk import KeySet

        where = self._described()["jwks_uri"]
        with self._lock:
            kept = KEPT_SECONDS if not again else LEAST_APART_SECONDS
            if self._keys is None or monotonic() - self._keys[0] > kept:
                self._keys = monotonic(), KeySet.import_key_set(self._asked("GET", where))  # type: ignore[arg-type]
            return self._keys[1]

    def _asked(self, method: str, address: str, **more: Any) -> dict[str, Any]:
        try:
            response = self._http.request(method, address, headers={"Accept": "application/json"}, **more)
            content = response.json() if response.is_success else None
        except (httpx.HTTPError, ValueError) as error:
            raise LoginRefused(
                f"the login provider does not answer ({type(error).__name__}); try again later"
            ) from None
        if not isinstance(content, dict):
            raise LoginRefused(f"the provider refused, with status {response.status_code}; begin again")
        return content


@dataclass(frozen=True, kw_only=True)
class PendingLogin:
    """What is needed when a browser comes back from the provider."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    back: str
    """Where it is led then."""


class Seal:
    """What the browser itself keeps while it is at the provider, signed by this service, so that it costs nothing to
    begin a login, however many strangers do."""

    def __init__(self, secret: str) -> None:
        """`secret` is one that all replicas know."""
        self._key = hmac.digest(secret.encode(), b"a login at a provider", "sha256")

    def closed(self, begun: LoginStart, *, back: str, now: float) -> str:
        told = [begun.state, begun.nonce, begun.verifier, back, now + LOGIN_MINUTES * 60]
        content = base64.urlsafe_b64encode(json.dumps(told).encode()).rstrip(b"=")  # which a cookie would have to quote
        return f"{content.decode()}.{self._signature(content)}"

    def opened(self, text: str, *, now: float) -> PendingLogin | None:
        """What was sealed; None where this is nothing that this service has sealed, or its time is up."""
        content, _, signature = text.encode().rpartition(b".")
        if not hmac.compare_digest(signature, self._signature(content).encode()):
            return None
        state, nonce, verifier, back, until = json.loads(base64.urlsafe_b64decode(content + b"=="))
        return PendingLogin(state=state, nonce=nonce, verifier=verifier, back=back) if now < until else None

    def _signature(self, content: bytes) -> str:
        return hmac.new(self._key, content, "sha256").hexdigest()


def use_state(connection: Connection, state: str) -> bool:
    """Use up the state of a login; return whether this is the first time."""
    connection.execute("delete from access_logins where expires_at < now()")
    used = connection.execute(
        "insert into access_logins (state_hash, nonce, verifier, back, expires_at) values (%s, '', '', '', now() + %s)"
        " on conflict do nothing",
        (hashlib.sha256(state.encode()).digest(), timedelta(minutes=LOGIN_MINUTES)),
    )
    return used.rowcount == 1
