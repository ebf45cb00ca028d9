"""What missing reviews could do to a verdict, if nothing is assumed about them (Manski 1989; METHODS 10.7)."""

from dataclasses import dataclass

from demur.audit.metrics.promise_tests import PromiseStatus
from demur.audit.metrics.sampling import missing_verdict
from demur.audit.report.promise_evidence import ANSWERS, LABELS
from demur.audit.report.risks import RiskEvidence


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """The share of misses in one part of the traffic if no missing review had found one, and if each had."""

    lower: float
    upper: float
    reviewed: float
    """The share of misses among those that were reviewed."""

    share_missing: float

    def turns(self, limits: tuple[float, float], *, kept: bool, target: float) -> bool:
        """Whether the missing reviews could be so bad or so good that a verdict does not stand. `limits`: the ends of
        the interval by the reviews that there are; what is missing may move each of them by what it adds or takes.

        There is no share of missing reviews that is small enough to be left out: at a target of 2% it could hide all
        that the target allows.
        """
        status = PromiseStatus.KEPT if kept else PromiseStatus.BROKEN
        lowest = limits[0] - max(0.0, self.reviewed - self.lower)
        highest = limits[1] + max(0.0, self.upper - self.reviewed)
        low, high, bar = (min(max(x, 0.0), 1.0) for x in (min(lowest, highest), highest, target))
        return missing_verdict(status, low, high, bar, self.share_missing, max_missing=0.0).downgraded

    @property
    def words(self) -> str:
        return (
            f"{_percent(self.share_missing)} of the drawn reviews are missing: were all of them misses the share would"
            f" be {100 * self.upper:.1f}%, were none of them {100 * self.lower:.1f}%"
        )


def worst_case(evidence: RiskEvidence, about: str, cell: int) -> WorstCase | None:
    """Return the bounds of what a promise is about, apart from chance; None where no review is missing.

    A missing row is taken to have as many labels that hold as a reviewed one has on average.
    """

    def count(name: str) -> float:
        return float(evidence.counts[name][cell])

    if evidence.by.all_known:
        return None
    a = "a_" if about == ANSWERS else ""
    drawn, reviewed = count(a + "drawn"), count(a + "reviewed")
    if not drawn or reviewed >= drawn:
        return None
    share_missing = 1 - reviewed / drawn
    if about == ANSWERS:
        low, missing, total = count("a_v_loss"), count("a_v_missing"), count("a_v")
    else:
        done = count("set_v_done")
        missing = count("set_v") - done
        low, total = count("set_v_missed"), done + missing
        if about == LABELS:
            missing *= count("set_v_right") / done if done else 1.0
            low, total = count("set_v_lost"), count("set_v_right") + missing
    if total <= 0:
        return None
    lower = min(1.0, low / total)
    return WorstCase(
        lower=lower,
        upper=min(1.0, max(lower, (low + missing) / total)),
        reviewed=min(1.0, low / (total - missing)) if total > missing else lower,
        share_missing=share_missing,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.2g}%"
