"""Everything that is measured on the sums model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.language import early_stops
from benchmarks.language.answers import Answers, Level, SelfReport, answers, by_level, self_reports
from benchmarks.language.collected import Advance, Collected, collected, n_rows
from benchmarks.language.comparison import Line, compared
from benchmarks.language.dearer_scores import DEAR, Budget, Gated, budgets, gated
from benchmarks.language.early_stops import Stopped, stopped
from benchmarks.language.kept_promises import Covered, Kept, coverage, kept
from benchmarks.language.tasks import TASKS

RISKS = {"choice": 0.05, "claim": 0.05, "labels": 0.1, "total": 0.05, "think": 0.05}
"""Share of wrong answers that is promised."""

STOPS = 40
"""Further exercises of each level on which stopping is tried."""

CLOSED = ("choice", "claim")
"""Tasks whose samples can only say one of a few things."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Findings:
    collected: Mapping[str, Collected]
    answers: Sequence[Answers]
    levels: Sequence[Level]
    lines: Sequence[Line]
    self_reports: Sequence[SelfReport]
    budgets: Sequence[Budget]
    gated: Sequence[Gated]
    stopped: Sequence[Stopped]
    covered: Sequence[Covered]
    kept: Sequence[Kept]


def both(about: Collected) -> tuple[str, str]:
    """The score of one pass and the score of samples that are looked at more closely."""
    return about.task.cheap, DEAR


def within(about: Collected) -> tuple[str, ...]:
    """The scores that are looked at within each level."""
    return (*both(about), *about.task.within)


def n_steps(share: float) -> int:
    """Rows to be run in all."""
    asked = sum(n_rows(task, _share(task.each, share)) for task in TASKS.values())
    return asked + len(CLOSED) * early_stops.n_rows(_share(STOPS, share))


def found(folder: Path, *, share: float, advance: Advance) -> Findings:
    """Run the model, or read what it said before, and measure. `share` of the exercises is taken, for a trial."""
    about = {
        name: collected(task, folder, each=_share(task.each, share), advance=advance) for name, task in TASKS.items()
    }
    everything = list(about.values())
    return Findings(
        collected=about,
        answers=[answers(one) for one in everything],
        levels=[level for one in everything for level in by_level(one, within(one))],
        lines=[line for one in everything for line in compared(one)],
        self_reports=[report for one in everything for report in self_reports(one)],
        budgets=[budget for one in everything for budget in budgets(one)],
        gated=[line for one in everything for line in gated(one)],
        stopped=[
            line for name in CLOSED for line in stopped(about[name], folder, each=_share(STOPS, share), advance=advance)
        ],
        covered=[line for name in CLOSED for line in coverage(about[name])],
        kept=[kept(one, score, max_risk=RISKS[name]) for name, one in about.items() for score in both(one)],
    )


def _share(each: int, share: float) -> int:
    return max(8, round(each * share))
