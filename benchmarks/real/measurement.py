"""Everything that is measured on one model's predictions of one data set."""

from dataclasses import dataclass

from benchmarks.real import confidence, label_confidence, ranking
from benchmarks.real.predictions import Predictions
from benchmarks.real.spread import Spreads


@dataclass(frozen=True, kw_only=True)
class Measurement:
    data: str
    model: str
    n: int
    n_groups: int
    left_out: int
    exclusive: bool
    """One label is right for each row."""

    calibrators: dict[str, Spreads]
    """By calibrator: see `confidence`, or `label_confidence` where labels hold together."""

    scores: dict[str, Spreads]
    """By score: see `ranking`. Of rows that do not refuse; empty where there are two classes, by which all scores rank
    alike."""

    scores_with_refusals: dict[str, Spreads]
    """The same of all rows, refusals being wrong. Empty where no option refuses."""


def measure(data: str, predictions: Predictions) -> Measurement:
    exclusive = predictions.rows.exclusive
    two_classes = exclusive and predictions.rows.truth.shape[1] == 2
    return Measurement(
        data=data,
        model=predictions.model,
        n=len(predictions),
        n_groups=len(set(predictions.groups.tolist())),
        left_out=predictions.left_out,
        exclusive=exclusive,
        calibrators=dict((confidence if exclusive else label_confidence).measure(predictions)),
        scores={} if two_classes else dict(ranking.measure(predictions.answered())),
        scores_with_refusals=dict(ranking.measure(predictions)) if predictions.refusals else {},
    )
