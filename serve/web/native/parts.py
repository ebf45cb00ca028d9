"""What the routes of a gateway share. The application holds it, and each request finds it there."""

from dataclasses import dataclass

from fastapi import FastAPI, Request

from demur.serve.gateway.handler import Handler
from demur.serve.web.inference_protocol.served import ServedModels
from demur.serve.web.native.fast_path import FastPath
from demur.serve.web.openai.conversing import Conversing
from demur.serve.web.shared.bodies import whole_body


@dataclass(frozen=True)
class GatewayParts:
    """The parts of one gateway."""

    handler: Handler
    fast_path: FastPath
    conversing: Conversing
    served: ServedModels
    max_body_bytes: int


def add_parts(app: FastAPI, parts: GatewayParts) -> None:
    """Let the routes of an application find these."""
    app.state.parts = parts


def parts_of(request: Request) -> GatewayParts:
    parts: GatewayParts = request.app.state.parts
    return parts


def handler_of(request: Request) -> Handler:
    return parts_of(request).handler


def fast_path_of(request: Request) -> FastPath:
    return parts_of(request).fast_path


async def body_of(request: Request) -> bytes:
    """The whole body, read no further than what is taken."""
    return await whole_body(request, parts_of(request).max_body_bytes)
