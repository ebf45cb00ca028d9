"""The whole service in this process, without Ray: the gateway with the pages of reviewers and auditors beside it."""

import pytest
from starlette.applications import Starlette

from demur.serve.web.audit.app import audits_app
from demur.serve.web.native.app import gateway_app
from demur.serve.web.review.app import console_app


@pytest.fixture
def whole(handler, quickstart, database):
    """An ASGI application."""
    config = quickstart.model_copy(update={"database": database.dsn})
    app = Starlette()
    app.mount("/review", console_app(config, database))
    app.mount("/audit", audits_app(config, database))
    app.mount("", gateway_app(handler, max_body_bytes=quickstart.limits.body_bytes))
    return app
