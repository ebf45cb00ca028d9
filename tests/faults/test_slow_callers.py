"""Callers who begin a request and never go on: all others are served as ever."""

import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.faults.conftest import OPEN_REQUESTS, Site, Trial

pytestmark = [pytest.mark.faults, pytest.mark.slow]

ASKED = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
HALF_A_HEADER = ASKED
NO_BODY = ASKED + b"Content-Length: 1000\r\n\r\n"
HALF_A_BODY = NO_BODY + b'{"model": "digits", "input": '

OF_EACH = 4 * OPEN_REQUESTS
"""More than all gateways have places for."""

HEADER_SECONDS = 40
"""HAProxy waits ten; a busy machine may take longer to say so."""


@pytest.mark.parametrize(
    "begun", [HALF_A_HEADER, NO_BODY, HALF_A_BODY], ids=["half a header", "no body", "half a body"]
)
def test_hundreds_begin_and_never_go_on(site: Site, trial: Trial, begun: bytes):
    answers = []

    def fault(_load):
        address = urlsplit(site.url)
        with ExitStack() as opened:
            callers = [opened.enter_context(socket.create_connection((address.hostname, address.port), 30))
                       for _ in range(OF_EACH)]  # fmt: skip
            for caller in callers:
                caller.sendall(begun)
            time.sleep(8)
            callers[0].settimeout(HEADER_SECONDS)
            if begun == HALF_A_HEADER:
                answers.append(callers[0].recv(1000))

    load, _ = trial(site, fault)
    assert not load.troubles
    assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
