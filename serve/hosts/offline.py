"""A model outside of the service, for whoever has no event loop: fits, replays, tournaments."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent import futures
from typing import Any, TypeVar

from demur.serve.config.file import ModelConfig
from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.contract.model import Model, ModelRequest, MoreSamples
from demur.serve.hosts.kinds import kind_of
from demur.serve.hosts.language.few_shot import Reviewed
from demur.uncertainty.output import Need, Output

T = TypeVar("T")


class NotInTime(RuntimeError):
    """A model has not come back in time. What it does meanwhile cannot be ended without its process."""


class OfflineModel:
    """Loads a model of any kind in a thread of its own, and runs batches there."""

    def __init__(self, model: ModelConfig, *, reviewed: Reviewed | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model", daemon=True)
        self._thread.start()
        try:
            self.model: Model = self.wait(kind_of(model).load(model, reviewed))
        except BaseException:
            self._end()
            raise

    @property
    def spec(self) -> InputSpec:
        return self.model.spec

    def run(
        self,
        inputs: Sequence[ModelInput],
        needs: frozenset[Need],
        *,
        more: MoreSamples | None = None,
        without: frozenset[str] = frozenset(),
        seconds: float | None = None,
    ) -> Output:
        """Return what the model says about at least one input. Every sample is drawn, unless `more` says when it is
        enough. Raises `NotInTime` after so many seconds."""
        asked = ModelRequest(inputs=inputs, needs=needs, more=more, without=without)
        return self.wait(self.model.run(asked), seconds=seconds)

    def wait(self, work: Coroutine[Any, Any, T], *, seconds: float | None = None) -> T:
        """Do some work in the model's loop, and wait for what comes back. Raises `NotInTime`."""
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        done, _ = futures.wait([doing], timeout=seconds)
        if not done:
            doing.cancel()
            raise NotInTime(f"the model gave no answer within {seconds:g} s")
        return doing.result()

    def close(self) -> None:
        """Let go of the model."""
        self.wait(self.model.close())
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
