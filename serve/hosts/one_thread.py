"""A model that takes one batch at a time, run in a thread of its own so that the event loop stays free."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial

from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.contract.model import ModelRequest, SyncModel
from demur.uncertainty.output import Output


class OneThread:
    """Makes a `Model` of a `SyncModel`."""

    def __init__(self, model: SyncModel, threads: ThreadPoolExecutor) -> None:
        self.model = model
        self._threads = threads

    @classmethod
    async def started(cls, load: Callable[[], SyncModel]) -> "OneThread":
        """Load a model in the thread in which it will run."""
        threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")
        return cls(await asyncio.get_running_loop().run_in_executor(threads, load), threads)

    @property
    def spec(self) -> InputSpec:
        return self.model.spec

    def example(self) -> ModelInput:
        return self.model.example()

    async def run(self, request: ModelRequest) -> Output:
        work = partial(copy_context().run, self.model.run, request.inputs, request.needs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def check_health(self) -> None:
        """The replica answers, and the model has no process of its own that could be dead."""

    def remarks(self) -> list[str]:
        return self.model.remarks()

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
