"""Whether a language model that judges answers prefers the longer ones (AlpacaEval)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.real.archives import csv_rows, json_rows
from benchmarks.real.tournaments import Preferences, preferences
from demur.audit.metrics.correlation import spearman
from demur.audit.metrics.intervals import hajek_interval
from demur.uncertainty.checks import Array

LENGTHS = ("alpacaeval_prefs", "output_chars.csv.gz")
INSTRUCTIONS = ("alpacaeval_prefs", "instructions.jsonl.gz")
BASELINE = "gpt4_1106_preview"

TOLD = (
    ("claude-2.1_concise", "claude-2.1"),
    ("gpt-3.5-turbo-1106_concise", "gpt-3.5-turbo-1106"),
    ("gpt-3.5-turbo-1106", "gpt-3.5-turbo-1106_verbose"),
)
"""One model with two prompts, the one that makes it write less first."""

BOUNDS = (1 / 4, 1 / 2, 3 / 4, 1, 3 / 2)
"""Of the length of an answer, as a multiple of the baseline's."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lengths:
    """Preferences, and how long the answers were."""

    models: tuple[str, ...]
    """Without the baseline."""

    values: Array
    """[instructions, models], the judge's probability that the answer beats the baseline's."""

    characters: Array
    """[instructions, models]"""

    ratio: Array
    """[instructions, models], characters for each character of the baseline's answer."""

    @property
    def left_over(self) -> Array:
        """[instructions, models], the preference without what is due to the model and to the instruction."""
        own, asked = self.values.mean(axis=0, keepdims=True), self.values.mean(axis=1, keepdims=True)
        return np.asarray(self.values - own - asked + self.values.mean())


@dataclass(frozen=True, kw_only=True)
class Told:
    """The same model, writing less and more."""

    less: str
    more: str
    characters: tuple[float, float]
    preferred: tuple[float, float]
    """Share of the instructions, by the judge's probability."""

    gain: float
    """Of writing more."""

    low: float
    high: float
    """Interval of `gain` over instructions, 95%."""


@dataclass(frozen=True, kw_only=True)
class Related:
    what: str
    over: str
    mean: float
    smallest: float
    largest: float
    above: int
    """How many of the `of` correlations are above 0."""

    of: int


@dataclass(frozen=True, kw_only=True)
class Bin:
    name: str
    n: int
    preferred: float
    left_over: float


def read(data: Path) -> Lengths:
    given: Preferences = preferences(data)
    others = [at for at, name in enumerate(given.models) if name != BASELINE]
    models = tuple(given.models[at] for at in others)
    characters = np.array([[float(line[m]) for m in models] for line in csv_rows(data.joinpath(*LENGTHS))])
    baseline = np.array([float(row["baseline_chars"]) for row in json_rows(data.joinpath(*INSTRUCTIONS))])
    return Lengths(
        models=models, values=given.values[:, others], characters=characters, ratio=characters / baseline[:, None]
    )


def told(lengths: Lengths, pairs: Sequence[tuple[str, str]] = TOLD) -> list[Told]:
    found = []
    for less, more in pairs:
        at = lengths.models.index(less), lengths.models.index(more)
        gain = lengths.values[:, at[1]] - lengths.values[:, at[0]]
        interval = hajek_interval(gain, np.ones(len(gain)))
        short, long = (float(lengths.characters[:, each].mean()) for each in at)
        worse, better = (float(lengths.values[:, each].mean()) for each in at)
        found.append(
            Told(
                less=less,
                more=more,
                characters=(short, long),
                preferred=(worse, better),
                gain=float(gain.mean()),
                low=interval.lower,
                high=interval.upper,
            )
        )
    return found


def related(lengths: Lengths) -> list[Related]:
    """Spearman of preference with length. One model's answers, and all answers to one instruction; the latter also
    without what is due to model and instruction; and the models' means."""
    columns, rows = range(len(lengths.models)), range(len(lengths.values))
    rest = lengths.left_over
    return [
        _related(
            "preference, length against the baseline's",
            "answers of a model",
            _each(lengths.values, lengths.ratio, columns),
        ),
        _related(
            "what is left of it, length against the baseline's",
            "answers of a model",
            _each(rest, lengths.ratio, columns),
        ),
        _related(
            "preference, length", "answers to an instruction", _each(lengths.values.T, lengths.characters.T, rows)
        ),
        _related("what is left of it, length", "answers to an instruction", _each(rest.T, lengths.characters.T, rows)),
        _related(
            "mean preference, mean length",
            "models",
            [spearman(lengths.values.mean(axis=0), lengths.characters.mean(axis=0))],
        ),
    ]


def _each(a: Array, b: Array, columns: range) -> list[float]:
    return [spearman(a[:, column], b[:, column]) for column in columns]


def _related(what: str, over: str, found: Sequence[float]) -> Related:
    values = np.array(found)
    values = values[np.isfinite(values)]
    return Related(
        what=what,
        over=over,
        mean=float(values.mean()),
        smallest=float(values.min()),
        largest=float(values.max()),
        above=int((values > 0).sum()),
        of=len(values),
    )


def bins(lengths: Lengths, bounds: Sequence[float] = BOUNDS) -> list[Bin]:
    """By length as a multiple of the baseline's."""
    at = np.searchsorted(np.asarray(bounds), lengths.ratio, side="right")
    edges = ["0", *(f"{bound:.2f}" for bound in bounds), ""]
    rest = lengths.left_over
    return [
        Bin(
            name=f"{edges[number]} to {edges[number + 1]}" if edges[number + 1] else f"{edges[number]} and more",
            n=int((at == number).sum()),
            preferred=float(lengths.values[at == number].mean()),
            left_over=float(rest[at == number].mean()),
        )
        for number in range(len(bounds) + 1)
    ]


def missing(data: Path) -> list[str]:
    return ["/".join(path) for path in (LENGTHS, INSTRUCTIONS) if not data.joinpath(*path).is_file()]
