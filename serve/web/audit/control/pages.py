"""The page about what is controlled, and the same as JSON."""

from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import FastAPI, Request, Response

from demur.serve.config.file import Config
from demur.serve.web.audit.control.view import ControlsView, controls_of, shown, view_of
from demur.serve.web.review.site import problems
from demur.traffic.database import Database


def add_control_routes(app: FastAPI, config: Config, database: Database, page: Callable[..., Response]) -> None:
    """Add `/control` and `/v1/controls`; `page` renders a template."""

    @app.get(
        "/v1/controls",
        response_model=ControlsView,
        responses=problems(503),
        summary="What is controlled in the stream of each model, and how that stands",
    )
    def list_controls() -> ControlsView:
        with database.transaction() as connection:
            return ControlsView(
                controls=[
                    view_of(connection, name, config.models[name], control)
                    for name, control in controls_of(config).items()
                ]
            )

    @app.get("/control", include_in_schema=False)
    def show_controls(request: Request) -> Response:
        from demur.serve.web.audit.control.plots import (
            control_plot,  # brings Matplotlib, for which no start should wait
        )

        with database.transaction() as connection:
            found = shown(connection, config, datetime.now(UTC))
        plots = [control_plot(f"control-{place}", one) for place, one in enumerate(found)]
        controlled = controls_of(config)
        return page(
            request,
            "control.html",
            controls=list(zip(found, plots, strict=True)),
            uncontrolled=[name for name in config.models if name not in controlled],
        )
