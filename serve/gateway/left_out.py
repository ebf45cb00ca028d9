"""A model that is configured and has no host, because it cannot be served."""

from typing import NoReturn

from demur.serve.contract.hosts import ModelFailed


class LeftOut:
    """The way to a model that is configured and has no host. Whatever it is asked raises `ModelFailed`."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def state(self, *_: object, **__: object) -> NoReturn:
        raise ModelFailed(self._why)

    def stream(self, *_: object, **__: object) -> NoReturn:
        raise ModelFailed(self._why)

    decide = decide_next = complete = state
    pieces = stream
