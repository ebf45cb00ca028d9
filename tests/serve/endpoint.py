"""A real server on this machine that speaks as endpoints do, and does what a test tells it to."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse


class Endpoint:
    """Answers as `replies` says, one after the other, and the last one ever after."""

    def __init__(self):
        self.asked, self.keys, self.now, self.most, self.gone = [], [], 0, 0, 0
        self.delay, self.owner, self.replies = 0.0, "somebody", [reply("132")]
        app = FastAPI()
        app.post("/v1/chat/completions")(self.complete)
        app.get("/v1/models")(self.models)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()

    async def complete(self, request: Request):
        body = await request.json()
        self.asked.append(body)
        self.keys.append(request.headers.get("authorization"))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.delay)
        finally:
            self.now -= 1
        said = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return said(body) if isinstance(said, FunctionType) else said

    async def models(self):
        return {"object": "list", "data": [{"id": "m", "object": "model", "created": 0, "owned_by": self.owner}]}

    def streams(self, chunks, *, endless=False):
        """A reply that streams these deltas."""

        async def lines():
            try:
                for chunk in chunks:
                    yield f"data: {json.dumps(chunk)}\n\n"
                    await asyncio.sleep(0.01)
                while endless:
                    yield f"data: {json.dumps(delta('more '))}\n\n"
                    await asyncio.sleep(0.01)
                yield "data: [DONE]\n\n"
            except BaseException:
                self.gone += 1
                raise

        return lambda body: StreamingResponse(lines(), media_type="text/event-stream")

    def stop(self):
        self.server.should_exit = self.server.force_exit = True
        self.thread.join()
        self.socket.close()


def token(text, logprob=-0.5, top=()):
    alternatives = [{"token": t, "logprob": p, "bytes": list(t.encode())} for t, p in top]
    data = text if isinstance(text, bytes) else text.encode()
    return {
        "token": data.decode(errors="replace"),
        "logprob": logprob,
        "bytes": list(data),
        "top_logprobs": alternatives,
    }


def choice(text, tokens=None, index=0, finish="stop", **message):
    return {
        "index": index,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text, **message},
        "logprobs": None if tokens is None else {"content": tokens},
    }


def reply(*texts, completion_tokens=4, **facts):
    return choices(*(choice(text, index=i, **facts) for i, text in enumerate(texts)), usage=(9, completion_tokens))


def choices(*made, usage=(9, 4)):
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": list(made),
        "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)},
    }


def delta(text=None, *, finish=None, tokens=None, usage=None, **more):
    chosen = {
        "index": 0,
        "delta": {"content": text, **more},
        "finish_reason": finish,
        "logprobs": {"content": tokens} if tokens else None,
    }
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "m",
        "choices": [] if usage else [chosen],
        "usage": usage,
    }


def refusal(status, message="no", **headers):
    return JSONResponse({"error": {"message": message}}, status_code=status, headers=headers)


@contextmanager
def running() -> Iterator[Endpoint]:
    """An endpoint for as long as this is open."""
    server = Endpoint()
    while not server.server.started:
        time.sleep(0.005)
    try:
        yield server
    finally:
        server.stop()
