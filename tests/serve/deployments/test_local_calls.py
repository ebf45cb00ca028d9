"""Calls of gateways to hosts over Unix sockets, and what becomes of them where one end fails."""

import asyncio
import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import yaml

from demur.serve.config.file import Config
from demur.serve.deployments import local_hosts, socket_frames
from demur.serve.deployments.host_socket import HostSocket
from demur.serve.deployments.local_hosts import HostFailed, LocalHosts, NotAnswered
from demur.serve.deployments.socket_frames import HEADER, VARIABLE, socket_folder
from tests.conftest import ROOT
from tests.serve.sockets import hosting, linked, until

NOBODY = 65534


def decide(local, value, group=None):
    return local.call("decide", (value, [group], None), {})


def links(local):
    return list(local._links.values())


def test_arrays_come_back_as_they_were_and_can_be_written_to(folder, run):
    async def work():
        async with hosting(folder):
            local = await linked(folder)
            for sent in (np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((0, 8)), np.ones(3_000_000)):
                got = await decide(local, sent)
                np.testing.assert_array_equal(got, sent)
                assert got.dtype == sent.dtype
                assert got.flags.writeable
                assert got.flags.aligned
            assert await local.call("decide_next", ([1], ["g"], "step"), {}) == ["step", ["g"]]

    run(work())


def test_calls_are_open_together_and_replies_come_in_any_order(folder, run):
    async def work():
        async with hosting(folder) as host:
            local = await linked(folder)
            first = asyncio.create_task(decide(local, 1, "wait"))
            second = asyncio.create_task(decide(local, 2, "wait"))
            await until(lambda: host.waiting == 2)
            assert await decide(local, 3) == 3
            host.go_on.set()
            assert await asyncio.gather(first, second) == [1, 2]
            assert links(local)[0].calls == 0

    run(work())


def test_a_frame_that_comes_byte_by_byte_is_one_frame(folder, run):
    async def work():
        async with hosting(folder):
            reader, writer = await asyncio.open_unix_connection(str(folder / f"digits~{os.getpid()}"))
            body = socket_frames.packed("decide", ([1, 2], [None], None), {})
            greeting = HEADER.pack(0, 6) + b"digits"
            assert await reader.readexactly(len(greeting)) == greeting
            for byte in HEADER.pack(7, len(body)) + body:
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            number, size = HEADER.unpack(await reader.readexactly(HEADER.size))
            assert number == 7
            assert socket_frames.unpacked(await reader.readexactly(size)) == (socket_frames.DONE, [1, 2])
            writer.close()

    run(work())


@pytest.mark.parametrize(
    "frames",
    [
        HEADER.pack(1, 2**32 - 1),
        2 * (HEADER.pack(1, len(asked := socket_frames.packed("decide", (1, ["wait"], None), {}))) + asked),
    ],
    ids=["too large", "a number twice"],
)
def test_a_caller_that_breaks_the_rules_is_let_go_and_others_are_not(folder, run, frames):
    async def work():
        async with hosting(folder):
            local = await linked(folder)
            reader, writer = await asyncio.open_unix_connection(str(folder / f"digits~{os.getpid()}"))
            writer.write(frames)
            async with asyncio.timeout(10):
                assert await reader.read() in (b"", HEADER.pack(0, 6) + b"digits")
            assert await decide(local, 3) == 3
            writer.close()

    run(work())


@pytest.mark.parametrize("body", [b"no pickle", socket_frames.packed("close"), socket_frames.packed("stops", (), {})])
def test_a_call_that_makes_no_sense_is_replied_to_with_an_error(folder, run, body):
    async def work():
        async with hosting(folder):
            local = await linked(folder)
            with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever unpickling raises
                await links(local)[0].call(body)
            assert not isinstance(raised.value, NotAnswered)
            assert await decide(local, 3) == 3

    run(work())


def test_what_a_host_raises_is_raised_with_its_traceback(folder, run):
    async def work():
        async with hosting(folder):
            local = await linked(folder)
            with pytest.raises(ValueError, match="no such number") as raised:
                await decide(local, 1, "fail")
            assert "in decide" in str(raised.value.__cause__)
            with pytest.raises(HostFailed, match="Unsendable: one"):
                await decide(local, 1, "unsendable")
            with pytest.raises(HostFailed, match="LibraryPanic: index out of bounds"):
                await decide(local, 1, "panic")
            with pytest.raises(HostFailed, match="cancelled"):
                await decide(local, 1, "cancelled")
            with pytest.raises(NotAnswered, match="cannot be sent"):
                await decide(local, 1, "function")
            with pytest.raises(NotAnswered, match="cannot be sent"):
                await decide(local, lambda: None)
            assert await decide(local, 3) == 3

    run(work())


def test_a_call_or_a_reply_that_is_too_large_goes_by_the_handle(folder, run, monkeypatch):
    async def work():
        async with hosting(folder):
            local = await linked(folder)
            monkeypatch.setattr(local_hosts, "LARGEST", 1000)
            with pytest.raises(NotAnswered, match="the call has"):
                await decide(local, b"x" * 1000)
            monkeypatch.undo()
            monkeypatch.setattr("demur.serve.deployments.host_socket.LARGEST", 1000)
            with pytest.raises(NotAnswered, match="the reply has"):
                await decide(local, b"x" * 1000)
            assert await decide(local, 3) == 3

    run(work())


def test_a_full_host_says_so(folder, run):
    async def work():
        async with hosting(folder, most=2) as host:
            local = await linked(folder)
            asked = [asyncio.create_task(decide(local, n, "wait")) for n in range(2)]
            await until(lambda: host.waiting == 2)
            with pytest.raises(NotAnswered, match="full"):
                await decide(local, 3)
            host.go_on.set()
            assert await asyncio.gather(*asked) == [0, 1]
            assert await decide(local, 3) == 3

    run(work())


def test_a_call_that_is_given_up_is_cancelled_in_the_host(folder, run):
    async def work():
        async with hosting(folder) as host:
            local = await linked(folder)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(decide(local, 1, "wait"), 0.1)
            await until(lambda: host.cancelled == 1)
            (link,) = links(local)
            await until(lambda: link.works)
            assert link.calls == 0
            assert await decide(local, 3) == 3

    run(work())


def test_a_host_that_hangs_gets_no_more_calls_until_it_replies(folder, run):
    async def work():
        async with hosting(folder, pid=1) as host, hosting(folder, pid=2):
            local = await linked(folder, hosts=2)
            hangs, other = local._links["digits~1"], local._links["digits~2"]
            other.called_at = float("inf")
            caller = next(iter(host.socket.callers))
            caller.received = lambda *_: None
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(decide(local, 1, "wait"), 0.1)
            assert not hangs.works
            assert await asyncio.gather(*(decide(local, n) for n in range(8))) == list(range(8))
            other.close()
            with pytest.raises(NotAnswered, match="no host is there"):
                await decide(local, 1)
            del caller.received
            caller.received(1, bytearray(socket_frames.packed("decide", (1, [None], None), {})))
            await until(lambda: hangs.works)
            assert await decide(local, 3) == 3

    run(work())


def test_calls_go_to_the_host_with_the_fewest(folder, run):
    async def work():
        async with hosting(folder, pid=1) as one, hosting(folder, pid=2) as two:
            local = await linked(folder, hosts=2)
            asked = [asyncio.create_task(decide(local, n, "wait")) for n in range(6)]
            await until(lambda: one.waiting + two.waiting == 6)
            assert one.waiting == two.waiting == 3
            one.go_on.set()
            await until(lambda: one.waiting == 0)
            assert [await decide(local, n) for n in range(3)] == [0, 1, 2]
            assert len(one.traces) == 6
            two.go_on.set()
            await asyncio.gather(*asked)

    run(work())


def test_hosts_that_come_and_go_are_noticed(folder, run, monkeypatch):
    monkeypatch.setattr(local_hosts, "LOOK_SECONDS", 0.0)

    async def work():
        async with hosting(folder, pid=1) as first:
            local = await linked(folder)
            async with hosting(folder, pid=2) as second, hosting(folder, model="letters") as stranger:
                while len(local._links) < 2:
                    assert await decide(local, 1) == 1
                await until(lambda: all(link.works for link in links(local)))
                for _ in range(4):
                    await decide(local, 1)
                assert len(second.traces) >= 2
                assert stranger.traces == []
                assert len(links(local)) == 2
            await until(lambda: len(local._links) == 1)
            assert await decide(local, 3) == 3
            assert [path.name for path in folder.iterdir()] == ["digits~1"]
            assert first.traces

    run(work())


def test_a_host_that_stops_answers_what_it_has_and_takes_no_more(folder, run):
    async def work():
        async with hosting(folder) as host:
            local = await linked(folder)
            asked = asyncio.create_task(decide(local, 1, "wait"))
            await until(lambda: host.waiting == 1)
            stopping = asyncio.create_task(host.socket.close())
            await asyncio.sleep(0)
            assert list(folder.iterdir()) == []
            with pytest.raises(NotAnswered, match="stops"):
                await decide(local, 2)
            host.go_on.set()
            assert await asked == 1
            await stopping
            await until(lambda: not local._links)

    run(work())


def test_the_socket_of_a_host_that_was_killed_is_cleared_away(folder, run):
    async def work():
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(folder / "digits~77"))
        local = LocalHosts(folder, "digits")
        with pytest.raises(NotAnswered):
            await decide(local, 1)
        await until(lambda: not list(folder.iterdir()))

    run(work())


def test_a_folder_in_which_nobody_can_listen_leaves_the_handle(folder, run, caplog):
    async def work():
        await HostSocket("digits", {}, most=1).open(folder / "gone")
        with pytest.raises(NotAnswered):
            await decide(LocalHosts(folder / "gone", "digits"), 1)

    run(work())
    assert len([line for line in caplog.messages if "go by Ray's handle" in line]) == 1


STRANGER = """
import json, os, socket, sys
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
with socket.socket(socket.AF_UNIX) as end:
    end.connect(sys.argv[1])
    try:
        end.sendall(b"x" * 100)
        got = end.recv(100)
    except OSError:
        got = b""
print(json.dumps(got.decode()))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_who_gets_hold_of_a_socket_is_told_nothing(folder, run, caplog):
    folder.chmod(0o777)

    async def work():
        async with hosting(folder) as host:
            (path,) = folder.iterdir()
            path.chmod(0o777)
            stranger = await asyncio.create_subprocess_exec(
                sys.executable, "-c", STRANGER.format(nobody=NOBODY), str(path), stdout=subprocess.PIPE
            )
            said, _ = await stranger.communicate()
            assert json.loads(said) == ""
            assert not host.socket.callers

    run(work())
    assert f"belongs to user {NOBODY}" in caplog.text


LURE = """
import os, socket, sys
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
with socket.socket(socket.AF_UNIX) as end:
    end.bind(sys.argv[1])
    end.listen()
    print("listens", flush=True)
    connection, _ = end.accept()
    connection.sendall(b"\\0" * 8 + b"\\6\\0\\0\\0digits")
    print(connection.recv(100), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_who_listens_there_is_sent_nothing(folder, run, caplog):
    folder.chmod(0o777)

    async def work():
        lure = await asyncio.create_subprocess_exec(
            sys.executable, "-c", LURE.format(nobody=NOBODY), str(folder / "digits~9"), stdout=subprocess.PIPE
        )
        assert await lure.stdout.readline() == b"listens\n"
        local = LocalHosts(folder, "digits")
        with pytest.raises(NotAnswered):
            await decide(local, 1)
        said, _ = await lure.communicate()
        assert said in (b"b''\n", b"")
        assert not local._links

    run(work())
    assert f"belongs to user {NOBODY}" in caplog.text


def config_of(*, host=None, **changes):
    told = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    told["models"]["digits"]["host"] |= host or {}
    return Config.model_validate({**told, **changes})


def test_sockets_are_used_where_demur_has_made_a_private_folder(folder, monkeypatch, caplog):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert socket_folder(config_of(), "digits") is None
    monkeypatch.setenv(VARIABLE, str(folder))
    assert socket_folder(config_of(), "digits") == folder
    assert socket_folder(config_of(gateway={"local_sockets": False}), "digits") is None
    assert socket_folder(config_of(host={"autoscaling": {"max": 2}}), "digits") is None
    assert not caplog.messages
    (folder / "link").symlink_to(folder)
    for unsafe in ("link", "gone"):
        monkeypatch.setenv(VARIABLE, str(folder / unsafe))
        assert socket_folder(config_of(), "digits") is None
    monkeypatch.setenv(VARIABLE, str(folder))
    folder.chmod(0o750)
    assert socket_folder(config_of(), "digits") is None
    assert len(caplog.messages) == 3
    monkeypatch.delattr(socket, "SO_PEERCRED")
    assert socket_folder(config_of(), "digits") is None
    assert len(caplog.messages) == 3
