"""Replies that break, hang or never end, over real connections."""

import asyncio
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from demur import AsyncClient, Client
from demur.client.errors import BadReply, DemurError, TimedOut, Unreachable


@contextmanager
def behaving(behave):
    """A server that does this with each connection; give its address."""
    ended = threading.Event()

    def one(connection):
        with suppress(OSError), connection:
            connection.settimeout(1)
            connection.recv(2**16)
            for piece in behave():
                connection.sendall(piece)
                if ended.is_set():
                    return

    def accept():
        while not ended.is_set():
            with suppress(TimeoutError):
                connection, _ = server.accept()
                threads.append(threading.Thread(target=one, args=(connection,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        threads = [threading.Thread(target=accept)]
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def half():
    yield b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"id":'


def garbage():
    yield b"\x16\x03\x01 hello\r\n\r\n"


def nothing():
    yield b""


def endless():
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"10000\r\n" + b"a" * 2**16 + b"\r\n"


def dripping_body():
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
    while True:
        time.sleep(0.02)
        yield b" "


def dripping_headers():
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        time.sleep(0.02)
        yield b"X-A: b\r\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for module in ("transfer", "async_client"):
        monkeypatch.setattr(f"demur.client.{module}.GRACE", 0.2)


def ask_sync(url):
    with Client(url, timeout=3) as client:
        client.predict("m", "x")


def ask_async(url):
    async def ask():
        async with AsyncClient(url, timeout=3) as client:
            await client.predict("m", "x")

    asyncio.run(ask())


@pytest.mark.slow
@pytest.mark.parametrize("ask", [ask_sync, ask_async])
@pytest.mark.parametrize(
    ("behave", "error"),
    [
        (half, Unreachable),
        (garbage, Unreachable),
        (nothing, Unreachable),
        (endless, BadReply),
        (dripping_body, TimedOut),
    ],
)
def test_a_call_ends_in_time_whatever_comes(ask, behave, error):
    began = time.monotonic()
    with behaving(behave) as url, pytest.raises(error) as raised:
        ask(url)
    assert isinstance(raised.value, DemurError)
    assert "\x16" not in str(raised.value)
    assert time.monotonic() - began < 15  # it would go on for ever


@pytest.mark.slow
def test_headers_that_never_end():
    """httpx lets nobody stop a thread there, before 100 KB of them have come; a coroutine can be stopped."""
    with behaving(dripping_headers) as url, pytest.raises(TimedOut):
        ask_async(url)
