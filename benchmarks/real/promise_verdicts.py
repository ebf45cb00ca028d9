"""How many of the promises on real data hold, and how many of the sets and limits are those of other libraries."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from benchmarks.real.answer_promises import AnswerOutcome, broken_by_chance
from benchmarks.real.missed_promises import MissedOutcome
from benchmarks.real.set_promises import CHANCE, OURS, SetOutcome, below
from benchmarks.real.verdicts import Verdict

CONDITIONAL = ("class-conditional", "group-conditional")
SAME_METHOD = ("split", "sampled", *CONDITIONAL)
SAME_TESTS = {"ltt": "MAPIE, bonferroni", "ltt_fixed_sequence": "MAPIE, fixed sequence"}


def promise_verdicts(
    sets: Sequence[SetOutcome], answers: Sequence[AnswerOutcome], missed: Sequence[MissedOutcome]
) -> Iterator[Verdict]:
    own = [m for m in sets if m.who == OURS]
    if own:
        yield from _of_sets(own)
    if len(own) < len(sets):
        yield from _of_sets_of_others(list(pairs(sets)))
    if answers:
        yield from _of_answers(answers)
        yield from _of_tests_of_others({(m.rule, m.data, m.risk): m for m in answers})
    if missed:
        yield from _of_missed({(m.who, m.data, m.alpha): m for m in missed})


def pairs(measured: Sequence[SetOutcome]) -> Iterator[tuple[SetOutcome, SetOutcome]]:
    """Ours, and the same of each other library that makes them."""
    ours = {(m.data, m.kind, m.alpha): m for m in measured if m.who == OURS}
    for m in measured:
        if m.who != OURS:
            yield ours[m.data, m.kind, m.alpha], m


def _of_sets(own: Sequence[SetOutcome]) -> Iterator[Verdict]:
    kept = _count(m.kept for m in own)
    yield "mean coverage is 1 - alpha or more, but for 3 standard errors", "sets", kept
    low = [m.low.mean() for m in own if m.kind not in CONDITIONAL]
    yield (
        f"share of splits that are as low as {CHANCE:.0%} are by chance: smallest, largest",
        "sets with one quantile",
        f"{min(low):.1%}, {max(low):.1%}",
    )
    grouped = [m for m in own if m.by_group is not None]
    for kind, what, strata in (
        ("class-conditional", "labels", "by_label"),
        ("group-conditional", "groups", "by_group"),
    ):
        for asked in (kind, "split"):
            counts = [below(getattr(m, strata), m.alpha)[:2] for m in grouped if m.kind == asked]
            yield (
                f"{what} that are covered less than 1 - alpha by more than 3 standard errors",
                f"{asked} sets",
                f"{sum(count for count, _ in counts)} of {sum(of for _, of in counts)}",
            )


def _of_sets_of_others(both: Sequence[tuple[SetOutcome, SetOutcome]]) -> Iterator[Verdict]:
    same = [theirs for _, theirs in both if theirs.kind in SAME_METHOD]
    of = "method that MAPIE or crepes has too"
    seen = sum(theirs.memberships for theirs in same)
    yield "labels in a set of ours and not in theirs", of, f"{sum(t.only_ours for t in same):,} of {seen:,}"
    yield "labels in a set of theirs and not in ours", of, f"{sum(t.only_here for t in same):,} of {seen:,}"
    for asked in (True, False):
        smaller = _count(
            ours.size[: len(theirs.size)].mean() <= theirs.size.mean() + 1e-12
            for ours, theirs in both
            if (theirs.kind in SAME_METHOD) == asked
        )
        yield "mean size is no larger than theirs", of if asked else "adaptive and regularised sets", smaller


def _of_answers(answers: Sequence[AnswerOutcome]) -> Iterator[Verdict]:
    draws = len(answers[0].limits)
    most = broken_by_chance(draws)
    own = [m.broken for m in answers if m.promises and not m.rule.startswith("MAPIE")]
    asked = f"broken at most {most} times in {draws}, as chance allows"
    yield asked, "promises of answers", _count(broken <= most for broken in own)
    yield "broken most often", "promises of answers", f"{max(own)} of {draws}"
    bare = [m.broken for m in answers if m.rule == "target_risk"]
    asked = "more wrong answers than the target: least often, most often"
    yield asked, "target_risk, which promises nothing", f"{min(bare)}, {max(bare)} of {draws}"


def _of_tests_of_others(by: dict[tuple[str, str, float], AnswerOutcome]) -> Iterator[Verdict]:
    for rule, other in SAME_TESTS.items():
        both = [
            (own.limits, by[other, data, risk].limits)
            for (name, data, risk), own in by.items()
            if name == rule and (other, data, risk) in by
        ]
        if both:
            ours, theirs = (np.concatenate(limits) for limits in zip(*both, strict=True))
            found = [int(compare(ours, theirs).sum()) for compare in (np.equal, np.less, np.greater)]
            asked = "limit is the same as MAPIE's, is lower, is higher"
            yield asked, rule, f"{', '.join(map(str, found))} of {len(ours)}"


def _of_missed(by: dict[tuple[str, str, float], MissedOutcome]) -> Iterator[Verdict]:
    kept = _count(m.kept for (who, _, _), m in by.items() if who == OURS)
    yield "mean share missed is at most alpha, but for 3 standard errors", "limits on labels", kept
    same = [
        np.isclose(m.limits, by[f"{OURS}, hundredths", data, alpha].limits)
        for (who, data, alpha), m in by.items()
        if who == "MAPIE"
    ]
    if same:
        asked = "limit is the same as MAPIE's among the same hundredths"
        yield asked, "limits on labels", f"{int(np.sum(same))} of {np.size(same)}"


def _count(holds: Iterable[bool]) -> str:
    answers = list(holds)
    return f"{sum(answers)} of {len(answers)}"
