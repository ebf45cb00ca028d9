"""The tables of docs/evidence/models.md that say whether promises hold, as Markdown."""

from collections.abc import Sequence

import numpy as np

from benchmarks.real.answer_promises import AnswerOutcome
from benchmarks.real.missed_promises import MissedOutcome
from benchmarks.real.promise_verdicts import CONDITIONAL, pairs, promise_verdicts
from benchmarks.real.promises import Outcome
from benchmarks.real.set_promises import OURS, SetOutcome, below, standard_error
from benchmarks.real.tables import table
from demur.uncertainty.checks import Array


def promise_tables(found: Sequence[Outcome]) -> dict[str, str]:
    """By name: see the markers in the document."""
    sets = [each for each in found if isinstance(each, SetOutcome)]
    answers = [each for each in found if isinstance(each, AnswerOutcome)]
    missed = [each for each in found if isinstance(each, MissedOutcome)]
    return {
        "promises": table(("asked", "of", "found"), promise_verdicts(sets, answers, missed)),
        "promised sets": _sets([each for each in sets if each.who == OURS]),
        "sets of others": _others(sets),
        "promised answers": _answers(answers),
        "missed labels": _missed(missed),
    }


def _sets(measured: Sequence[SetOutcome]) -> str:
    header = ("data", "sets", "1 - alpha", "coverage", "s.e.", "low splits", "size", "labels below", "worst label")
    rows = []
    for m in measured:
        low = f"{m.low.mean():.1%}" if m.kind not in CONDITIONAL else ""
        labels = _below(m.by_label, m.alpha)
        groups = ("", "") if m.by_group is None else _below(m.by_group, m.alpha)
        rows.append(
            (
                m.data,
                m.kind,
                f"{1 - m.alpha:g}",
                _spread(m.coverage, 4),
                f"{standard_error(m.coverage):.4f}",
                low,
                f"{m.size.mean():.3f}",
                *labels,
                *groups,
            )
        )
    return table((*header, "groups below", "worst group"), rows)


def _below(strata: Array, alpha: float) -> tuple[str, str]:
    count, of, worst = below(strata, alpha)
    return f"{count} of {of}", f"{worst:.3f}"


def _others(measured: Sequence[SetOutcome]) -> str:
    header = (
        "data",
        "sets",
        "1 - alpha",
        "beside",
        "splits",
        "coverage",
        "theirs",
        "size",
        "theirs",
        "only in ours",
        "only in theirs",
        "of pairs",
    )
    rows = []
    for ours, theirs in pairs(measured):
        n = len(theirs.coverage)
        rows.append(
            (
                theirs.data,
                theirs.kind,
                f"{1 - theirs.alpha:g}",
                theirs.who,
                str(n),
                f"{ours.coverage[:n].mean():.4f}",
                f"{theirs.coverage.mean():.4f}",
                f"{ours.size[:n].mean():.3f}",
                f"{theirs.size.mean():.3f}",
                f"{theirs.only_ours:,}",
                f"{theirs.only_here:,}",
                f"{theirs.memberships:,}",
            )
        )
    return table(header, rows)


def _answers(measured: Sequence[AnswerOutcome]) -> str:
    header = (
        "data",
        "wrong at most",
        "rule",
        "promise broken",
        "above on test rows",
        "nothing answered",
        "answered",
        "wrong",
    )
    rows = []
    data = list(dict.fromkeys(m.data for m in measured))
    for m in sorted(measured, key=lambda m: (data.index(m.data), m.risk)):
        d = len(m.limits)
        broken = f"{m.broken} of {d}" if m.promises else f"none given; above in {m.broken} of {d}"
        wrong = "" if m.silent == d else f"{np.nanmean(m.true_risk):.4f}"
        rows.append(
            (
                m.data,
                f"{m.risk:g}",
                m.rule,
                broken,
                str(m.above_in_test),
                str(m.silent),
                f"{m.coverage.mean():.3f}",
                wrong,
            )
        )
    return table(header, rows)


def _missed(measured: Sequence[MissedOutcome]) -> str:
    rows = [
        (
            m.data,
            f"{m.alpha:g}",
            m.who,
            _spread(m.missed, 4),
            f"{standard_error(m.missed):.4f}",
            f"{m.size.mean():.3f}",
            f"{m.limits.mean():.4f}",
        )
        for m in measured
    ]
    return table(("data", "missed at most", "limit by", "missed", "s.e.", "labels predicted", "mean limit"), rows)


def _spread(values: Array, digits: int) -> str:
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"
