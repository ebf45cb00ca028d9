"""`demur artifacts shadow --report`: how the shadow does beside what callers were told, from what was recorded."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from rich.table import Table

from demur.audit.metrics.evidence import Evidence, EvidenceStatus
from demur.audit.shadowing import NothingShadowed, Shadowing, shadowing
from demur.serve.commands.pair_tables import cells_table, flips_table, mcnemar_in_words, numbers_table
from demur.serve.fitting.flip import MOST_FLIPS, Flip
from demur.traffic.database import Database
from demur.traffic.outcomes import Precedence
from demur.traffic.shadowed import ShadowedTraffic, ShadowSide, read_shadowed


@dataclass(frozen=True, kw_only=True)
class ShadowReport:
    """What was found about one artifact in the shadow."""

    model: str
    artifact: str
    since: datetime | None
    until: datetime | None
    found: Shadowing
    flips: Sequence[Flip]
    """The first of them, in order of time."""

    def as_json(self) -> dict[str, Any]:
        """The numbers, with None for what is undefined."""
        return {
            "model": self.model,
            "artifact": self.artifact,
            "since": self.since.isoformat() if self.since else None,
            "until": self.until.isoformat() if self.until else None,
            **self.found.as_json(),
            "flips": [asdict(flip) for flip in self.flips],
        }


def report_shadow(
    database: Database,
    model: str,
    artifact: str,
    *,
    right: str,
    precedence: Precedence,
    since: datetime | None,
    until: datetime | None,
    observed: bool = False,
) -> ShadowReport:
    """Report on the records in [since, until) that the artifact decided in the shadow.

    `right` says how right a set of labels is, one of `QUALITIES`. `observed` says that the artifact is in force and its
    policy only observes. Raises `NothingShadowed` where there is no such record.
    """
    with database.transaction() as connection:
        seen = read_shadowed(connection, model, artifact, precedence=precedence, since=since, until=until)
    if not len(seen) and observed:
        raise NothingShadowed(
            f"no decision of the observed policy of {artifact!r} is recorded for model {model!r} in this range;"
            " widen it, or send traffic"
        )
    if not len(seen):
        raise NothingShadowed(
            f"nothing was decided by {artifact!r} in the shadow of model {model!r} in this range; widen it, or start"
            f" the shadow with `demur artifacts shadow {model} {artifact}` and send traffic"
        )
    found = shadowing(seen, exact=right == "exact")
    return ShadowReport(
        model=model,
        artifact=artifact,
        since=since,
        until=until,
        found=found,
        flips=[_flip(seen, at) for at in found.flips[:MOST_FLIPS]],
    )


def tables(report: ShadowReport) -> list[Table]:
    """The numbers of both, the four cells, and some of the records that flip."""
    found, numbers = report.found, report.found.numbers
    told = ", ".join(f"{name} ({n:,})" for name, n in found.told_by.items())
    # an artifact can be in force and in the shadow at once only where its policy observes
    other = (
        "what its policy would have decided"
        if set(found.told_by) == {report.artifact}
        else f"the shadow {report.artifact}"
    )
    shown = [
        numbers_table(
            numbers,
            title=f"on {found.n:,} records of {report.model}, {numbers.n_labelled:,} of them with a label that counts",
            caption=f"A: what callers were told, by {told}\nB: {other}",
        ),
        cells_table(numbers.flips),
    ]
    return [*shown, flips_table(report.flips, numbers.flips)] if report.flips else shown


def remarks(report: ShadowReport) -> list[str]:
    """What the shadow would mean for people and what it costs, and how far the numbers carry."""
    found = report.found
    return [*_meaning(found), *_labels(found), *_left_out(found)]


def _meaning(found: Shadowing) -> list[str]:
    said = [
        f"Cases for people: {found.people_told:,} so far, {found.people_shadow:,} by the shadow"
        f" ({found.people_shadow - found.people_told:+,}), spot checks aside."
    ]
    cost = found.cost
    if cost.n:
        said.append(
            f"The shadow took {cost.mean:.2f} ms of the time of an answer on average, {cost.median:.2f} ms in the"
            f" median: {cost.share_of_model:.1%} of the time in the model. (A caller waits for a whole batch.)"
        )
    test = found.numbers.answered_and_right
    if test:
        said.append(mcnemar_in_words(test))
    elif found.numbers.n_labelled:
        said.append("There is no McNemar test here: it is valid for labels of one common probability only.")
    return said


def _labels(found: Shadowing) -> list[str]:
    if found.every_label:
        said = ["Every record has an outcome, so each of them counts once."]
    else:
        said = [
            "Coverage needs no label. Risk, accuracy, ECE and Brier score are of records that a person was asked about,"
            " each for as many as it stands for: one that was held for itself, an answer that was drawn to be checked"
            " for all those that were not."
        ]
    if found.never:
        said.append(
            f"{found.never:,} of the {found.n:,} records could never get a label, as their answers were not drawn from:"
            " risk, accuracy, ECE and Brier score are those of the others alone, mostly held ones. Set `spot_check` in"
            " the model's configuration to know more."
        )
    for name, one in (("A", found.evidence_told), ("B", found.evidence_shadow)):
        said += _evidence(name, one)
    if found.waiting:
        said.append(
            f"{found.waiting:,} held records wait for their review; the later ones can be left out with --until. Those"
            " that have one stand for them only if it does not depend on the case who is reviewed first."
        )
    if found.numbers.n_labelled:
        said.append("Reviewers who saw the prediction lean towards it.")
    return said


def _evidence(name: str, one: Evidence) -> list[str]:
    counted = f"{one.n_labelled:,} labelled answers of {name}, {one.n_events:,} of them wrong"
    if one.status in (EvidenceStatus.NONE, EvidenceStatus.INSUFFICIENT):
        return [f"Insufficient evidence on the risk of {name}: {counted}."]
    if one.status is EvidenceStatus.EXACT_ONLY:
        return [f"The interval of the risk means little: there are {counted}."]
    return []


def _left_out(found: Shadowing) -> list[str]:
    said = []
    if found.not_drawn:
        said.append(
            f"{found.not_drawn:,} outcomes do not count: they came unasked, and whoever complains is not drawn by lot."
        )
    if found.undefined:
        said.append(
            f"{found.undefined:,} records have no confidence on one side or the other; their labels are not used."
        )
    if found.escalated:
        said.append(
            f"Left out: {found.escalated:,} records that the first model of the shadow would have passed to the next"
            " one. A shadow is not followed further, so of a cascade only this first step is shown; `demur replay` and"
            " `demur artifacts compare` run all its models."
        )
    return said


def _flip(seen: ShadowedTraffic, at: int) -> Flip:
    return Flip(
        id=seen.ids[at],
        prediction=seen.shadow.predictions[at],
        a=seen.told.actions[at],
        b=seen.shadow.actions[at],
        confidence_a=_confidence(seen.told, at),
        confidence_b=_confidence(seen.shadow, at),
    )


def _confidence(side: ShadowSide, at: int) -> float | None:
    value = float(side.confidence[at])
    return None if value != value else value
