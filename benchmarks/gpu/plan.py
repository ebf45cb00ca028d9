"""What is measured, on which device, and the tables that come out."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.serving.models import Shape

WARM_UPS, FEWEST = 3, 3
"""Times that anything is done before it is measured, fewer where it is slow; and that it is measured, however slow."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The sizes of everything."""

    device: str
    shapes: Sequence[Shape]
    """Encoders whose forward passes are measured."""

    encoder: Shape
    """The one of all other parts."""

    dtypes: Sequence[str]
    ways: Sequence[str]
    """Ways in which a forward pass is run: some of `WAYS`."""

    batches: Sequence[int]
    tokens: int
    fitted_rows: Sequence[int]
    """How many rows `deep_knn` keeps."""

    passes: int
    """With dropout."""

    callers: Sequence[int]
    seconds: float
    """How long each measurement of a forward pass takes; a service is asked for four times as long."""

    language: dict[str, int]
    """The shape of the language model."""

    small: bool

    @property
    def is_gpu(self) -> bool:
        return self.device.startswith("cuda")


SHAPES = {11: Shape(384, 6, 6), 87: Shape(768, 12, 12), 304: Shape(1024, 24, 16), 405: Shape(1024, 32, 16)}
"""By millions of parameters, about."""

SMALL = Shape(64, 2, 2)

PLAIN, COMPILED, GRAPH = WAYS = ("plain", "torch.compile", "CUDA graph")


def plan_of(device: str, *, small: bool, seconds: float | None) -> Plan:
    """Return the plan for a device; a small one ends in about a minute on two cores."""
    is_gpu = device.startswith("cuda")
    if small:
        return Plan(
            device=device,
            shapes=[SMALL],
            encoder=SMALL,
            dtypes=["float32", "bfloat16"],
            ways=WAYS if is_gpu else [PLAIN],
            batches=[1, 16],
            tokens=16,
            fitted_rows=[500],
            passes=4,
            callers=[4],
            seconds=seconds or 0.1,
            language={"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2},
            small=True,
        )
    return Plan(
        device=device,
        shapes=list(SHAPES.values()),
        encoder=SHAPES[87],
        dtypes=["float32", "bfloat16"],
        ways=WAYS if is_gpu else [PLAIN, COMPILED],
        batches=[1, 8, 64, 256],
        tokens=64,
        fitted_rows=[5_000, 50_000],
        passes=20,
        callers=[1, 16, 64, 256],
        seconds=seconds or 1.0,
        language={
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        },
        small=False,
    )


@dataclass
class Results:
    """A table of one part, as it grows."""

    title: str
    columns: Sequence[str]
    words: int
    """How many of the columns hold words, from the left."""

    rows: list[list[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """Return the table, and the notes below it."""
        rule = ["---" if at < self.words else "---:" for at in range(len(self.columns))]
        lines = [f"### {self.title}", ""]
        if self.rows:
            told = [[shown(cell) for cell in row] for row in self.rows]
            lines += [f"| {' | '.join(line)} |" for line in (list(self.columns), rule, *told)]
            lines.append("")
        return "\n".join([*lines, *(f"{note}\n" for note in self.notes)])


def shown(cell: Any) -> str:
    """Return a number as a table shows it, with three digits; words as they are; nothing for None."""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)


def timed(work: Callable[[], Any], plan: Plan, *, seconds: float | None = None) -> float:
    """Return the median of the milliseconds that some work takes, the device's own included."""

    def once() -> float:
        began = time.perf_counter()
        work()
        if plan.is_gpu:
            torch.cuda.synchronize()
        return (time.perf_counter() - began) * 1000

    length = seconds or plan.seconds
    end = time.perf_counter() + length
    for _ in range(WARM_UPS):
        once()
        if time.perf_counter() > end:
            break
    taken: list[float] = []
    end = time.perf_counter() + length
    while time.perf_counter() < end or len(taken) < FEWEST:
        taken.append(once())
    return statistics.median(taken)


def in_short(error: BaseException) -> str:
    """Return the first line of an error, for a cell of a table."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
