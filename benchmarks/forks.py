"""Does a process that talks through gRPC come to harm when it forks, as Ray Serve's proxy does for each new HAProxy?

    python -m benchmarks.forks

Once with gRPC's handlers around a fork as they come, and once without them, as `demur up` sets it: how many of so many
children, which should only run `true`, ended badly, and whether the process itself hung.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time

import grpc
import uvloop
from rich.console import Console
from rich.table import Table

HANGS_SECONDS = 10.0
"""A process that says nothing for so long hangs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each way")
    parser.add_argument("--fork", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fork:
        uvloop.run(_fork(options.seconds))
        return
    table = Table("GRPC_ENABLE_FORK_SUPPORT", "children", "ended badly", "the process")
    for value in ("as it comes", "0"):
        table.add_row(value, *_tried(value, options.seconds))
    Console().print(table)


def _tried(value: str, seconds: float) -> tuple[str, str, str]:
    environment = {name: told for name, told in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    if value == "0":
        environment["GRPC_ENABLE_FORK_SUPPORT"] = value
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "benchmarks.forks", "--fork", "--seconds", str(seconds)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    said, heard = asyncio.run(_listen(process))
    if not heard:
        return *said, "hung"
    return *said, "ended well" if process.wait() == 0 else f"ended with {process.returncode}"


async def _listen(process: subprocess.Popen[str]) -> tuple[tuple[str, str], bool]:
    """What it said last, and whether it came to its end."""
    assert process.stdout
    children, badly = "0", "0"
    while True:
        try:
            line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), HANGS_SECONDS)
        except TimeoutError:
            process.kill()  # which ends the thread that reads
            return (children, badly), False
        if not line:
            return (children, badly), True
        children, badly = line.split()


async def _fork(seconds: float) -> None:
    """Talk to itself through gRPC, and run `true` again and again; say now and then how often, and how often badly."""

    async def same(request: bytes, _: object) -> bytes:
        return request

    echo = grpc.method_handlers_generic_handler("demur.Forks", {"Same": grpc.unary_unary_rpc_method_handler(same)})
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((echo,))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    end = time.monotonic() + seconds

    async def talk(*, anew: bool) -> None:
        """Over one channel, or over a new one each time."""
        while time.monotonic() < end:
            async with grpc.aio.insecure_channel(address) as channel:
                while time.monotonic() < end:
                    await channel.unary_unary("/demur.Forks/Same")(b"x" * 300)
                    if anew:
                        break
                    await asyncio.sleep(0.01)

    async def spawn() -> None:
        children = badly = 0
        while time.monotonic() < end:
            child = await asyncio.create_subprocess_exec("true")
            children, badly = children + 1, badly + (await child.wait() != 0)
            if children % 50 == 0:
                print(children, badly, flush=True)

    await asyncio.gather(talk(anew=False), talk(anew=False), talk(anew=True), spawn())
    await server.stop(None)


if __name__ == "__main__":
    main()
