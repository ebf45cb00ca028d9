"""The ratings file that `demur rank` writes, and the inputs in it that a new one is compared with."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError
from pydantic_core import from_json

from demur.serve.config.complaint import complaint
from demur.serve.config.hosts.tournament import TournamentConfig
from demur.serve.config.settings import Section
from demur.traffic.text_file import NotText, read_text
from demur.uncertainty.checks import Array
from demur.uncertainty.isotonic import IsotonicMap
from demur.uncertainty.tournament import START

Triple = tuple[float, float | None, float | None]
"""A value and its 95% interval; None where there is none."""


class BadRatings(ValueError):
    """A ratings file cannot be used. The message says why, and what to do."""


class RatedRow(Section):
    """One row of the file that was ranked; rows with one input have one rating."""

    input: str
    label: str | None
    rating: float


class CutPoint(Section):
    """Where positive begins, and how well that parts the labelled rows."""

    rating: float
    criterion: Literal["f1", "youden"]
    value: float
    precision: Triple
    recall: Triple


class RatingMap(Section):
    """The isotonic map from a rating of this tournament to the probability of the positive label: lines between knots,
    and level outside of them."""

    knots: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def line(self) -> IsotonicMap:
        return IsotonicMap(knots=np.array(self.knots), values=np.array(self.values))


class Metrics(Section):
    """How well anchors rate the labelled rows."""

    n: int
    n_positive: int
    auroc: Triple
    auprc: Triple
    cut: CutPoint
    isotonic: RatingMap


class Ratings(Section):
    """Everything that `demur rank` found out."""

    format: Literal[1] = 1
    model: str
    labels: tuple[str, str]
    """The negative one first."""

    judge: str
    """Fingerprint of the model as it was asked to compare."""

    inputs_sha256: str
    settings: Mapping[str, Any]
    rounds: int
    ended: Literal["settled", "rounds", "comparisons"]
    agreement: float | None
    """Between the ratings of the last two windows of rounds; None where there were too few rounds to tell."""

    comparisons: int
    no_verdict: int
    """Comparisons whose reply could not be read, or that got none."""

    failed: int
    """Those of them that got none."""

    share_a: Triple | None
    """Of the verdicts, those for the side that was shown first. A coin settled which that was: 1/2 is fair."""

    prompt_tokens: int
    completion_tokens: int
    metrics: Metrics | None
    """None without labels of both kinds."""

    rows: tuple[RatedRow, ...]


def read_ratings(path: Path) -> Ratings:
    """Read what `demur rank` wrote. Raises `BadRatings`."""
    try:
        content = from_json(read_text(path))
        return Ratings.model_validate(content)
    except NotText as error:
        raise BadRatings(f"{error}; `demur rank` writes it") from None
    except ValidationError as error:
        raise BadRatings(f"{path} is not what `demur rank` writes: {complaint(error, content)}") from None
    except ValueError:
        raise BadRatings(f"{path} is not what `demur rank` writes: it is not JSON") from None


def ratings_fingerprint(settings: TournamentConfig, *, labels: tuple[str, ...], judge: str) -> str:
    """What the rating of a new input hangs on besides the model. Raises `BadRatings` where the ratings are not this
    model's, as it is asked to compare now."""
    anchors = Anchors.of(settings)
    anchors.check_same(labels=labels, judge=judge, path=settings.ratings)
    held = [anchors.texts, anchors.ratings.tolist(), anchors.start, settings.rounds]
    return hashlib.sha256(json.dumps(held).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Anchors:
    """Distinct inputs with their ratings, ascending: evenly spread over the ranks, from the lowest to the highest."""

    texts: tuple[str, ...]
    ratings: Array
    start: float
    """Where a new input begins, and from where on it is positive: the best cut of the tournament, so that it meets
    those at which the labels part, or 1000 where no labels were known."""

    labels: tuple[str, str]
    judge: str

    @classmethod
    def of(cls, settings: TournamentConfig) -> "Anchors":
        """Choose them from the configured file. Raises `BadRatings` where it has too few inputs for the rounds."""
        ratings = read_ratings(settings.ratings)
        rated = sorted({row.input: row.rating for row in ratings.rows}.items(), key=lambda item: (item[1], item[0]))
        count = min(settings.anchors, len(rated))
        if count <= settings.rounds:  # one of them may be the new input itself
            raise BadRatings(
                f"{settings.ratings}: {settings.rounds} rounds need at least {settings.rounds + 1} anchors, and there"
                f" are {count}; rank more inputs, raise host.tournament.anchors or lower host.tournament.rounds"
            )
        chosen = [rated[at] for at in np.rint(np.linspace(0, len(rated) - 1, count)).astype(int).tolist()]
        return cls(
            texts=tuple(text for text, _ in chosen),
            ratings=np.array([rating for _, rating in chosen]),
            start=ratings.metrics.cut.rating if ratings.metrics else START,
            labels=ratings.labels,
            judge=ratings.judge,
        )

    def __len__(self) -> int:
        return len(self.texts)

    def check_same(self, *, labels: tuple[str, ...], judge: str, path: Path) -> None:
        """Raise `BadRatings` unless this is how, and by what, they were rated."""
        if labels != self.labels:
            raise BadRatings(f"{path} rates {self.labels[1]!r} against {self.labels[0]!r}, not the labels of this task")
        if judge != self.judge:
            raise BadRatings(
                f"{path} was made by another model, or one that was asked in another way; run `demur rank` again"
            )
