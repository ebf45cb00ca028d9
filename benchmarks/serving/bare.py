"""demur with everything off but the forward pass: its way of gathering requests and its model, and nothing else.

`bare` reads each input by itself, and sends a batch as so many small arrays, as one would write it first. `lean` reads
the inputs of a request at once and sends one array, as demur does.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import orjson
from ray import serve as ray_serve
from ray.serve import Application
from ray.serve.handle import DeploymentHandle
from starlette.applications import Starlette

from demur.serve.config.file import ModelConfig
from demur.serve.contract.batching import GreedyBatcher
from demur.serve.contract.inputs import InputLimits, InputSpec, ModelInput
from demur.serve.contract.reading.inputs import read_input, read_inputs
from demur.serve.deployments.in_process_router import open_shortcut

LIMITS = InputLimits(text_characters=100_000, image_pixels=10**7)


class BareHost:
    def __init__(self, model: ModelConfig) -> None:
        from demur.serve.hosts.classifier.model import Classifier

        self._classifier = Classifier(model.host, model.task)  # type: ignore[arg-type]
        self._one_thread = ThreadPoolExecutor(1)

    async def spec(self) -> InputSpec:
        return self._classifier.spec

    async def predict(self, inputs: Sequence[ModelInput]) -> list[tuple[int, float]]:
        def run() -> list[tuple[int, float]]:
            probabilities = self._classifier.run(inputs, frozenset()).probabilities
            best = probabilities.argmax(axis=1)
            return list(zip(best.tolist(), probabilities.max(axis=1).tolist(), strict=True))

        return await asyncio.get_running_loop().run_in_executor(self._one_thread, run)


class BareDoor:
    """An ASGI application: a method would be taken for one of the older kind."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._rest = Starlette()  # starts and stops

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await (self._answer if scope["type"] == "http" else self._rest)(scope, receive, send)


@ray_serve.ingress()
class BareGateway:
    def __init__(self, model: ModelConfig, host: DeploymentHandle, *, lean: bool) -> None:
        self._lean = lean
        self._labels = model.task.labels
        self._host = host
        self._spec: InputSpec | None = None
        batch = model.host.batch
        self._batcher: GreedyBatcher[ModelInput, tuple[int, float]] = GreedyBatcher(
            self._send, max_size=batch.max_size, in_flight=batch.in_flight, max_queued=100_000, name="bare"
        )

    async def _send(self, inputs: list[ModelInput]) -> list[tuple[int, float]]:
        packed: Any = inputs
        if self._lean and isinstance(inputs[0], np.ndarray):
            packed = np.stack(inputs)  # type: ignore[arg-type]
        return list(await self._host.predict.remote(packed))

    def __serve_build_asgi_app__(self) -> Any:
        door = BareDoor(self._answer)
        prefix = ray_serve.get_replica_context().app_name
        open_shortcut(door, [f"/{prefix}/predict", f"/{prefix}/predict/batch"])
        return door

    async def _answer(self, _scope: Any, receive: Any, send: Any) -> None:
        if self._spec is None:
            self._spec = await self._host.spec.remote()
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        asked = orjson.loads(body)
        several = "items" in asked
        items = asked["items"] if several else [asked]
        if self._lean:
            inputs = read_inputs([item["input"] for item in items], self._spec, LIMITS)
        else:
            inputs = [read_input(item["input"], self._spec, LIMITS) for item in items]
        found = await self._batcher.submit(inputs)  # type: ignore[arg-type]  # none of ours is refused
        told = [{"prediction": self._labels[i], "probability": probability} for i, probability in found]
        out = orjson.dumps({"results": told} if several else told[0])
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(out)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": out})


def lean(model: ModelConfig) -> Application:
    return bare(model, lean=True)


def bare(model: ModelConfig, *, lean: bool = False) -> Application:
    options = {"num_cpus": model.host.cpus, "num_gpus": model.host.gpus or 0}
    host = ray_serve.deployment(BareHost, ray_actor_options=options, max_ongoing_requests=16).bind(model)
    gateway = ray_serve.deployment(BareGateway, ray_actor_options={"num_cpus": 0.5}, max_ongoing_requests=10_000)
    return gateway.bind(model, host, lean=lean)
