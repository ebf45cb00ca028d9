"""Ray Serve's shell of the gateway."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import partial

from ray import serve as ray_serve
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import ReplicaState
from starlette.types import ASGIApp
from uuid_utils.compat import uuid7

from demur.serve.access import needs
from demur.serve.config.file import Config
from demur.serve.contract.hosts import HostClient
from demur.serve.database.opening import open_database
from demur.serve.deployments.every import every
from demur.serve.deployments.guarded import guarded, keeper_of, received
from demur.serve.deployments.host_client import RayHostClient
from demur.serve.deployments.host_trouble import HostTrouble
from demur.serve.deployments.hosts import host_deployment
from demur.serve.deployments.in_process_router import open_shortcut
from demur.serve.deployments.local_hosts import local_hosts
from demur.serve.deployments.ray_metrics import RayMetrics
from demur.serve.deployments.traced import traces_of
from demur.serve.gateway.handler import Handler
from demur.serve.gateway.intake import Intake
from demur.serve.gateway.left_out import LeftOut
from demur.serve.gateway.request_limit import RequestLimit
from demur.serve.hosts.garbage import look_rarely
from demur.serve.telemetry.logs import log_to_stderr
from demur.serve.telemetry.telemetry import Telemetry
from demur.serve.web.native.admission import Admission
from demur.traffic.log import draw_key

REPLICAS_SECONDS = 2.0
"""How often a gateway looks how many replicas a model has, where that follows the load."""

TELL_SECONDS = 1.0
"""How often a gateway brings its counts to Ray."""


@ray_serve.ingress()
class Gateway:
    """One replica of the HTTP gateway."""

    def __init__(
        self,
        config: Config,
        dsn: str,
        hosts: dict[str, DeploymentHandle],
        *,
        left_out: Mapping[str, str] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """`left_out` says why models have no host, `notes` what is added where a model has no artifact."""
        log_to_stderr(config.telemetry.logs)
        look_rarely()
        self._config = config
        self._database = open_database(dsn)
        with self._database.transaction() as connection:
            key = draw_key(connection)
        telemetry = Telemetry(traces_of(config, part="gateway"))
        self._handler = Handler(
            config,
            self._host_clients(hosts, left_out or {}, notes or {}, telemetry),
            self._database,
            clock=lambda: datetime.now(UTC),
            new_id=uuid7,
            draw_key=key,
            telemetry=telemetry,
        )
        for name, poll in self._handler.polls.items():
            poll.look()
            every(poll.seconds, poll.look, name=name)
        if any(model.host.autoscaling for model in config.models.values()):
            every(REPLICAS_SECONDS, self._follow_replicas, name="replicas")
        every(TELL_SECONDS, RayMetrics(self._handler.telemetry).flush, name="metrics")
        self._keeper = keeper_of(config, self._database)
        self._room = RequestLimit(most=config.limits.open_requests, share=config.limits.share_per_key)
        self._intake = Intake(config.limits)

    def _host_clients(
        self,
        hosts: Mapping[str, DeploymentHandle],
        left_out: Mapping[str, str],
        notes: Mapping[str, str],
        telemetry: Telemetry,
    ) -> dict[str, HostClient]:
        """The way to each configured model, in the order of the configuration."""
        application = ray_serve.get_replica_context().app_name
        models = self._config.models
        trouble = HostTrouble(application, {host_deployment(name): models[name].host for name in hosts})
        return {
            name: LeftOut(left_out.get(name, "it has no host"))
            if name not in hosts
            else RayHostClient(
                hosts[name],
                partial(trouble.check, host_deployment(name)),
                note=notes.get(name, ""),
                local=local_hosts(self._config, name),
                called=partial(telemetry.called, name),
            )
            for name in models
        }

    def _follow_replicas(self) -> None:
        """Send each model as much at a time as the replicas can take that it has now."""
        application = ray_serve.get_replica_context().app_name
        deployments = ray_serve.status().applications[application].deployments
        for name, model in self._config.models.items():
            if model.host.autoscaling:
                states = deployments[host_deployment(name)].replica_states
                self._handler.follow(name, replicas=states.get(ReplicaState.RUNNING, 0))

    async def close_entrance(self, seconds: float) -> int:
        """Close the gateway to new requests, before the service stops, while hosts are there to end what has begun."""
        return await self._room.close(seconds)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        from demur.serve.web.native.app import gateway_app
        from demur.serve.web.native.fast_path import FastPath

        limits = self._config.limits
        needed = None if self._keeper is None else needs.GATEWAY
        app = gateway_app(self._handler, max_body_bytes=limits.body_bytes, beside=self._over_grpc(), needs=needed)
        door = FastPath(self._handler, max_body_bytes=limits.body_bytes).before(app)
        inside = Admission(door, self._room, self._intake)
        behind = guarded(inside, self._config, self._keeper, needs.GATEWAY, has_pages=True)
        if not self._config.gateway.autoscaling:  # else Serve has to count what a gateway has to do
            open_shortcut(received(behind, self._config, self._handler.telemetry, echo=True))
        return received(behind, self._config, self._handler.telemetry)

    def _over_grpc(self) -> AbstractAsyncContextManager[int] | None:
        """The door for gRPC, which opens and closes with that for HTTP; None where no port is configured."""
        http = self._config.http
        if http.grpc_port is None:
            return None
        from demur.serve.web.inference_protocol.grpc_server import listening  # brings gRPC

        return listening(
            self._handler,
            host=http.host,
            port=http.grpc_port,
            limits=self._config.limits,
            keeper=self._keeper,
            room=self._room,
            intake=self._intake,
            access_log=self._config.telemetry.access_log,
            stop_seconds=self._config.graceful_stop_seconds,
        )
