"""A language model outside of the service, for whoever has no event loop: fits, replays, tournaments."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts import AnyLanguageHost
from demur.serve.contract.engine import Engine
from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.hosts.language.engines import started
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.language.model import LanguageModel, More
from demur.uncertainty.output import Need, Output

T = TypeVar("T")


class OfflineLanguageModel:
    """Starts the engine in a thread of its own, and runs batches there."""

    def __init__(self, model: ModelConfig, host: AnyLanguageHost, *, reviewed: Reviewed | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="language-model", daemon=True)
        self._thread.start()
        self.engine: Engine = self.wait(started(host))
        self._model = LanguageModel(model, self.engine, reviewed=reviewed)

    @property
    def spec(self) -> InputSpec:
        return self._model.spec

    def run(
        self,
        inputs: Sequence[ModelInput],
        needs: frozenset[Need],
        *,
        more: More | None = None,
        without: frozenset[str] = frozenset(),
    ) -> Output:
        """What the model says about at least one input; every sample is drawn, unless `more` says when it is enough."""
        return self.wait(self._model.run(inputs, needs, more=more, without=without))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in the engine's loop, and wait for what comes back."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Let go of the engine."""
        self.wait(self.engine.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
