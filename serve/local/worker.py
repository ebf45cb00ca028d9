"""A thread that does one thing after another and keeps nobody from ending the process."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """One daemon thread, which lives as long as the process: what it waits for does not delay the exit."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, work: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Do some work when all that was submitted before is done."""
        future: Future[T] = Future()

        def do() -> None:
            try:
                result = work(*arguments)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._jobs.put(do)
        return future

    def _work(self) -> None:
        while True:
            self._jobs.get()()
