"""A small provider of OpenID Connect: real HTTP, real signatures, and lies where a test wants them."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "demur", "a secret that only the two know"


class FakeProvider:
    """Lets everybody in, as the claims that were set."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})
        self.published = [self.key]
        self.claims: dict[str, object] = {}
        self.forge: Callable[[dict[str, object]], str] | None = None
        self.sign_with = None
        self.issuer_said: str | None = None
        self.begun: dict[str, dict[str, str]] = {}
        self.token_requests = 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def be_honest(self, **claims: object) -> None:
        """As the specification has it, for a person with these claims."""
        self.claims, self.forge, self.sign_with, self.issuer_said = claims, None, None, None

    def authorize(self, address: str) -> dict[str, str]:
        """What the browser brings back after somebody has logged in here."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        assert query["code_challenge_method"] == "S256"
        code = hashlib.sha256(query["state"].encode()).hexdigest()
        self.begun[code] = query
        return {"code": code, "state": query["state"]}

    def tokens(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, object]]:
        self.token_requests += 1
        if base64.b64decode(authorization.removeprefix("Basic ")).decode() != f"{CLIENT}:{SECRET}":
            return 401, {"error": "invalid_client"}
        begun = self.begun.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if begun is None or begun["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        if challenge.decode() != begun["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        honest = {"iss": self.issuer, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 300, "nonce": begun["nonce"]}
        claims = {name: value for name, value in {**honest, **self.claims}.items() if value is not None}
        key = self.sign_with or self.key
        header = {"alg": "RS256", "kid": key.kid}
        if self.forge is not None:
            return 200, {"id_token": self.forge(claims), "token_type": "Bearer"}
        return 200, {"id_token": jwt.encode(header, claims, key), "token_type": "Bearer"}

    def _handler(self):
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                told = {
                    "/.well-known/openid-configuration": {
                        "issuer": provider.issuer_said or provider.issuer,
                        "authorization_endpoint": f"{provider.issuer}/authorize",
                        "token_endpoint": f"{provider.issuer}/token",
                        "jwks_uri": f"{provider.issuer}/keys",
                    },
                    "/keys": {"keys": [key.as_dict(private=False) for key in provider.published]},
                }.get(self.path)
                self._send(200 if told else 404, told or {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                self._send(*provider.tokens(form, self.headers.get("authorization", "")))

            def _send(self, status: int, content: object) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                pass

        return Handler
