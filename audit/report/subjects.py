"""What a policy is about, and what became of each thing that was promised: the policy's own subject first."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demur.audit.report.judgement import PromiseJudgement, PromiseVerdict
from demur.policies.promise import LABELS_NOT_PREDICTED, OF_ANSWERS, ROWS_LABELS_NOT_PREDICTED

ANSWERS, SETS, PREDICTED, OTHERS = "answers", "sets", "predicted labels", "others"

SUBJECTS: Mapping[str, str] = {
    ANSWERS: "wrong answers",
    SETS: "prediction sets",
    PREDICTED: "predicted labels",
    OTHERS: "what no audit can read",
}
"""The subjects of promises, in words that follow "about"."""

OF_SETS = frozenset({"conformal", "set_size", "risk_control"})
"""Policies that answer by the size of the prediction set."""

AIMS: Mapping[str, tuple[str, str]] = {
    "target_risk": ("max_risk", "kept wrong answers within {share} on the rows of the fit, and says nothing of others"),
    "rejection_rate": ("rate", "holds {share} of the predictions, however many of the others are wrong"),
}
"""By kind of policy that aims at a share: the setting that names the share, and what the policy does."""

DOES: Mapping[str, str] = {
    "threshold": "answers up to a limit that somebody chose",
    "cost": "weighs the price of an error against that of a review",
    "observe": "answers everything, and only notes what another rule would have decided",
    "conformal": "answers where the prediction set is small",
    "risk_control": "answers where few further labels are possible",
    "set_size": "answers where the prediction set is small",
}


@dataclass(frozen=True, kw_only=True)
class PolicyWords:
    """The policy of one artifact, as far as a report needs it."""

    kind: str
    """The kind of the policy, as the configuration names it; empty where the artifact does not say."""

    about: str
    """The subject in `SUBJECTS` that the policy decides by."""

    does: str
    """What the policy does, in words that follow its name."""

    aim: float | None = None
    """The share of wrong answers that it aims at without a promise."""

    gates: tuple[str, ...] = ()
    """Kinds of the gates before the rule."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What became of all promises about one thing."""

    about: str
    verdict: PromiseVerdict
    words: str
    """The verdict with its subject, as a heading."""

    says: str = ""
    """Why there is no promise; empty where there is one."""


def policy_words(configured: Mapping[str, Any]) -> PolicyWords:
    """Return what the configuration of a fit says of its policy: behind gates, and of one that only observes, the
    rule."""
    policy = configured.get("policy") or {}
    kind = str(policy.get("kind") or "")
    rule = policy.get("rule") if kind in ("all_of", "observe") else None
    inner = rule if isinstance(rule, Mapping) else policy
    own = str(inner.get("kind") or "")
    about = SETS if own in OF_SETS else ANSWERS
    if kind == "observe":
        return PolicyWords(kind=kind, about=about, does=DOES[kind])
    gates = tuple(str(name) for gate in policy.get("gates") or () if isinstance(gate, Mapping) for name in gate)
    setting, does = AIMS.get(own, ("", DOES.get(own, "")))
    told = inner.get(setting)
    share = float(told) if isinstance(told, int | float) and not isinstance(told, bool) else None
    if setting:
        does = "" if share is None else does.format(share=f"{100 * share:g}%")
    aim = share if own == "target_risk" else None
    return PolicyWords(kind=own, about=about, does=does, aim=aim, gates=gates)


def most_used(policies: Mapping[str, PolicyWords], records: Mapping[str | None, int]) -> PolicyWords | None:
    """Return the policy that decided the most records; None where no artifact tells its policy."""
    known = [name for name in policies if policies[name].kind]
    return policies[max(known, key=lambda name: (records.get(name, 0), name))] if known else None


def subject_of(share: str, measured: Container[str]) -> str:
    """Return the subject of a promise. `measured` holds the shares that an audit can measure."""
    if share not in measured:
        return OTHERS
    if share in OF_ANSWERS:
        return ANSWERS
    return PREDICTED if share in (LABELS_NOT_PREDICTED, ROWS_LABELS_NOT_PREDICTED) else SETS


def ranked(
    judgements: Sequence[PromiseJudgement], measured: Container[str], policy: PolicyWords | None
) -> list[PromiseJudgement]:
    """Return the judgements with those of the policy's subject first. A limit that whoever audits named comes before
    all others."""
    first = policy.about if policy else ANSWERS
    order = [first, *(about for about in SUBJECTS if about != first)]

    def place(one: PromiseJudgement) -> tuple[bool, int]:
        return bool(one.artifacts), order.index(subject_of(one.share, measured))

    return sorted(judgements, key=place)


def subjects(
    judgements: Sequence[PromiseJudgement],
    measured: Container[str],
    policy: PolicyWords | None,
    verdict_of: Callable[[Sequence[PromiseJudgement]], PromiseVerdict],
) -> list[Subject]:
    """Return what became of each subject, in the order of the judgements. The subject of a policy that promises nothing
    about it comes first, and says so."""
    by_subject: dict[str, list[PromiseJudgement]] = {}
    for one in judgements:
        by_subject.setdefault(subject_of(one.share, measured), []).append(one)
    found = [
        Subject(about=about, verdict=(verdict := verdict_of(own)), words=heading(about, verdict))
        for about, own in by_subject.items()
    ]
    own = policy.about if policy else ANSWERS
    if own not in by_subject and (policy is not None or not found):
        nothing = PromiseVerdict.NOTHING
        found.insert(0, Subject(about=own, verdict=nothing, words=heading(own, nothing), says=_no_promise(policy)))
    return found


def heading(about: str, verdict: PromiseVerdict) -> str:
    """The verdict on one subject as a heading."""
    words = SUBJECTS[about]
    if verdict is PromiseVerdict.NOTHING:
        return f"No promise about {words}"
    if verdict is PromiseVerdict.UNDECIDED:
        return f"Not enough evidence about {words}"
    return f"The promise about {words} was {verdict.value}"


def _no_promise(policy: PolicyWords | None) -> str:
    if policy is None:
        return "no artifact in force made a promise, and whoever asked for this audit named no limit"
    does = f": it {policy.does}" if policy.does else ""
    return f"the policy {policy.kind} makes none{does}"


def from_configurations(configured: Mapping[str, Mapping[str, Any]]) -> dict[str, PolicyWords]:
    """Return the policy of each artifact, by name."""
    return {name: policy_words(one) for name, one in configured.items()}
