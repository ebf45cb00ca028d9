"""The time that it would save to read a batch without lists of Python: `python -m benchmarks.reading`.

A body of `/v1/predict/batch` becomes one array for the model and one JSON text of each input for the log. demur reads
it with orjson into lists, makes these one array, and writes each input again. Compiled code could go from the bytes to
the array, and keep each input as it was sent. pysimdjson does that, and so it shows what there is to gain; demur itself
does not need it (`pip install pysimdjson`). Microseconds of processor time for each row, the least of the rounds.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

Read = Callable[[bytes], tuple[Any, list[bytes]]]


def by_lists(body: bytes) -> tuple[Any, list[bytes]]:
    """As demur does it: the inputs as lists, one array of them, and each as JSON again."""
    inputs = [item["input"] for item in orjson.loads(body)["items"]]
    return np.array(inputs, np.float64), [orjson.dumps(one) for one in inputs]


def without_lists(shape: tuple[int, ...]) -> Read:
    """From the bytes to the array. Nothing checks here that each input has this shape, as demur has to."""
    try:
        simdjson: Any = import_module("simdjson")
    except ImportError:
        sys.exit("pysimdjson is missing, which this compares demur with: pip install pysimdjson")
    parser = simdjson.Parser()

    def read(body: bytes) -> tuple[Any, list[bytes]]:
        items = parser.parse(body)["items"]
        numbers = np.empty((len(items), int(np.prod(shape))))
        texts = []
        for n, item in enumerate(items):
            value = item["input"]
            numbers[n] = np.frombuffer(value.as_buffer(of_type="d"))
            texts.append(value.mini)
        return numbers.reshape(len(items), *shape), texts

    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--shape", type=int, nargs="+", default=[8, 8], help="of each input")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--times", type=int, default=100, help="batches in each round")
    options = parser.parse_args()
    shape = tuple(options.shape)
    rng = random.Random(0)  # noqa: S311 - made-up pictures
    pictures = np.array([rng.randrange(17) for _ in range(options.batch * int(np.prod(shape)))], np.float64)
    inputs = pictures.reshape(options.batch, *shape).tolist()
    body = orjson.dumps({"items": [{"model": "digits", "input": one} for one in inputs]})
    ways = {"by lists, as demur does": by_lists, "without lists, by pysimdjson": without_lists(shape)}
    first, second = (way(body)[0] for way in ways.values())
    assert np.array_equal(first, second)
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(options.rounds):  # in turns, so that what else the machine does meets all of them
        for name, way in ways.items():
            began = time.thread_time()
            for _ in range(options.times):
                way(body)
            least[name] = min(least[name], (time.thread_time() - began) / options.times / options.batch * 1e6)
    table = Table(f"{options.batch} inputs of {' x '.join(map(str, shape))}", "µs/row")
    for name, spent in least.items():
        table.add_row(name, f"{spent:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
