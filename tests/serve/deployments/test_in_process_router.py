"""Predictions go straight to the gateway of their process; everything else, and every other process, as before."""

import asyncio
from contextlib import suppress

import pytest

from demur.serve.deployments import in_process_router as shortcut
from demur.serve.deployments.in_process_router import PATHS, InProcessRouter, open_shortcut

PATIENCE = 30.0


async def the_long_way(scope, receive, send):
    await send("the long way")


@pytest.fixture
def door(monkeypatch):
    """An application behind no gateway yet, which looks soon whether callers have left."""
    monkeypatch.setattr(shortcut, "_gateways", {})
    monkeypatch.setattr(shortcut, "LEFT_SECONDS", 0.01)
    (middleware,) = shortcut.middlewares()
    return middleware.cls(the_long_way, *middleware.args, **middleware.kwargs)


def scope(path="/v1/predict", kind="http"):
    return {"type": kind, "path": path}


class Connection:
    """What a caller sends, message by message; after that nothing comes until they leave."""

    def __init__(self, *messages):
        self._messages = list(messages)
        self.gone = asyncio.Event()
        self.sent = []

    async def receive(self):
        if self._messages:
            return self._messages.pop(0)
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)


BODY = {"type": "http.request", "body": b"{}", "more_body": False}


def asked(door, scope_, connection):
    return door(scope_, connection.receive, connection.send)


def test_predictions_take_the_shortcut_and_the_rest_goes_the_long_way(door):
    async def gateway(scope, receive, send):
        await send(await receive())

    async def way_of(scope_):
        connection = Connection(BODY)
        await asked(door, scope_, connection)
        return connection.sent

    async def main():
        assert await way_of(scope()) == ["the long way"]  # no gateway here
        open_shortcut(gateway)
        for path in PATHS:
            assert await way_of(scope(path)) == [BODY]
        for other in (scope("/v1/predictions"), scope("/prefix/v1/predict"), scope(kind="websocket")):
            assert await way_of(other) == ["the long way"]

    asyncio.run(main())


def test_work_is_given_up_when_its_caller_has_left(door):
    async def main():
        begun, given_up = asyncio.Event(), []

        async def gateway(scope, receive, send):
            await receive()
            begun.set()
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                given_up.append(True)
                raise

        open_shortcut(gateway)
        connection = Connection(BODY)
        request = asyncio.create_task(asked(door, scope(), connection))
        await begun.wait()
        await asyncio.sleep(0.05)
        assert not request.done()
        connection.gone.set()
        await asyncio.wait_for(request, PATIENCE)  # and nothing is raised to a server that nobody listens to
        assert given_up == [True]

    asyncio.run(main())


def test_a_body_that_comes_slowly_is_read_by_the_gateway_alone(door):
    async def main():
        more = asyncio.Event()
        seen = []

        async def slow():
            if not seen:
                return {"type": "http.request", "body": b"a", "more_body": True}
            if len(seen) == 1:
                await more.wait()
                return {"type": "http.request", "body": b"b", "more_body": False}
            await asyncio.sleep(PATIENCE)
            return {"type": "http.disconnect"}

        async def gateway(scope, receive, send):
            for _ in range(2):
                seen.append((await receive())["body"])
            await asyncio.sleep(0.05)
            await send("done")

        open_shortcut(gateway)
        sent = []

        async def send(message):
            sent.append(message)

        request = asyncio.create_task(door(scope(), slow, send))
        await asyncio.sleep(0.05)  # beyond the time after which it is looked
        more.set()
        await asyncio.wait_for(request, PATIENCE)
        assert (seen, sent) == ([b"a", b"b"], ["done"])

    asyncio.run(main())


def test_what_a_server_cancels_is_cancelled(door):
    async def main():
        async def gateway(scope, receive, send):
            await asyncio.sleep(PATIENCE)

        open_shortcut(gateway)
        request = asyncio.create_task(asked(door, scope(), Connection(BODY)))
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(main())


def test_nothing_is_left_over_when_a_request_has_ended(door):
    async def main():
        async def gateway(scope, receive, send):
            await receive()
            await asyncio.sleep(0.05)

        open_shortcut(gateway)
        await asked(door, scope(), Connection(BODY))
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_it_is_a_middleware_as_serve_takes_them():
    (middleware,) = shortcut.middlewares()
    assert middleware.cls is InProcessRouter
    module, _, function = shortcut.FUNCTION.rpartition(".")
    assert (module, function) == (shortcut.__name__, shortcut.middlewares.__name__)
