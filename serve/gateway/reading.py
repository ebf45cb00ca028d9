"""From a body to what is asked in it: all that takes time with a large one. Each function may be called in a thread,
and raises `MalformedBody`, `TooLarge` or `InvalidRequest`."""

from typing import Any

from demur.serve.access.caller import Caller
from demur.serve.contract import wire
from demur.serve.contract.inputs import InvalidRequest, TooLarge
from demur.serve.gateway.idempotency import key_use
from demur.traffic.record import KeyUse


def read_prediction(body: bytes, key: str | None, caller: Caller | None) -> tuple[wire.PredictRequest, KeyUse | None]:
    """What a body of /v1/predict asks, and the use of its Idempotency-Key."""
    request = wire.parse(wire.PredictRequest, body)
    return request, key_use(key, caller, lambda: ["predict", request.as_asked()])


def read_batch(
    body: bytes, key: str | None, caller: Caller | None, *, most: int
) -> tuple[list[wire.PredictRequest | InvalidRequest], KeyUse | None]:
    """What each item of a body of /v1/predict/batch asks, or what is wrong with it, and the use of the key by the first
    of them."""
    items = wire.parse(wire.BatchRequest, body).items
    if not items:
        raise InvalidRequest("items: the batch is empty")
    if len(items) > most:
        raise TooLarge(f"items: the batch has {len(items):,}; at most {most:,} are taken")
    use = key_use(key, caller, lambda: ["batch", items])
    return [_item_or_error(item) for item in items], use


def _item_or_error(item: Any) -> wire.PredictRequest | InvalidRequest:
    try:
        return wire.parse_item(item)
    except InvalidRequest as error:
        return error
