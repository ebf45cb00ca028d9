"""A stream from a replica that never comes to an end by itself, in a Ray like that of `demur up`: says whether closing
the stream stopped the replica."""

import asyncio
import logging
from contextlib import ExitStack

from demur.serve.local.private_run import private_run

opened = ExitStack()
folder, _ = opened.enter_context(private_run())  # before Ray is imported

import ray  # noqa: E402
from ray import serve as ray_serve  # noqa: E402

from demur.serve.contract.decided import ArtifactShare  # noqa: E402
from demur.serve.deployments.host_client import RayHostClient  # noqa: E402
from demur.serve.deployments.hosts import ModelReplica  # noqa: E402
from demur.serve.local.ray_patience import patient_start  # noqa: E402

PATIENCE = 5000
"""Looks, each a little after the other."""


def deployment():
    """Made in here, so that it travels to the replica as it is."""

    class Endless:
        stopped = 0

        async def stream(self, value, group, draw):
            try:
                yield ""
                if value == "short":
                    yield "the end"
                    yield ArtifactShare(rows=[0], decided=None)
                    return
                yield "on and "
                await asyncio.sleep(3600)
            except (asyncio.CancelledError, GeneratorExit):
                Endless.stopped += 1
                raise

    class ScriptedHost(ModelReplica):
        async def __init__(self):
            self._host = Endless()

        async def check_health(self):
            pass

        async def stopped(self):
            return Endless.stopped

    class Listener:
        """As the gateway is: a replica itself."""

        def __init__(self, handle):
            self._handle = handle

        async def listen(self):
            host = RayHostClient(self._handle, lambda: None)
            first, second, last = [item async for item in host.stream("short", None, 0)]
            assert (first, second) == ("", "the end")
            assert isinstance(last, ArtifactShare)
            items = host.stream("long", None, 0)
            assert [await anext(items), await anext(items)] == ["", "on and "]
            before = await self._handle.stopped.remote()
            await items.aclose()
            for _ in range(PATIENCE):
                if await self._handle.stopped.remote() > before:
                    return "stopped"
                await asyncio.sleep(0.02)
            return "still at it"

    host = ray_serve.deployment(ScriptedHost).bind()
    return ray_serve.deployment(Listener).bind(host)


if __name__ == "__main__":
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    with patient_start():
        ray.init("local", num_cpus=4, _temp_dir=str(folder.ray), **quiet)
    try:
        handle = ray_serve.run(deployment(), name="endless", route_prefix=None)

        async def ask():
            return await handle.listen.remote()

        print(asyncio.run(ask()))
    finally:
        ray.shutdown()
        opened.close()
