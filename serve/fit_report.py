"""What a fit reports, as tables for the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from calibration_store.fitting import Fit

SCORE_COLUMNS = {"auroc": "AUROC", "au_prc": "AU-PRC", "prr": "PRR", "rc_auc": "RC-AUC", "ti_95": "TI@95"}


def tables(name: str, fit: Fit) -> list[Table]:
    """The numbers of the confidence and its decisions, and one line for each score."""
    lines = fit.report
    numbers = Table(title=f"{name}: on {fit.n_reported} rows that the fit of {fit.n_fitted} has not seen")
    if not fit.crossfit:
        numbers.caption = "no cross-fitted values: too few wrong predictions to fit the calibrator without each fold"
    numbers.add_column("what")
    for column in ("value", "before calibration", "cross-fitted", "n"):
        numbers.add_column(column, justify="right")
    for what, line in lines.items():
        if "." not in what and not what.endswith("_before"):
            numbers.add_row(
                what, _value(lines, what), _value(lines, f"{what}_before"), _value(fit.crossfit, what), str(line["n"])
            )

    scores = Table(title="the scores")
    scores.add_column("score")
    shown = {metric: title for metric, title in SCORE_COLUMNS.items() if f"{metric}.confidence" in lines}
    for title in shown.values():
        scores.add_column(title, justify="right")
    for score in (what.removeprefix("prr.") for what in lines if what.startswith("prr.")):
        scores.add_row(score, *(_value(lines, f"{metric}.{score}") for metric in shown))
    return [numbers, scores]


def _value(lines: Mapping[str, Any], name: str) -> str:
    if name not in lines:
        return ""
    value = lines[name]["value"]
    return "undefined" if value is None else f"{value:.4f}"
