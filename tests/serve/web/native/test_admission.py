import asyncio
import json

from demur.serve.access.caller import CALLER, Caller, Via
from demur.serve.config.access import Scope as Right
from demur.serve.config.file import LimitsConfig
from demur.serve.gateway.intake import Intake
from demur.serve.gateway.request_limit import RequestLimit
from demur.serve.web.native.admission import Admission


def entrance_of(app, **room):
    return Admission(app, RequestLimit(**room), Intake(LimitsConfig()))


async def ask(app, path="/v1/predict", method="POST", query=b"", *, who=None, unread=False):
    """The status, the headers and the body of a response."""
    said = []

    async def receive():
        assert not unread, "the body was read"
        return {"type": "http.request", "body": b"{}"}

    async def send(message):
        said.append(message)

    scope = {"type": "http", "path": path, "method": method, "query_string": query, "headers": []}
    if who:
        scope[CALLER] = Caller(name=who, scopes=frozenset({Right.PREDICT}), via=Via.KEY)
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

        entrance = entrance_of(app, most=2)
        inside = [asyncio.create_task(ask(entrance)) for _ in range(2)]
        await asyncio.sleep(0)
        status, headers, body = await ask(entrance, unread=True)
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
        for query in (b"wait=0", b"wait=60&wait=0", b"wait=", b"wait=soon", b"wait=-1", b"nowait=60"):
            assert (await ask(entrance, "/v1/predictions/7", "GET", query))[0] == 503
        assert (await ask(entrance, "/v1/models", "GET", b"wait=60"))[0] == 503
        go.set()
        assert [one[0] for one in await asyncio.gather(*inside)] == [200, 200]
        assert (await ask(entrance))[0] == 200

    asyncio.run(main())


def test_a_place_is_free_again_after_a_failure():
    async def broken(scope, receive, send):
        raise ValueError("a bug")

    async def main():
        entrance = entrance_of(broken, most=1)
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

        room = RequestLimit(most=9)
        entrance = Admission(app, room, Intake(LimitsConfig()))
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


def test_one_key_leaves_room_for_others():
    async def main():
        go = asyncio.Event()

        async def app(scope, receive, send):
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        entrance = entrance_of(app, most=8, share=0.75)
        greedy = [asyncio.create_task(ask(entrance, who="greedy")) for _ in range(20)]
        await asyncio.sleep(0)
        modest = asyncio.create_task(ask(entrance, who="modest"))
        await asyncio.sleep(0)
        go.set()
        told = await asyncio.gather(*greedy)
        refused = json.loads(next(body for status, _, body in told if status == 503))["error"]
        assert [status for status, *_ in told].count(200) == 6
        assert refused["message"].startswith("6 requests are open here already for 'key greedy' alone")
        assert (await modest)[0] == 200
        assert (await ask(entrance, who="greedy"))[0] == 200  # what they had is given back

    asyncio.run(main())


def test_an_application_is_given_the_body_and_then_what_follows():
    async def main():
        heard = []
        sent = [
            {"type": "http.request", "body": b"a", "more_body": True},
            {"type": "http.request", "body": b"b"},
            {"type": "http.disconnect"},
        ]

        async def app(scope, receive, send):
            heard.extend([await receive(), await receive()])

        async def receive():
            return sent.pop(0)

        scope = {"type": "http", "path": "/v1/predict", "method": "POST", "query_string": b"", "headers": []}
        await entrance_of(app, most=1)(scope, receive, None)
        assert heard == [{"type": "http.request", "body": b"ab", "more_body": False}, {"type": "http.disconnect"}]

    asyncio.run(main())
