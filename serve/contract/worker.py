"""A thread that does one thing after another and keeps nobody from ending the process."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """One daemon thread. It lives until it is closed or the process ends: what it waits for does not delay the exit."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, work: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Do some work when all that was submitted before is done."""
        future: Future[T] = Future()

        def do() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = work(*arguments)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._jobs.put(do)
        return future

    def close(self) -> None:
        """End the thread when all that was submitted is done."""
        self._jobs.put(None)

    def _work(self) -> None:
        while job := self._jobs.get():
            job()
