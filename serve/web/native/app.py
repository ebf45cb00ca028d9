"""The gateway as an ASGI application: the routes of all its protocols, errors, the OpenAPI document."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from uuid_utils.compat import uuid7

from demur.calibration_store.store import ArtifactStore
from demur.serve.access.described import describe_access, describe_refusals
from demur.serve.access.needs import Needs
from demur.serve.contract import artifact_wire, wire
from demur.serve.fitting.artifact_service import ArtifactService
from demur.serve.gateway.handler import Handler
from demur.serve.web.errors import STATUS
from demur.serve.web.front import home, live, models, trying
from demur.serve.web.front.site import FILES, add_site
from demur.serve.web.inference_protocol import body as inference
from demur.serve.web.inference_protocol import routes as inference_routes
from demur.serve.web.inference_protocol.served import ServedModels
from demur.serve.web.native import artifact_routes
from demur.serve.web.native import routes as native_routes
from demur.serve.web.native.fast_path import FastPath
from demur.serve.web.native.parts import GatewayParts, add_parts
from demur.serve.web.openai import request as chat
from demur.serve.web.openai import routes as openai_routes
from demur.serve.web.openai.conversing import Conversing
from demur.serve.web.problems import as_invalid_request, as_plain_problem, as_problem
from demur.serve.web.shared.bodies import describe
from demur.serve.web.shared.browser_headers import add_browser_headers
from demur.serve.web.shared.cookies import PlainCookies
from demur.serve.web.shared.docs import add_docs
from demur.serve.web.shared.known_queries import only_known
from demur.serve.web.shared.look import add_files

DESCRIPTION = """
Ask for a prediction; get an answer with a calibrated probability of being right, or an honest *a person should look*.

Every response with an `id` is on record before it is sent. What was held for review can be asked about at
`/v1/predictions/{id}`, where the person's answer appears.
"""


def gateway_app(
    handler: Handler,
    *,
    max_body_bytes: int,
    beside: AbstractAsyncContextManager[object] | None = None,
    needs: Needs | None = None,
) -> FastAPI:
    """The gateway as an ASGI application. `FastPath.before` answers predictions without it, and alike. `beside` is
    open for as long as it serves. `needs` says who gets in, for its document; None where everybody does."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with beside or nullcontext():
            yield
        await handler.close()

    app = FastAPI(title="demur", description=DESCRIPTION, version="1", docs_url=None, redoc_url=None, lifespan=lifespan)
    add_browser_headers(app)
    app.add_middleware(PlainCookies)
    for kind in STATUS:
        app.add_exception_handler(kind, as_problem)
    app.add_exception_handler(RequestValidationError, as_invalid_request)
    app.add_exception_handler(HTTPException, as_plain_problem)
    app.add_exception_handler(Exception, as_problem)
    hot = FastPath(handler, max_body_bytes=max_body_bytes)
    artifacts = ArtifactService(
        handler.config,
        ArtifactStore(handler.config.artifacts),
        handler.database,
        clock=lambda: datetime.now(UTC),
        new_id=uuid7,
    )
    add_parts(app, GatewayParts(handler, hot, Conversing(handler), ServedModels(handler), artifacts, max_body_bytes))
    site = add_site(app, handler, artifacts)
    add_docs(app, of="Predictions", bodies=site.examples.bodies)
    pages = APIRouter(include_in_schema=False)
    add_files(pages, FILES)
    app.include_router(pages)
    for routes in (native_routes, artifact_routes, home, live, trying, models):
        app.include_router(routes.router, dependencies=[Depends(only_known)])
    for routes in (openai_routes, inference_routes):  # whose clients may send what only their own servers know
        app.include_router(routes.router)
    app.openapi = lambda: _openapi(app, needs)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI, needs: Needs | None) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document["components"]["schemas"]
        taken_by_hand = (wire.PredictRequest, wire.BatchRequest, wire.OutcomeRequest, wire.OutcomesRequest)
        describe(schemas, *taken_by_hand, wire.OutcomeItem, chat.ChatRequest, inference.InferRequest)
        describe(schemas, *artifact_wire.TAKEN)
        items = {"$ref": "#/components/schemas/PredictRequest"}  # each is checked by itself, not by the batch
        schemas["BatchRequest"]["properties"]["items"]["items"] = items
        schemas["OutcomesRequest"]["properties"]["items"]["items"] = {"$ref": "#/components/schemas/OutcomeItem"}
        describe_refusals(document)
        if needs is not None:
            describe_access(document, needs)
        app.openapi_schema = document
    return app.openapi_schema
