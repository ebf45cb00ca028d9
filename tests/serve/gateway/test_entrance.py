import asyncio
import json

from serve.gateway.entrance import Entrance, Room


async def ask(app, path="/v1/predict", method="POST", query=b""):
    """The status, the headers and the body of a response, to a request whose body must not be read."""
    said = []

    async def receive():
        raise AssertionError("the body was read")

    async def send(message):
        said.append(message)

    scope = {"type": "http", "path": path, "method": method, "query_string": query}
    await app(scope, receive, send)
    return said[0]["status"], dict(said[0]["headers"]), said[1]["body"]


def test_who_comes_when_it_is_full_is_told_at_once_and_others_go_on():
    async def main():
        go = asyncio.Event()

        async def app(scope, receive, send):
            if scope["path"] == "/v1/predict" and scope["method"] == "POST":
                await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        entrance = Entrance(app, Room(most=2))
        inside = [asyncio.create_task(ask(entrance)) for _ in range(2)]
        await asyncio.sleep(0)
        status, headers, body = await ask(entrance)
        error = json.loads(body)["error"]
        assert (status, error["kind"]) == (503, "Overloaded")
        assert error["message"] == "2 requests are open here already; try again a little later"
        assert int(headers[b"retry-after"]) >= 1
        assert int(headers[b"content-length"]) == len(body)
        told = json.loads((await ask(entrance, "/v2/models/digits/infer"))[2])
        assert told == {"error": "2 requests are open here already; try again a little later"}
        told = json.loads((await ask(entrance, "/v1/chat/completions"))[2])["error"]
        assert (told["type"], told["code"]) == ("server_error", "Overloaded")
        for path in ("/healthz", "/v2/health/live", "/v2/health/ready"):
            assert (await ask(entrance, path, "GET"))[0] == 200
        assert (await ask(entrance, "/v1/predictions/7", "GET", b"wait=60"))[0] == 200
        assert (await ask(entrance, "/v1/predict", "POST", b"wait=60"))[0] == 503
        go.set()
        assert [one[0] for one in await asyncio.gather(*inside)] == [200, 200]
        assert (await ask(entrance))[0] == 200

    asyncio.run(main())


def test_a_place_is_free_again_after_a_failure():
    async def broken(scope, receive, send):
        raise ValueError("a bug")

    async def main():
        entrance = Entrance(broken, Room(most=1))
        failed = await asyncio.gather(ask(entrance), return_exceptions=True)
        assert isinstance(failed[0], ValueError)
        failed = await asyncio.gather(ask(entrance), return_exceptions=True)
        assert isinstance(failed[0], ValueError)

    asyncio.run(main())


def test_a_closed_entrance_lets_nobody_in_and_sees_everybody_out():
    async def main():
        go = asyncio.Event()

        async def app(scope, receive, send):
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        room = Room(most=9)
        entrance = Entrance(app, room)
        inside = asyncio.create_task(ask(entrance))
        await asyncio.sleep(0)
        assert await room.close(0.01) == 1
        status, headers, body = await ask(entrance)
        assert (status, json.loads(body)["error"]["kind"]) == (503, "Overloaded")
        assert "about to stop" in json.loads(body)["error"]["message"]
        assert b"retry-after" in headers
        closing = asyncio.create_task(room.close(60))
        go.set()
        assert (await inside)[0] == 200
        assert await closing == 0

    asyncio.run(main())
