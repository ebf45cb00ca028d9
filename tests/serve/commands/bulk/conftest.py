"""A gateway that listens, and commands that ask it."""

import sys
from dataclasses import dataclass

import pytest

from demur.serve.cli import main
from demur.serve.web.native.app import gateway_app
from demur.serve.web.native.fast_path import FastPath
from tests.conftest import digit_rows
from tests.serve.listening import listening


class Counting:
    """The gateway, which counts the predictions that it is asked for, and can fail from some request on."""

    def __init__(self, app):
        self._app = app
        self.requests = 0
        self.fails_after = None
        self.answers_fail = False

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            self.requests += 1
            if self.fails_after is not None and self.requests > self.fails_after:
                if self.answers_fail:  # it is done, and nobody is told
                    await self._app(scope, receive, _to_nobody)
                body = b'{"error": {"kind": "Overloaded", "message": "too much"}}'
                headers = [(b"retry-after", b"1000"), (b"content-type", b"application/json")]
                await send({"type": "http.response.start", "status": 503, "headers": headers})
                await send({"type": "http.response.body", "body": body})
                return
        await self._app(scope, receive, send)


async def _to_nobody(_message):
    pass


@pytest.fixture
def gateway(handler, quickstart):
    most = quickstart.limits.body_bytes
    return Counting(FastPath(handler, max_body_bytes=most).before(gateway_app(handler, max_body_bytes=most)))


@pytest.fixture
def url(gateway, monkeypatch):
    monkeypatch.delenv("DEMUR_KEY", raising=False)
    with listening(gateway) as address:
        monkeypatch.setenv("DEMUR_URL", address)
        yield address


@dataclass
class Ended:
    status: int
    said: str


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process; what it said, and its status."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["demur", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr().out
        if isinstance(end.value.code, str):
            return Ended(1, said + end.value.code)
        return Ended(end.value.code or 0, said)

    return run


@pytest.fixture(scope="session")
def some_digits(digits):
    return digit_rows(digits)[:50]


def count(database, table="records"):
    with database.transaction() as connection:
        return connection.execute(f"select count(*) from {table}").fetchone()[0]
