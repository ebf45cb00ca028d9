"""Gateway and pages in one process, for a service that is one application alone (`serve run`)."""

from collections.abc import Mapping

from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp, Receive, Scope, Send

from demur.serve.config.file import Config
from demur.serve.deployments.gateway import Gateway
from demur.serve.deployments.pages import started_audits, started_console


class WholeService(Gateway):
    """One replica of the gateway that also has the pages of `/review` and `/audit`, and does what they do by
    themselves."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        config: Config,
        dsn: str,
        hosts: dict[str, DeploymentHandle],
        *,
        left_out: Mapping[str, str],
        notes: Mapping[str, str],
    ) -> None:
        await super().__init__(config, dsn, hosts, left_out=left_out, notes=notes)  # type: ignore[misc]  # Ray has made it one that is awaited
        self._pages = {
            "/review": started_console(config, dsn),
            "/audit": started_audits(config.model_copy(update={"database": dsn}), dsn),
        }

    def __serve_build_asgi_app__(self) -> ASGIApp:
        gateway: ASGIApp = super().__serve_build_asgi_app__()
        return Prefixes(gateway, {prefix: build() for prefix, build in self._pages.items()})


class Prefixes:
    """An ASGI application that sends what lies under a prefix to the application there, as Ray Serve does, and
    everything else, with the beginning and the end of it all, to the one that lies above."""

    def __init__(self, above: ASGIApp, under: Mapping[str, ASGIApp]) -> None:
        self._above = above
        self._under = dict(under)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            for prefix, app in self._under.items():
                if f"{scope['path']}/".startswith(f"{prefix}/"):
                    await app({**scope, "root_path": f"{scope.get('root_path', '')}{prefix}"}, receive, send)
                    return
        await self._above(scope, receive, send)
