"""What a tournament found out: as a file, as tables, as a picture, and in sentences."""

from collections.abc import Sequence

import numpy as np
from rich.table import Table

from demur.audit.metrics.intervals import wilson
from demur.audit.metrics.ratings import Criterion, Interval95, RatingMeasures, measure_ratings
from demur.audit.rating_plot import rating_plot
from demur.serve.commands.rank.instances import Instances
from demur.serve.commands.rank.rounds import TournamentPlan, TournamentState
from demur.serve.hosts.language.anchors import CutPoint, Metrics, RatedRow, RatingMap, Ratings, Triple
from demur.uncertainty.checks import Array


def as_ratings(
    name: str,
    labels: Sequence[str],
    instances: Instances,
    standing: TournamentState,
    *,
    plan: TournamentPlan,
    judge: str,
    criterion: Criterion,
) -> Ratings:
    """Everything that was found out, as it is written to the file."""
    by_input = dict(zip(instances.distinct, standing.ratings.tolist(), strict=True))
    sides = [side for *_, side in standing.matches if side is not None]
    firsts, (negative, positive) = sides.count("A"), labels
    share = Interval95.within(firsts / len(sides), wilson(firsts, len(sides))) if sides else None
    rated = [(by_input[text], label) for text, label in zip(instances.inputs, instances.labels, strict=True)]
    known = [(rating, label == positive) for rating, label in rated if label is not None]
    measures = None
    if {truth for _, truth in known} == {True, False}:
        scores, truth = np.array([rating for rating, _ in known]), np.array([truth for _, truth in known])
        measures = measure_ratings(scores, truth, criterion=criterion, rng=np.random.default_rng(plan.seed))
    return Ratings(
        model=name,
        labels=(negative, positive),
        judge=judge,
        inputs_sha256=instances.sha256,
        settings=plan.as_facts(),
        rounds=len(standing.rounds),
        ended=standing.ended,
        agreement=standing.agreement,
        comparisons=len(standing.matches),
        no_verdict=len(standing.matches) - len(sides),
        failed=sum(played.failed for played in standing.rounds),
        share_a=_triple(share) if share else None,
        prompt_tokens=sum(played.prompt_tokens for played in standing.rounds),
        completion_tokens=sum(played.completion_tokens for played in standing.rounds),
        metrics=_metrics(measures) if measures else None,
        rows=tuple(
            RatedRow(input=text, label=label, rating=rating)
            for text, (rating, label) in zip(instances.inputs, rated, strict=True)
        ),
    )


def remarks(ratings: Ratings) -> list[str]:
    """What whoever reads the figures should know, a sentence each."""
    said = []
    if ratings.ended != "settled":
        agreed = "too few rounds to tell" if ratings.agreement is None else f"agreement {ratings.agreement:.3f}"
        said.append(f"the budget of {ratings.ended} ended before the ratings settled ({agreed}); raise it to go on")
    if ratings.no_verdict * 2 > ratings.comparisons:
        said.append("most comparisons gave no verdict: look at what the model replies, and at prompt.pair_template")
    share = ratings.share_a
    if share and share[1] is not None and share[2] is not None and not share[1] <= 0.5 <= share[2]:
        side = "first" if share[0] > 0.5 else "second"
        said.append(
            f"the model leans to the text that it is shown {side} ({share[0]:.1%} of the verdicts are A); sides are"
            " drawn by a coin, so that this is noise and favours nobody"
        )
    if ratings.metrics is None:
        said.append("there are no labels of both kinds: no areas, no cut, no probabilities")
    return said


def _metrics(measures: RatingMeasures) -> Metrics:
    cut, line = measures.cut, measures.to_probability
    return Metrics(
        n=measures.n,
        n_positive=measures.n_positive,
        auroc=_triple(measures.auroc),
        auprc=_triple(measures.auprc),
        cut=CutPoint(
            rating=cut.rating,
            criterion=cut.criterion,
            value=cut.value,
            precision=_triple(cut.precision),
            recall=_triple(cut.recall),
        ),
        isotonic=RatingMap(knots=tuple(line.knots.tolist()), values=tuple(line.values.tolist())),
    )


def _triple(measured: Interval95) -> Triple:
    lower, upper = (None if np.isnan(end) else end for end in (measured.lower, measured.upper))
    return measured.value, lower, upper


def drawn(ratings: Ratings) -> str:
    """Draw as SVG text how the ratings of each label lie, and what they stand for."""
    by_label: dict[str, Array] = {
        label or "no label": np.array([row.rating for row in ratings.rows if row.label == label])
        for label in (*ratings.labels, None)
    }
    metrics = ratings.metrics
    return rating_plot(
        by_label,
        to_probability=metrics.isotonic.line if metrics else None,
        cut=metrics.cut.rating if metrics else None,
    )


def tables(ratings: Ratings) -> list[Table]:
    """What was played, and what it is worth where labels are known."""
    distinct = len({row.input for row in ratings.rows})
    played = Table("rows", "inputs", "rounds", "comparisons", "no verdict", "verdicts for A", "ended by")
    played.add_row(
        f"{len(ratings.rows):,}",
        f"{distinct:,}",
        str(ratings.rounds),
        f"{ratings.comparisons:,}",
        f"{ratings.no_verdict:,}",
        "–" if ratings.share_a is None else _shown(ratings.share_a),
        "ratings that settled" if ratings.ended == "settled" else f"the budget of {ratings.ended}",
    )
    if (found := ratings.metrics) is None:
        return [played]
    worth = Table("", "value", "95% interval", caption=f"{found.n_positive:,} of {found.n:,} are {ratings.labels[1]}")
    lines = {
        "AUROC": found.auroc,
        "AUPRC": found.auprc,
        f"precision from {found.cut.rating:.0f} on, the best {NAMES[found.cut.criterion]}": found.cut.precision,
        "recall there": found.cut.recall,
    }
    for name, triple in lines.items():
        worth.add_row(name, f"{triple[0]:.3f}", _interval(triple))
    return [played, worth]


NAMES = {"f1": "F1", "youden": "J of Youden"}


def _shown(triple: Triple) -> str:
    return f"{triple[0]:.3f} ({_interval(triple)})"


def _interval(triple: Triple) -> str:
    return "–" if triple[1] is None or triple[2] is None else f"{triple[1]:.3f} to {triple[2]:.3f}"
