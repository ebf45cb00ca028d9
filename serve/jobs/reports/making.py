"""Making one audit: the same for the command line and for the service."""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from math import nan
from typing import Any, Protocol
from uuid import UUID

from demur.audit.ledger import ledger as ledgers
from demur.audit.ledger.from_database import read_ledger
from demur.audit.ledger.from_parquet import LedgerParts, parts_of
from demur.audit.ledger.ledger import NONE
from demur.audit.ledger.rows import write_rows
from demur.audit.ledger.settled import settled_moment
from demur.audit.report import audit as report
from demur.audit.report.in_parts import Everywhere, TrafficSummary, audit_in_parts, one_by_one
from demur.audit.report.judgement import PromiseVerdict
from demur.audit.report.plan import Settings
from demur.audit.report.resamples import Progress as Measured
from demur.audit.report.subjects import policy_words
from demur.audit.reviewer_error import reviewer_error
from demur.audit.state.reports import Figure, LabelCount, NewReport, ReportExtent, Summary
from demur.audit.state.retention import forgotten_before
from demur.calibration_store.artifact import ArtifactRefused
from demur.calibration_store.folder import Folder
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from demur.policies.promise import OF_ANSWERS
from demur.review.disagreement import decided_checks
from demur.serve.config.file import Config
from demur.traffic.database import Database

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of that is done, and how much there is to do; 0 of 0 where that is not known."""

HEADLINES = (
    ("selective_risk", "", "wrong among the answered", True),
    ("coverage", "", "answered", True),
    ("ece", "", "calibration error (ECE)", False),
    ("risk", "", "wrong among all", True),
    ("caught_errors", "", "errors that were not answered", True),
    ("deferral_rate", "", "held for a person", True),
    ("set_coverage", "", "sets that hold what is right", True),
    ("prr", "confidence", "prediction rejection ratio (PRR)", False),
    ("citl", "", "confidence less share right", False),
)
"""Estimates that lists and comparisons show, the most important first: name, of which score, words, whether a share."""

PATIENCE_SECONDS = 30.0
"""For what is being written while an audit begins."""


class StillWriting(RuntimeError):
    """Something that belongs to the range has been written for long and is not committed yet: an audit would not be the
    same a moment later. Try again, or end the range earlier."""


@dataclass(frozen=True, kw_only=True)
class ReportRequest:
    """What somebody wants to know."""

    model: str
    since: datetime | None
    """None: from the first record on."""

    until: datetime
    as_of: datetime
    max_risk: float | None = None
    """Takes the place of what the artifacts promise."""

    seed: int = 0
    every_outcome_known: bool = False
    """Outcomes come for every record, whatever was decided about it."""


@dataclass(frozen=True, kw_only=True)
class NewlyMadeReport:
    """A report that is made and not yet kept."""

    extent: ReportExtent
    command: str
    """Which makes it again, to the byte."""

    summary: Summary
    document: str
    html: str
    remark: str
    """How much is known of the records, in one sentence."""

    ledger: ledgers.Ledger | None
    """The rows behind it; None where they were never together in one place."""

    def to_store(self, *, planned: bool, made_by: str, rows_at: str | None = None) -> NewReport:
        return NewReport(
            extent=self.extent,
            planned=planned,
            made_by=made_by,
            command=self.command,
            version=version("demur"),
            summary=self.summary,
            document=self.document,
            html=self.html,
            rows_at=rows_at,
        )


def settled(database: Database, moment: datetime, *, patience_seconds: float = PATIENCE_SECONDS) -> datetime:
    """Wait until everything that happened up to `moment` is written, and return a moment at or after it up to which
    that is so; raise `StillWriting` where it takes too long."""
    deadline = time.monotonic() + patience_seconds
    while True:
        with database.transaction() as connection:
            reached = settled_moment(connection)
        if reached >= moment:
            return reached
        if time.monotonic() > deadline:
            raise StillWriting(
                f"what happened until {moment:%Y-%m-%d %H:%M:%S} UTC is still being written; try again, or end the"
                " range earlier"
            )
        time.sleep(0.5)


def make(config: Config, database: Database, wish: ReportRequest, progress: Progress) -> NewlyMadeReport:
    """Read the records, measure, and put it into words. Raises `NothingToAudit` where there are none.

    Without a beginning it begins where nothing has been deleted: what retention has left of earlier times are those
    that somebody still needed, such as cases that nobody has decided, and they are not like the traffic.
    """
    since = wish.since
    if since is None:
        with database.transaction() as connection:
            since = forgotten_before(connection, wish.model)
    ledger = read_ledger(
        database,
        wish.model,
        precedence=config.precedence(wish.model),
        since=since,
        until=wish.until,
        as_of=wish.as_of,
        exact=config.model(wish.model).right == "exact",
        progress=lambda done, total: progress("reading", done, total),
    )
    progress("weighing", 0, 0)
    decided = ledger.artifacts.codes[ledger.artifacts.codes != NONE]
    asked = asked_of(
        config,
        wish,
        artifacts=ledger.artifacts.names,
        last=ledger.artifacts.names[decided[-1]] if len(decided) else None,
        command=command_of(wish, since=ledger.extent.since),
    )
    with database.transaction() as connection:
        looks = reviewer_error(decided_checks(connection, wish.model, until=wish.as_of))
    asked = replace(asked, reviewers=looks)
    found = report.audit(ledger, asked, progress=lambda done, total: progress("resampling", done, total))
    progress("writing", 0, 0)
    return written(found, ledger.extent, asked.command, ledger)


class Cluster(Protocol):
    """Machines that measure the parts of an audit."""

    def cores(self) -> int:
        """Return how many processor cores all of them have."""
        ...

    def measured(self, parts: LedgerParts, progress: Measured) -> Everywhere:
        """Return what measures the parts on all of them; `progress` is told how many are done, and of how many."""
        ...


def make_from_export(
    config: Config, url: str, wish: ReportRequest, progress: Progress, *, cluster: Cluster | None = None
) -> NewlyMadeReport:
    """Make an audit of what `demur export` wrote under a URL, read and measured in parts: one after the other in this
    process, or all over a cluster."""
    parts = parts_of(
        url,
        wish.model,
        precedence=config.precedence(wish.model),
        since=wish.since,
        until=wish.until,
        as_of=wish.as_of,
        exact=config.model(wish.model).right == "exact",
        at_least=cluster.cores() if cluster else 1,
    )
    command = command_of(wish, since=parts.extent.since, parquet=url, ray=cluster is not None)

    def ask(seen: TrafficSummary) -> report.AuditSettings:
        artifacts = sorted(name for name in seen.survey.artifacts if name is not None)
        last = seen.last_artifact[1] if seen.last_artifact else None
        return asked_of(config, wish, artifacts=artifacts, last=last, command=command)

    def measuring(done: int, total: int) -> None:
        progress("reading and measuring", done, total)

    if cluster:
        everywhere = cluster.measured(parts, measuring)
    else:
        everywhere = one_by_one(len(parts.ranges), parts.read, progress=measuring)
    found = audit_in_parts(
        parts.extent, everywhere, ask, progress=lambda done, total: progress("resampling", done, total)
    )
    progress("writing", 0, 0)
    return written(found, parts.extent, command)


def asked_of(
    config: Config, wish: ReportRequest, *, artifacts: Sequence[str], last: str | None, command: str
) -> report.AuditSettings:
    """What is asked of records that these artifacts decided, the `last` of them with the one named so.

    How often labels held is read from the data of that one: one that is in force now may not be tomorrow, and the same
    audit is to be made again.
    """
    manifests = _manifests(ArtifactStore(config.artifacts), wish.model, artifacts)
    data = manifests[last]["data"] if last in manifests else None
    return report.AuditSettings(
        settings=Settings(seed=wish.seed, every_outcome_known=wish.every_outcome_known),
        fitted=report.FittedLabels(counts=data.get("label_counts", {}), n=data["n"]) if data else report.FittedLabels(),
        promises={
            artifact: [one for one in manifest.get("promises", []) if one["model"] == wish.model]
            for artifact, manifest in manifests.items()
        },
        policies={
            artifact: policy_words(_configured(manifest, wish.model)) for artifact, manifest in manifests.items()
        },
        unread=[name for name in artifacts if name not in manifests],
        max_risk=wish.max_risk,
        precedence=config.precedence(wish.model),
        command=command,
        version=version("demur"),
    )


def keep_rows(config: Config, made: NewlyMadeReport, id: UUID) -> str | None:
    """Store the rows behind a report where `audit.rows` says, and return the address; None where none are kept."""
    if config.audit.rows is None or made.ledger is None:
        return None
    path = f"{made.extent.model}/{id}.parquet"
    with Folder(config.audit.rows, holds="rows of audits").writing(path) as file:
        write_rows(made.ledger, file)
    return f"{config.audit.rows.rstrip('/')}/{path}"


def written(
    found: report.Audit, extent: ledgers.Extent, command: str, ledger: ledgers.Ledger | None = None
) -> NewlyMadeReport:
    return NewlyMadeReport(
        extent=ReportExtent(model=extent.model, since=extent.since, until=extent.until, as_of=extent.as_of),
        command=command,
        summary=summary_of(found.document),
        document=found.as_json(),
        html=found.as_html(),
        remark=_remark(found.document),
        ledger=ledger,
    )


def _manifests(store: ArtifactStore, model: str, artifacts: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the manifest of every artifact that decided any of the records, as far as they are still there."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in artifacts:
        with suppress(ArtifactNotFound, ArtifactRefused):  # what it promised is then not known, and the audit says so
            found[name] = store.load(model, name).manifest
    return found


def _configured(manifest: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """The settings with which one model of an artifact was fitted."""
    own: Mapping[str, Any] = manifest.get("configured", {})
    return own if manifest.get("name") == model else manifest.get("configured_further", {}).get(model, {})


def command_of(wish: ReportRequest, *, since: datetime, parquet: str | None = None, ray: bool = False) -> str:
    """The command that makes the same report whenever it is run."""
    words = ["demur", "audit", "--model", wish.model]
    for option, at in (("--since", since), ("--until", wish.until), ("--as-of", wish.as_of)):
        words += [option, at.astimezone(UTC).isoformat().replace("+00:00", "Z")]
    words += [] if wish.max_risk is None else ["--max-risk", f"{wish.max_risk!r}"]
    words += ["--seed", str(wish.seed)] if wish.seed else []
    words += ["--parquet", parquet] if parquet else []
    words += ["--ray"] if ray else []
    words += ["--every-outcome-known"] if wish.every_outcome_known else []
    return shlex.join(words)


def summary_of(document: Mapping[str, Any]) -> Summary:
    """What lists and comparisons show of a report."""
    estimates = {(one["name"], one["of"]): one for one in document["estimates"]}
    figures = []
    for name, of, words, share in HEADLINES:
        if one := estimates.get((name, of)):
            value, low, high = (_number(one[key]) for key in ("value", "lower", "upper"))
            figures.append(Figure(name=name, words=words, value=value, low=low, high=high, share=share))
    headline, labels, n = document["headline"], document["labels"], document["records"]["n"]
    answered = round(n * _number(estimates["coverage", ""]["value"])) if n else 0
    return Summary(
        verdict=headline["verdict"],
        why=_why(headline),
        max_risk=next((one["target"] for one in headline["judgements"] if one["share"] in OF_ANSWERS), nan),
        figures=figures,
        labels=[
            LabelCount(name="answered", records=answered, labelled=labels["known_answered"]),
            LabelCount(name="others", records=n - answered, labelled=labels["known"] - labels["known_answered"]),
        ],
        artifacts=document["records"]["artifacts"],
    )


def _why(headline: Mapping[str, Any]) -> str:
    """The verdict in a sentence: what the policy is about first, and then the first judgement that makes the verdict
    what it is."""
    verdict, first = headline["verdict"], headline["subjects"][0]
    lead = ""
    if first["verdict"] == PromiseVerdict.NOTHING or first["verdict"] != verdict:
        lead = ": ".join(filter(None, (first["words"], first["says"])))
    for one in headline["judgements"]:
        if one["verdict"] == verdict:
            part = f" of {one['part']}" if one["part"] else ""
            found = f"promised{part}: {one['statement']}; found: {one['why']}"
            return f"{lead}; {found}" if lead else found
    return lead


def _remark(document: Mapping[str, Any]) -> str:
    labels, n = document["labels"], document["records"]["n"]
    known = f"{labels['known']:,} of {n:,} records have an outcome, {labels['known_answered']:,} of them were answered"
    if labels["all_known"]:
        others = n - labels["known"]
        lacking = f" The other {others:,} count as missing by chance, because every outcome is said to be known."
        return f"{known}; each stands for itself.{lacking if others else ''}"
    return f"{known}; people were asked about {labels['drawn']:,}, and have looked at {labels['reviewed']:,}."


def _number(value: float | None) -> float:
    return nan if value is None else value
