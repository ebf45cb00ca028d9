"""A client of a host takes sockets where they answer, and Ray's handle where they do not."""

import asyncio
import subprocess
import sys
import warnings

import numpy as np
import pytest

from demur.calibration_store.store import ArtifactNotFound
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.hosts import DrawsWanted
from demur.serve.telemetry.stages import TRACEPARENT
from tests.serve.sockets import hosting, linked, until

pytestmark = pytest.mark.slow

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # importing Ray warns, and takes seconds
    from ray.serve.exceptions import BackPressureError

    from demur.serve.deployments.host_client import RayHostClient
    from demur.serve.deployments.hosts import NoArtifact, NoDraws


class FakeHandle:
    """Ray's handle, which counts its calls and answers `by the handle`."""

    deployment_name = "host-digits"

    def __init__(self, error=None):
        self.calls = []
        self.error = error
        self.decide = self.decide_next = self

    def options(self, **_):
        return self

    async def remote(self, *arguments, **_):
        self.calls.append(arguments)
        if self.error:
            raise self.error
        return "by the handle"


HOST = """
import asyncio, os, sys
from pathlib import Path
from demur.serve.deployments.host_socket import HostSocket

async def decide(inputs, groups, draws, traceparent=None):
    if groups[0] == "die":
        os._exit(1)
    return [inputs, os.getpid()]

async def main():
    await HostSocket("digits", {"decide": decide}, most=8).open(Path(sys.argv[1]))
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_host_that_dies_with_a_call_leaves_it_to_the_handle(folder, run):
    process = subprocess.Popen([sys.executable, "-c", HOST, str(folder)])

    async def work():
        await until(lambda: list(folder.glob("digits~*")))
        handle, ways = FakeHandle(), []
        local = await linked(folder)
        client = RayHostClient(handle, lambda: None, local=local, called=ways.append)
        assert await client.decide([1], [None], None) == [[1], process.pid]
        asked = await asyncio.gather(*(client.decide([n], [g], None) for n, g in enumerate([None, "die", None])))
        assert asked[1] == "by the handle"
        assert ([1], ["die"], None) in handle.calls
        assert await client.decide([1], [None], None) == "by the handle"
        assert ways.count("handle") == len(handle.calls)
        assert ways[0] == "socket"

    try:
        run(work())
    finally:
        process.kill()
        process.wait()


def test_a_client_sends_traces_and_takes_what_hosts_say(folder, run):
    async def work():
        async with hosting(folder) as host:
            handle = FakeHandle()
            host.no_artifact, host.no_draws = NoArtifact("nothing is fitted"), NoDraws()
            client = RayHostClient(handle, lambda: None, note="fit one", local=await linked(folder))
            images = [np.ones((8, 8)), np.zeros((8, 8))]
            np.testing.assert_array_equal(await client.decide(images, [None, None], None), np.stack(images))
            TRACEPARENT.set("00-1-2-01")
            assert await client.decide_next([1], ["g"], "step") == ["step", ["g"]]
            await client.decide([1], [None], None)
            assert host.traces == [None, "00-1-2-01"]
            with pytest.raises(ArtifactNotFound, match="nothing is fitted; fit one"):
                await client.decide([1], ["no artifact"], None)
            with pytest.raises(DrawsWanted):
                await client.decide([1], ["no draws"], None)
            with pytest.raises(ValueError, match="no such number"):
                await client.decide([1], ["fail"], None)
            assert handle.calls == []

    run(work())


def test_without_a_socket_the_handle_is_called_and_may_be_full(run):
    async def work():
        ways = []
        client = RayHostClient(FakeHandle(), lambda: None, called=ways.append)
        assert await client.decide([1], [None], None) == "by the handle"
        full = RayHostClient(FakeHandle(BackPressureError(1, 1)), lambda: None, called=ways.append)
        with pytest.raises(Overloaded, match="the model's host is full"):
            await full.decide_next([1], [None], "step")
        assert ways == ["handle"]

    run(work())
