"""What a fit is worth, measured on rows that it has not seen: the report of `demur fit`, in Python."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from demur.audit.drawing import ORANGE
from demur.audit.held_out import calibration_report, held_out_report
from demur.audit.label_lines import NamedLabels
from demur.calibration_store.fitting import Fit
from demur.library import html, plots
from demur.library.class_labels import ClassLabels
from demur.library.fit_report import sentences, tables
from demur.library.fitted_selector import FittedSelector
from demur.library.picture import PlotFigure, legend, new_picture
from demur.policies.promise import OF_ANSWERS, Promise
from demur.uncertainty.checks import Array, InvalidInput, Mask

WIDTH = 110
"""Characters of a line."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FitReport:
    """The numbers of a fit, each with a 95% interval where there are errors enough for one.

    `report["prr.confidence"]` is a number with its ends: PRR, ECE, risk, coverage and whatever else `names` lists.
    """

    name: str
    fitted: FittedSelector
    labels: ClassLabels

    @cached_property
    def fit(self) -> Fit:
        """The fit with its numbers, which take a second or two to work out."""
        held_out, fit = self.fitted.held_out, self.fitted.fit
        return replace(
            fit,
            selectors={self.name: fit.selector},
            report=held_out_report(
                held_out.judgement,
                held_out.rows,
                held_out.quality,
                labels=NamedLabels.of(self.labels.labels, self.fitted.truth),
            ),
            crossfit=_crossfit_report(self.fitted.crossfitted),
        )

    @property
    def names(self) -> list[str]:
        """What was measured; of what, if that is a score, after a dot."""
        return list(self.fit.report)

    def __getitem__(self, name: str) -> dict[str, float | int | None]:
        """`value`, `lower`, `upper` and `n` of one number; None where it is undefined, or has no interval."""
        return dict(self.fit.report[name])

    @property
    def promises(self) -> list[Promise]:
        """Everything that is promised, or was to be."""
        return [promise for _, promise in self.fitted.fit.promises]

    @property
    def statements(self) -> list[str]:
        """The promises as sentences, with the rows on which they rest; nothing where none is made."""
        return sentences(self.fit)

    @property
    def remarks(self) -> list[str]:
        """What is worth knowing about the rows and the fit."""
        return list(self.fitted.remarks)

    def __str__(self) -> str:
        console = Console(file=io.StringIO(), width=WIDTH)
        for one in (*tables(self.name, self.fit), *self.statements, *self.remarks):
            console.print(one, markup=False, highlight=False)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue().rstrip()

    def __repr__(self) -> str:
        return (
            f"<FitReport of {self.name}: {self.fit.n_reported} rows that the fit of {self.fit.n_fitted} has not seen>"
        )

    def to_pandas(self) -> Any:
        """Return a DataFrame, a row for each number. It needs pandas."""
        try:
            from pandas import DataFrame
        except ImportError:
            raise ImportError("a DataFrame needs pandas; install it, or read the numbers by name") from None
        return DataFrame.from_dict(dict(self.fit.report), orient="index")

    def _repr_html_(self) -> str:
        lines = self.fit.report
        caption = f"{self.name}: on {self.fit.n_reported} rows that the fit of {self.fit.n_fitted} has not seen"
        rows = [
            (name, _number(lines, name), _interval(line), _number(lines, f"{name}_before"), line["n"])
            for name, line in lines.items()
            if "." not in name and not name.endswith("_before")
        ]
        return (
            html.paragraphs([*self.statements, *self.remarks])
            + html.table(caption, ("what", "value", "95% interval", "before calibration", "n"), rows)
            + (html.image(self.plot(), "Risk against coverage, reliability and confidence") if self._drawable else "")
        )

    def plot(self) -> PlotFigure:
        """Draw risk against coverage, reliability, the confidences and, where there are any, the sizes of sets."""
        known = np.isfinite(self.fitted.held_out.judgement.confidence)
        if not self._drawable:
            raise InvalidInput("the confidence of every row is unknown, and there is nothing to draw")
        judgement, quality = self.fitted.held_out.judgement.rows(known), self.fitted.held_out.quality[known]
        with_sets = self.fitted.selector.sets is not None
        aim = next((one.target for one in self.promises if one.share in OF_ANSWERS and one.feasible), None)

        def draw(figure: Figure) -> None:
            ((first, second), (third, fourth)) = figure.subplots(2, 2)
            plots.risk_coverage(quality, -judgement.confidence, max_risk=aim, label="confidence", ax=first)
            _mark_decided(first, judgement.decisions.answered, quality)
            plots.reliability(judgement.confidence, quality, ax=second)
            plots.confidence_histogram(judgement.confidence, quality, ax=third)
            if with_sets:
                plots.set_sizes(judgement.members, self.fitted.held_out.rows.truth[known], ax=fourth)
            else:
                plots.accuracy_rejection(quality, -judgement.confidence, label="confidence", ax=fourth)

        return new_picture(draw, size=(10, 7.2))

    @property
    def _drawable(self) -> bool:
        return bool(np.isfinite(self.fitted.held_out.judgement.confidence).any())


def _mark_decided(axes: Any, answered: Mask, quality: Array) -> None:
    """A point where the rule has put the limit."""
    if answered.any():
        axes.plot(answered.mean(), 1 - quality[answered].mean(), "o", color=ORANGE, label="as decided")
        legend(axes)


def _crossfit_report(crossfitted: tuple[Array, Array] | None) -> Mapping[str, Any]:
    if crossfitted is None:
        return {}
    try:
        return calibration_report(*crossfitted)
    except InvalidInput:  # as in a fit: the rows may all be right, of which some numbers cannot be told
        return {}


def _number(lines: Mapping[str, Any], name: str) -> str:
    if name not in lines:
        return ""
    value = lines[name]["value"]
    return "undefined" if value is None else f"{value:.4g}"


def _interval(line: Mapping[str, Any]) -> str:
    lower, upper = line.get("lower"), line.get("upper")
    return "–" if lower is None or upper is None else f"{lower:.4g} to {upper:.4g}"
