"""What is served, in the words of the protocol: the server, its models, whether they are ready, and what they take."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from demur.serve.access.caller import Caller
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.given import GivenHost
from demur.serve.contract.hosts import HostState, ModelNotReady, UnknownModel
from demur.serve.contract.inference_protocol.columns import columns_of, datatype_of_column
from demur.serve.contract.inputs import InputSpec
from demur.serve.gateway.handler import Handler
from demur.serve.gateway.model_client import ModelClient
from demur.serve.web.inference_protocol.given_rows import given_inputs
from demur.serve.web.inference_protocol.outputs import OutputTensor, outputs_of
from demur.serve.web.inference_protocol.rows import INPUT
from demur.serve.web.inference_protocol.table_rows import takes_matrix
from demur.serve.web.inference_protocol.versions import check_version, versions_of

EXTENSIONS = ("binary_tensor_data",)
PLATFORM = "demur"


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A model as clients of the protocol see it."""

    name: str
    spec: InputSpec
    outputs: dict[str, OutputTensor]
    given: GivenHost | None = None
    """What requests bring, where the model's predictions are made elsewhere."""


class ServedModels:
    """The models of a gateway."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._outputs: dict[str, dict[str, OutputTensor]] = {}

    def names_for(self, caller: Caller | None) -> list[str]:
        """Return the names of the models that a caller may ask; of all, where anybody may ask anything."""
        allowed = None if caller is None else caller.models
        return [name for name in self._handler.models if allowed is None or name in allowed]

    async def model(self, name: str) -> ServedModel:
        """Raises `UnknownModel` or `ModelNotReady`."""
        client = self._client(name)
        if name not in self._outputs:
            self._outputs[name] = outputs_of(self._asked_in_turn(client))
        host = client.config.host
        given = host if isinstance(host, GivenHost) else None
        return ServedModel(name=name, spec=await client.spec(), outputs=self._outputs[name], given=given)

    async def state(self, name: str) -> HostState:
        """How the model's host is now. Raises `UnknownModel` or `ModelNotReady`."""
        client = self._client(name)
        try:
            return await asyncio.wait_for(client.host.state(), client.config.host.timeout_seconds)
        except TimeoutError:
            raise ModelNotReady(f"model {name!r} gives no answer; try again a little later") from None

    async def ready(self, name: str, wanted: str = "") -> bool:
        """Whether the model can be asked. Raises `UnknownModel` or `UnknownVersion`."""
        try:
            state = await self.state(name)
        except ModelNotReady:
            return False
        if wanted:
            check_version(name, wanted, state)
        return bool(state.artifact)

    def _client(self, name: str) -> ModelClient:
        models = self._handler.models
        if name not in models:
            raise UnknownModel(f"model: there is no model {name!r}; there are: {', '.join(models)}")
        return models[name]

    def _asked_in_turn(self, client: ModelClient) -> Sequence[ModelConfig]:
        configs = [client.config]
        while following := configs[-1].escalate_to:
            configs.append(self._client(following).config)
        return configs


def check_may_ask(caller: Caller | None, model: str) -> None:
    """Raise `NotAllowed` for a model that this caller may not ask, whether there is one or not."""
    if caller is not None:
        caller.check_model(model)


def server_json() -> dict[str, Any]:
    return {"name": "demur", "version": version("demur"), "extensions": list(EXTENSIONS)}


def model_json(model: ServedModel, state: HostState) -> dict[str, Any]:
    return {
        "name": model.name,
        "versions": versions_of(state),
        "platform": PLATFORM,
        "inputs": given_inputs(model.given) if model.given else inputs_json(model.spec),
        "outputs": [
            {"name": output.name, "datatype": output.datatype, "shape": output.shape}
            for output in model.outputs.values()
        ],
    }


def inputs_json(spec: InputSpec) -> list[dict[str, Any]]:
    """Describe the plainest of the forms that are taken: one tensor for all numbers, else one for each column."""
    if takes_matrix(spec):
        return [{"name": INPUT, "datatype": "FP64", "shape": [-1, len(spec.columns)]}]
    if columns := columns_of(spec):
        return [
            {"name": name, "datatype": datatype_of_column(column), "shape": [-1]} for name, column in columns.items()
        ]
    if spec.kind != "image":
        return [{"name": INPUT, "datatype": "BYTES", "shape": [-1]}]
    channels = [] if spec.channels == 1 else [spec.channels]
    return [{"name": INPUT, "datatype": "FP32", "shape": [-1, *channels, spec.height, spec.width]}]
