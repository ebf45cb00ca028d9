"""One inference from its tensors to its records, whichever way it came in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from demur.serve.access.caller import Caller
from demur.serve.contract import wire
from demur.serve.contract.body import read_apart
from demur.serve.contract.inference_protocol.tensors import Tensor
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.gateway.handler import Handler
from demur.serve.web.inference_protocol.body import Scalar
from demur.serve.web.inference_protocol.given_rows import given_requests
from demur.serve.web.inference_protocol.outputs import parameters_of, version_of
from demur.serve.web.inference_protocol.rows import key_use, makes_pictures, requests_of
from demur.serve.web.inference_protocol.served import ServedModel, ServedModels, check_may_ask
from demur.serve.web.inference_protocol.versions import check_decides_all


@dataclass(frozen=True, kw_only=True)
class InferenceResult:
    """What was decided, and is on record."""

    version: str | None
    parameters: dict[str, Scalar]
    tensors: list[Tensor]
    replayed: bool
    """Whether all of it had been decided before, under the same Idempotency-Key."""


async def infer(
    handler: Handler,
    models: ServedModels,
    model: ServedModel,
    version: str,
    tensors: Sequence[Tensor],
    parameters: Mapping[str, Scalar],
    wanted: Sequence[str],
    key: str | None,
    caller: Caller | None,
) -> InferenceResult:
    """Serve all rows or none. What is returned is on disk."""
    check_may_ask(caller, model.name)
    check_outputs(wanted, model)
    if version:
        check_decides_all(model.name, version, await models.state(model.name))
    for tensor in tensors:
        handler.check_rows(tensor.shape[0])  # before each becomes a request
    size = sum(tensor.size for tensor in tensors)
    read = (
        partial(given_requests, model.name, tensors, parameters, model.given)
        if model.given
        else partial(requests_of, model.name, tensors, parameters, model.spec)
    )
    if makes_pictures(tensors):
        requests = await handler.pictures.prepare(model.name, model.spec, read)
    else:
        requests = await read_apart(size, read)
    use = await read_apart(size, lambda: key_use(key, caller, model.name, version, tensors, parameters))
    committed = await handler.predict_parsed(requests, use, caller, by_this_model=bool(version))
    records = [one.record for one in committed]
    told = [wire.prediction_json(record) for record in records]
    return InferenceResult(
        version=version_of(records),
        parameters=parameters_of(records, model.name),
        tensors=[model.outputs[name].tensor(records, told) for name in wanted],
        replayed=all(one.replayed for one in committed),
    )


def check_outputs(wanted: Sequence[str], model: ServedModel) -> None:
    """Raise `InvalidRequest` where something is asked for that there is not; nothing has been decided then."""
    for at, name in enumerate(wanted):
        if name not in model.outputs:
            raise InvalidRequest(
                f"outputs.{at}.name: {model.name!r} has no output {name!r}; it has: {', '.join(model.outputs)}"
            )
        if name in wanted[:at]:
            raise InvalidRequest(f"outputs.{at}.name: {name!r} is asked for twice")
