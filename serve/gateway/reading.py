"""From a body to what is asked in it: all that takes time with a large one. Each function may be called in a thread,
and raises `MalformedBody`, `TooLarge` or `InvalidRequest`."""

from typing import Any
from uuid import UUID

from demur.serve.access.caller import Caller
from demur.serve.contract import wire
from demur.serve.contract.inputs import InputSpec, InvalidRequest, TooLarge
from demur.serve.contract.upload import Upload
from demur.serve.gateway.idempotency import key_use
from demur.traffic.dataset import GivenRow
from demur.traffic.record import KeyUse


def read_prediction(body: bytes, key: str | None, caller: Caller | None) -> tuple[wire.PredictRequest, KeyUse | None]:
    """What a body of /v1/predict asks, and the use of its Idempotency-Key."""
    return _with_use(wire.parse(wire.PredictRequest, body), key, caller)


def read_batch(
    body: bytes, key: str | None, caller: Caller | None, *, most: int
) -> tuple[list[wire.PredictRequest | InvalidRequest], KeyUse | None]:
    """What each item of a body of /v1/predict/batch asks, or what is wrong with it, and the use of the key by the first
    of them."""
    return _checked_batch(_items_of(wire.parse(wire.BatchRequest, body).items, most), key, caller)


def prediction_of_file(
    upload: Upload, spec: InputSpec, key: str | None, caller: Caller | None
) -> tuple[wire.PredictRequest, KeyUse | None]:
    """What an upload of one file asks of a model that takes this, and the use of its Idempotency-Key: as if the file
    had come in JSON."""
    if len(upload.files) > 1:
        raise InvalidRequest(f"file: {len(upload.files):,} files came; send several to /v1/predict/batch")
    (item,) = upload.items(spec)
    return _with_use(wire.parse_item(item), key, caller)


def batch_of_files(
    upload: Upload, spec: InputSpec, key: str | None, caller: Caller | None, *, most: int
) -> tuple[list[wire.PredictRequest | InvalidRequest], KeyUse | None]:
    """What an upload of several files asks, as if they had come in JSON. Raises `InvalidRequest` where one of them is
    no file for the model."""
    if len(upload.files) > most:
        raise TooLarge(f"file: {len(upload.files):,} files came; at most {most:,} are taken")
    return _checked_batch(upload.items(spec), key, caller)


def _with_use(
    request: wire.PredictRequest, key: str | None, caller: Caller | None
) -> tuple[wire.PredictRequest, KeyUse | None]:
    return request, key_use(key, caller, lambda: ["predict", request.as_asked()])


def _checked_batch(
    items: list[Any], key: str | None, caller: Caller | None
) -> tuple[list[wire.PredictRequest | InvalidRequest], KeyUse | None]:
    use = key_use(key, caller, lambda: ["batch", items])
    return wire.parse_items(items), use


def read_outcome(
    record_id: UUID, body: bytes, key: str | None, caller: Caller | None
) -> tuple[wire.OutcomeItem, KeyUse | None]:
    """What a body of /v1/predictions/{id}/outcome says, and the use of its Idempotency-Key."""
    told = wire.parse(wire.OutcomeRequest, body).model_dump()
    asked = {
        name: value for name, value in told.items() if name != "text" or value is not None
    }  # keys are older than it
    use = key_use(key, caller, lambda: ["outcome", str(record_id), asked])
    return wire.OutcomeItem.model_construct(id=record_id, **told), use


def read_outcomes(
    body: bytes, key: str | None, caller: Caller | None, *, most: int
) -> tuple[list[wire.OutcomeItem | InvalidRequest], KeyUse | None]:
    """What each item of a body of /v1/outcomes/batch says, or what is wrong with it, and the use of the key by the
    first of them."""
    items = _items_of(wire.parse(wire.OutcomesRequest, body).items, most)
    use = key_use(key, caller, lambda: ["outcomes", items])
    return [_outcome_or_error(item) for item in items], use


def _items_of(items: list[Any], most: int) -> list[Any]:
    if not items:
        raise InvalidRequest("items: the batch is empty")
    if len(items) > most:
        raise TooLarge(f"items: the batch has {len(items):,}; at most {most:,} are taken")
    return items


def value_for(request: wire.PredictRequest, *, given: bool) -> Any:
    """Return what a model reads of a request: the input; or the output that comes with it, where `given` says that the
    model's predictions are made elsewhere. Raises `InvalidRequest` for a request without it."""
    if given:
        return GivenRow(input=request.input, output=request.output)
    if request.output is not None:
        raise InvalidRequest("output: this model is asked here; leave `output` out, and send what it takes as `input`")
    if "input" not in request.model_fields_set:
        raise InvalidRequest("input: this key is missing")
    return request.input


def value_or_error(request: wire.PredictRequest, *, given: bool) -> Any:
    """Return what `value_for` returns, or its error."""
    try:
        return value_for(request, given=given)
    except InvalidRequest as error:
        return error


def _outcome_or_error(item: Any) -> wire.OutcomeItem | InvalidRequest:
    try:
        return wire.parse_outcome_item(item)
    except InvalidRequest as error:
        return error
