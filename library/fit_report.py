"""What a fit reports, as tables for the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from demur.calibration_store.fitting import Fit
from demur.calibration_store.reach import Reach
from demur.library.facts import replicates_of_ranks

SCORE_COLUMNS = {"auroc": "AUROC", "au_prc": "AU-PRC", "prr": "PRR", "rc_auc": "RC-AUC", "ti_95": "TI@95"}


def tables(name: str, fit: Fit) -> list[Table]:
    """The numbers of the confidence and its decisions, and one line for each score."""
    lines = fit.report
    title = f"{name}: on {fit.n_reported} rows that the fit of {fit.n_fitted} has not seen"
    numbers = Table(title=title, box=None)  # without lines, so that eighty columns are enough
    captions = []
    if any(_ends(line) for line in lines.values()):
        captions.append(
            "in brackets: 95% intervals, exact where rows are counted, else from resampled rows"
            f" ({replicates_of_ranks(fit)} samples where ranks matter), if there are errors enough"
        )
    if not fit.crossfit:
        captions.append("no cross-fitted values: too few wrong predictions to fit the calibrator without each fold")
    numbers.caption = "\n".join(captions) or None
    numbers.add_column("what", no_wrap=True)
    for column in ("value", "before calibration", "cross-fitted", "n"):
        numbers.add_column(column, justify="right", no_wrap=column == "value")
    for what, line in lines.items():
        if "." not in what and not what.endswith("_before"):
            numbers.add_row(
                what,
                _with_interval(lines, what, " ({:.4f} to {:.4f})"),
                _value(lines, f"{what}_before"),
                _value(fit.crossfit, what),
                str(line["n"]),
            )

    scores = Table(title="the scores")
    scores.add_column("score")
    shown = {metric: title for metric, title in SCORE_COLUMNS.items() if f"{metric}.confidence" in lines}
    for title in shown.values():
        scores.add_column(title, justify="right")
    for score in (what.removeprefix("prr.") for what in lines if what.startswith("prr.")):
        scores.add_row(score, *(_with_interval(lines, f"{metric}.{score}", "\n{:.2f}–{:.2f}") for metric in shown))
    return [numbers, scores]


def reach_table(reach: Reach) -> Table:
    """What a refused rule could promise, a line for each share of wrong answers."""
    ran = any(point.answered is not None for point in reach.curve)
    table = Table(title=f"what could be promised, each but for {100 * reach.delta:g}%, by `method: {reach.method}`")
    table.add_column("wrong at most", justify="right")
    table.add_column("answered" if ran else "labelled rows that would do", justify="right")
    for point in reach.curve:
        here = " (asked for)" if point.max_risk == reach.max_risk else ""
        told = (
            f"{point.labels:,}" if point.answered is None else f"{point.answered:.1%}" if point.answered else "nothing"
        )
        table.add_row(f"{100 * point.max_risk:g}%{here}", told)
    table.caption = (
        f"on {reach.n:,} rows; choosing a line after seeing all of them makes it a little less sure"
        if ran
        else "if none of their answers is wrong"
    )
    return table


def sentences(fit: Fit) -> list[str]:
    """What is promised, and on what it rests."""
    said = []
    for model, promise in fit.promises:
        place = f"{model}: " if len(fit.selectors) > 1 else ""
        counted = f", {promise.errors:,} of the answered ones wrong" if promise.errors is not None else ""
        bound = f"; upper bound {100 * promise.bound:.3g}%" if promise.bound is not None else ""
        said.append(f"Promise: {place}{promise.statement} (from {promise.n:,} labelled rows{counted}{bound}).")
    if fit.n_plain is not None:
        said.append(
            f"Rows stand for unequal numbers of records: {fit.n_plain:,} are left after thinning to a plain sample, and"
            " all that is promised and reported is counted on these; the calibrator saw more, by their weights."
        )
    return said


def _with_interval(lines: Mapping[str, Any], name: str, interval: str) -> str:
    """The value and, if there are any, the ends of its interval."""
    ends = _ends(lines.get(name, {}))
    return _value(lines, name) + (interval.format(*ends) if ends else "")


def _value(lines: Mapping[str, Any], name: str) -> str:
    if name not in lines:
        return ""
    value = lines[name]["value"]
    return "undefined" if value is None else f"{value:.4f}"


def _ends(line: Mapping[str, Any]) -> tuple[float, float] | None:
    """The interval; None where there is none, as in artifacts from before there were any."""
    lower, upper = line.get("lower"), line.get("upper")
    return None if lower is None or upper is None else (lower, upper)
