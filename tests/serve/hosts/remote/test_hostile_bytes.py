"""A server that does not keep to HTTP, or leads elsewhere: what comes of it is a held row with a reason, in bounded
time and memory, and nobody else is asked."""

import json
import resource
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from demur.uncertainty.readings import outages_in
from tests.serve.hosts.remote.conftest import configured, run

BODY = json.dumps(
    {"outputs": [{"name": "probabilities", "datatype": "FP64", "shape": [1, 2], "data": [0.25, 0.75]}]}
).encode()

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def speaking(answer):
    """A server that reads a request and then does what `answer` does with the connection."""
    door = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def one(connection):
        with connection, suppress(OSError):
            connection.settimeout(20)
            while b"\r\n\r\n" not in connection.recv(2**16):
                pass
            answer(connection, over)

    def all_of_them():
        with suppress(OSError):
            while True:
                threading.Thread(target=one, args=(door.accept()[0],), daemon=True).start()

    threading.Thread(target=all_of_them, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{door.getsockname()[1]}"
    finally:
        over.set()
        door.shutdown(socket.SHUT_RDWR)
        door.close()


def sends(*parts):
    def answer(connection, _):
        for part in parts:
            connection.sendall(part)

    return answer


def endless(begin, more, *, seconds=0.0):
    def answer(connection, over):
        connection.sendall(begin)
        while not over.wait(seconds):
            connection.sendall(more)

    return answer


def with_length(length):
    return PLAIN + b"Content-Length: " + length + b"\r\n\r\n" + BODY


ANSWERS = {
    "ten megabytes of headers": sends(PLAIN + b"X-More: " + b"x" * 1000 + (b"\r\nX-More: " + b"x" * 1000) * 10_000),
    "one header of ten megabytes": sends(PLAIN + b"X-More: " + b"x" * 10_000_000 + b"\r\n\r\n" + BODY),
    "headers without end": endless(PLAIN, b"X-More: more\r\n"),
    "headers that come byte by byte": endless(PLAIN + b"X-More: ", b"x", seconds=0.1),
    "status lines without end": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body that comes byte by byte": endless(PLAIN + b"Content-Length: 100000\r\n\r\n", b" ", seconds=0.1),
    "a body without end": endless(PLAIN + b"\r\n", b"[" * 2**16),
    "a chunk without end": endless(PLAIN + b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n", b"[" * 2**16),
    "chunks of one byte": endless(PLAIN + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n[\r\n" * 2**10),
    "a chunk of no size": sends(PLAIN + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n"),
    "more than was announced": sends(with_length(b"20")),
    "less than was announced": sends(with_length(b"2000")),
    "two lengths": sends(with_length(b"20\r\nContent-Length: 30")),
    "a length that is none": sends(with_length(b"many")),
    "a length and chunks": sends(with_length(b"20\r\nTransfer-Encoding: chunked")),
    "no HTTP": sends(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "bytes": sends(bytes(range(256)) * 100),
    "nothing at all": sends(),
    "a compressed reply": sends(PLAIN + b"Content-Encoding: br\r\n\r\n" + BODY),
    "switching protocols": sends(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n" + BODY),
}


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_is_no_reply_holds_in_time_and_says_why(some_rows, answer):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with speaking(answer) as url:
        began = time.monotonic()
        output = run(configured(url, timeout_seconds=1.5, reply_bytes=2**20, retries=2), some_rows[0][:2])
        assert time.monotonic() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
    assert not output.usable().any()
    for why in output.why_unusable():
        assert url in why or "its reply" in why
        assert why.isprintable()
        assert len(why) < 1000


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["file:///etc/passwd", "http://169.254.169.254/latest/meta-data/", None])
def test_a_redirect_is_not_followed(some_rows, status, where):
    """`None`: to another server on this machine, which nobody asks."""
    asked = []

    def elsewhere(connection, _):
        asked.append(connection)
        connection.sendall(with_length(str(len(BODY)).encode()))

    with speaking(elsewhere) as other:
        target = where or f"{other}/v2/models/cancer/infer"
        head = f"HTTP/1.1 {status} Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
        with speaking(sends(head.encode())) as url:
            (outage,) = outages_in(run(configured(url), some_rows[0][:1]))
    assert not asked
    assert url in outage.why
    assert f"it points to {target!r}, and redirects are not followed; see host.url" in outage.why
    assert not outage.passes


TWICE = {
    "a key": (BODY[:-1] + b', "outputs": []}', "its reply has the key 'outputs' twice in one object"),
    "a key within": (BODY.replace(b'"shape"', b'"data": [1, 0], "shape"'), "has the key 'data' twice in one object"),
    "a tensor": (
        json.dumps({"outputs": json.loads(BODY)["outputs"] * 2}).encode(),
        "its reply has two tensors with the name 'probabilities'",
    ),
}


@pytest.mark.parametrize(("body", "message"), TWICE.values(), ids=TWICE)
def test_what_comes_twice_holds(some_rows, body, message):
    whole = PLAIN + b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    with speaking(sends(whole)) as url:
        output = run(configured(url, output="probabilities"), some_rows[0][:1])
    assert message in output.why_unusable()[0]


@pytest.mark.parametrize(
    "said",
    [
        {"predictions": [[{"label": "malignant", "score": 0.9}, {"label": "malignant", "score": 0.1}]]},
        {"predictions": [[0.9, 0.1]], "names": [["malignant", "malignant"]]},
    ],
)
def test_a_label_that_comes_twice_holds(some_rows, said):
    body = json.dumps(said).encode()
    whole = PLAIN + b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    more = {"output_labels": "names"} if "names" in said else {}
    with speaking(sends(whole)) as url:
        output = run(configured(url, protocol="http", **more), some_rows[0][:1])
    assert "a row names a label twice" in output.why_unusable()[0]
