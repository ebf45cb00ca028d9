"""A model that takes one batch at a time, run in a thread of its own so that the event loop stays free."""

import asyncio
import math
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.contract.model import DeviceScore, ModelRequest, ScoringModel, SyncModel
from demur.serve.contract.user_code import in_words
from demur.serve.contract.worker import Worker
from demur.serve.hosts.kind import BadModel
from demur.uncertainty.output import Output
from demur.uncertainty.scores import Score

T = TypeVar("T")


class OneThread:
    """Makes a `Model` of a `SyncModel`. What the model never comes back from keeps nobody from ending the process."""

    def __init__(self, model: SyncModel, worker: Worker) -> None:
        self.model = model
        self._worker = worker

    @classmethod
    async def started(cls, load: Callable[[], SyncModel], *, seconds: float | None = None) -> "OneThread":
        """Load a model in the thread in which it will run. Raises `BadModel` where that takes longer than `seconds`."""
        worker = Worker("model")
        most = seconds or math.inf
        try:
            async with asyncio.timeout(seconds):
                return cls(await asyncio.wrap_future(worker.submit(_plainly, load)), worker)
        except TimeoutError:
            raise BadModel(
                f"host.load_seconds: the model was not loaded within {most:g} s; set it higher if it only takes"
                " longer, else look what it waits for"
            ) from None

    @property
    def spec(self) -> InputSpec:
        return self.model.spec

    def example(self) -> ModelInput:
        return self.model.example()

    def on_device(self, name: str, score: Score) -> DeviceScore | None:
        """Return a score as the model makes it on its device; None where it stays in NumPy."""
        return self.model.on_device(name, score) if isinstance(self.model, ScoringModel) else None

    async def run(self, request: ModelRequest) -> Output:
        scores = (request.scores,) if request.scores else ()  # only a `ScoringModel` has any, and takes them
        work = partial(copy_context().run, self.model.run, request.inputs, request.needs, *scores)
        return await asyncio.wrap_future(self._worker.submit(_plainly, work))

    async def check_health(self) -> None:
        """The replica answers, and the model has no process of its own that could be dead."""

    def remarks(self) -> list[str]:
        return self.model.remarks()

    async def close(self) -> None:
        self._worker.close()


def _plainly(work: Callable[[], T]) -> T:
    """Do some work, and make an error that any program may have of those that mean something to an event loop: a model
    that calls `sys.exit` ends no replica, and one whose iterator ran out leaves nobody waiting."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError(in_words(error)) from error
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(in_words(error)) from error
