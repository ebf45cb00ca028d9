"""What a fit reports, as tables for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from demur.audit.group_lines import MOST_GROUPS
from demur.audit.label_lines import MOST_LABELS
from demur.audit.metric_agreement import metric_agreement
from demur.audit.visible import visible
from demur.calibration_store.fitting import Fit
from demur.calibration_store.reach import Reach
from demur.library.facts import replicates_of_ranks

SCORE_COLUMNS = {"auroc": "AUROC", "au_prc": "AU-PRC", "prr": "PRR", "rc_auc": "RC-AUC", "ti_95": "TI@95"}
PART_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "label": {"label_auroc": "AUROC", "label_ece": "ECE", "label_rho": "Spearman"},
    "group": {
        "group_coverage": "answered",
        "group_risk": "risk",
        "group_auroc": "AUROC of errors",
        "group_prr": "PRR",
        "group_ece": "ECE",
        "group_set_coverage": "sets hold",
        "group_set_size": "set size",
    },
}
"""What is measured part by part, by the first word of the line's name."""

MOST = {"label": MOST_LABELS, "group": MOST_GROUPS}


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
    named = [what.removeprefix("prr.") for what in lines if what.startswith("prr.")]
    for score in named:
        scores.add_row(score, *(_with_interval(lines, f"{metric}.{score}", "\n{:.2f}–{:.2f}") for metric in shown))
    parts = [_part_table(lines, kind, columns) for kind, columns in PART_COLUMNS.items()]
    return [numbers, scores, *(one for one in [_agreement(lines, named), *parts] if one is not None)]


def _part_table(lines: Mapping[str, Any], kind: str, columns: Mapping[str, str]) -> Table | None:
    """A line for each label or group that was measured apart; None without any."""
    apart = [what for what in lines if what.startswith(tuple(f"{metric}." for metric in columns))]
    shown = {metric: title for metric, title in columns.items() if any(what.startswith(f"{metric}.") for what in apart)}
    if not shown:
        return None
    table = Table(title=f"each {kind}, the most frequent first")
    table.caption = f"at most {MOST[kind]} of them, and none without a row"
    table.add_column(kind)
    table.add_column("rows", justify="right")
    for title in shown.values():
        table.add_column(title, justify="right")
    first = next(iter(shown))
    for name in (what.removeprefix(f"{first}.") for what in apart if what.startswith(f"{first}.")):
        cells = (_with_interval(lines, f"{metric}.{name}", "\n{:.2f}–{:.2f}") for metric in shown)
        table.add_row(Text(str(visible(name))), str(lines[f"{first}.{name}"]["n"]), *cells)
    return table


def _agreement(lines: Mapping[str, Any], scores: Sequence[str]) -> Table | None:
    """How alike the metrics order the scores (Khallaf & Sharoff 4.4); None for fewer than four scores."""
    found = metric_agreement(
        {metric: [lines.get(f"{metric}.{score}", {}).get("value") for score in scores] for metric in SCORE_COLUMNS}
    )
    if found is None:
        return None
    table = Table(title=f"how far the metrics agree on the order of {len(scores)} scores")
    table.caption = "Kendall's tau-b, 1 where they agree on every pair of scores"
    table.add_column("")
    for metric in found:
        table.add_column(SCORE_COLUMNS[metric], justify="right")
    for metric, row in found.items():
        table.add_row(SCORE_COLUMNS[metric], *("-" if tau is None else f"{tau:.2f}" for tau in row.values()))
    return table


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
