"""A folder for sockets, and both kinds of event loops."""

import asyncio
import tempfile
from pathlib import Path

import pytest
import uvloop


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="calls-", dir="/tmp") as made:  # the path of a socket must be short
        yield Path(made)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run
