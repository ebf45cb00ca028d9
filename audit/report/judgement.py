"""What became of one promise: the word, the numbers behind it, and what reviewers said beside it."""

from dataclasses import dataclass
from enum import StrEnum

from demur.audit.report.grounds import Estimate


class PromiseVerdict(StrEnum):
    KEPT = "kept"  # what was found would be a surprise if this fit missed the target or more
    BROKEN = "broken"  # it would be a surprise if the promise held, corrected for how much is judged
    UNDECIDED = "not enough evidence"  # neither, or there are no labels that could tell
    NOTHING = "nothing was promised"


@dataclass(frozen=True, kw_only=True)
class CorrectedJudgement:
    """What became of a promise about wrong answers, corrected for the errors of reviewers. All NaN where what they say
    tells no more than chance."""

    verdict: PromiseVerdict

    value: float
    lower: float
    upper: float
    why: str


@dataclass(frozen=True, kw_only=True)
class ObservedJudgement:
    """What became of a promise by what reviewers say, not corrected for their errors."""

    verdict: PromiseVerdict

    why: str
    p_broken: float | None
    p_kept: float | None


@dataclass(frozen=True, kw_only=True)
class PromiseJudgement:
    """What became of one promise."""

    share: str
    """What the promised percentage is a share of, in words that follow it: `of the answers are wrong`."""

    target: float
    statement: str
    """The promise as a sentence."""

    artifacts: tuple[str, ...]
    """Those that made it; empty where whoever audits named the limit."""

    part: str
    """The group or the artifact that it is about; empty for all."""

    verdict: PromiseVerdict
    estimate: Estimate
    why: str
    """The verdict in a sentence, with the numbers behind it."""

    p_broken: float | None = None
    """How surprising so many misses are if the promise holds, before any division of the level; None without labels
    that count."""

    p_kept: float | None = None
    """How surprising so few misses are if this fit misses the target or more."""

    corrected: CorrectedJudgement | None = None
    """The judgement without the errors of reviewers, which is then the verdict; None where too little is known of
    those errors: then the verdict is on what they say."""

    observed: ObservedJudgement | None = None
    """The judgement of what reviewers say, where another one is the verdict."""
