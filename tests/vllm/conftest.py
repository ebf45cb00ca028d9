"""vLLM itself, in one engine for all tests here; where it is not installed they are skipped (`make test-vllm`)."""

import asyncio
import gc
import importlib.util
import threading
import warnings
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from demur.serve.config.hosts.language import VllmHost

SMALL = {"max_model_len": 512, "max_num_seqs": 32}


class Loop:
    """An event loop in a thread of its own, in which an engine lives."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=300)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = importlib.util.find_spec("vllm") is None
    for item in items:
        if item.get_closest_marker("vllm") and missing:
            item.add_marker(pytest.mark.skip(reason="vLLM is not installed here: make test-vllm"))


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """An engine that was refused after its start leaves a socket's context open, which fails no test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def small_host(checkpoint: str, **engine: Any) -> VllmHost:
    return VllmHost(kind="vllm", checkpoint=checkpoint, engine={**SMALL, **engine})


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    running = Loop()
    yield running
    running.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # an engine that died leaves a socket open, which is not for the next test to complain of


@pytest.fixture(scope="session")
def engine(sums: str, loop: Loop) -> Iterator[Any]:
    from demur.serve.hosts.language.engines import started

    opened = loop.wait(started(small_host(sums)))
    yield opened
    loop.wait(opened.close())
