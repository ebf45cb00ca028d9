"""Making one audit: the same for the command line and for the service."""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from math import nan
from typing import Any

from audit.ledger.from_database import read_ledger
from audit.ledger.ledger import NONE, Ledger
from audit.ledger.settled import settled_moment
from audit.report import audit as report
from audit.report.plan import Settings
from audit.report.verdict import ANSWERS_WRONG, Verdict
from audit.reports import Extent, Figure, Labelled, NewReport, Summary
from calibration_store.artifact import ArtifactRefused
from calibration_store.store import ArtifactNotFound, ArtifactStore
from serve.config.file import Config
from traffic.database import Database

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of that is done, and how much there is to do; 0 of 0 where that is not known."""

VERDICTS = tuple(verdict.value for verdict in Verdict)

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
class Wish:
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
class Made:
    """A report that is made and not yet kept."""

    extent: Extent
    command: str
    """Which makes it again, to the byte."""

    summary: Summary
    document: str
    html: str
    remark: str
    """On whom the labels are about, in one sentence."""

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


def make(config: Config, database: Database, wish: Wish, progress: Progress) -> Made:
    """Read the records, measure, and put it into words. Raises `NothingToAudit` where there are none."""
    name, precedence = wish.model, config.precedence(wish.model)
    ledger = read_ledger(
        database,
        name,
        precedence=precedence,
        since=wish.since,
        until=wish.until,
        as_of=wish.as_of,
        exact=config.model(name).right == "exact",
        progress=lambda done, total: progress("reading", done, total),
    )
    progress("weighing", 0, 0)
    manifests = _manifests(ArtifactStore(config.artifacts), name, ledger)
    command = command_of(wish, since=ledger.extent.since)
    found = report.audit(
        ledger,
        report.Asked(
            settings=Settings(seed=wish.seed, every_outcome_known=wish.every_outcome_known),
            fitted=_fitted(manifests, ledger),
            promises={
                artifact: [one for one in manifest.get("promises", []) if one["model"] == name]
                for artifact, manifest in manifests.items()
            },
            max_risk=wish.max_risk,
            precedence=precedence,
            command=command,
            version=version("demur"),
        ),
        progress=lambda done, total: progress("resampling", done, total),
    )
    progress("writing", 0, 0)
    extent = ledger.extent
    return Made(
        extent=Extent(model=name, since=extent.since, until=extent.until, as_of=extent.as_of),
        command=command,
        summary=summary_of(found.document),
        document=found.as_json(),
        html=found.as_html(),
        remark=_remark(found.document),
    )


def _manifests(store: ArtifactStore, model: str, ledger: Ledger) -> dict[str, Mapping[str, Any]]:
    """Of every artifact that decided any of the records, as far as they are still there."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in ledger.artifacts.names:
        with suppress(ArtifactNotFound, ArtifactRefused):  # an audit needs no artifact; it tells what was promised
            found[name] = store.load(model, name).manifest
    return found


def _fitted(manifests: Mapping[str, Mapping[str, Any]], ledger: Ledger) -> report.FittedLabels:
    """How often labels held in the data of the last artifact that decided any: one that is in force now may not be
    tomorrow, and the same audit is to be made again."""
    decided = ledger.artifacts.codes[ledger.artifacts.codes != NONE]
    manifest = manifests.get(ledger.artifacts.names[decided[-1]]) if len(decided) else None
    if manifest is None:
        return report.FittedLabels()
    return report.FittedLabels(counts=manifest["data"].get("label_counts", {}), n=manifest["data"]["n"])


def command_of(wish: Wish, *, since: datetime) -> str:
    """The command that makes the same report whenever it is run."""
    words = ["demur", "audit", "--model", wish.model]
    for option, at in (("--since", since), ("--until", wish.until), ("--as-of", wish.as_of)):
        words += [option, at.astimezone(UTC).isoformat().replace("+00:00", "Z")]
    words += [] if wish.max_risk is None else ["--max-risk", f"{wish.max_risk!r}"]
    words += ["--seed", str(wish.seed)] if wish.seed else []
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
        why=_why(headline["verdict"], headline["judgements"]),
        max_risk=next((one["target"] for one in headline["judgements"] if one["share"] == ANSWERS_WRONG), nan),
        figures=figures,
        labels=[
            Labelled(name="answered", records=answered, labelled=labels["known_answered"]),
            Labelled(name="others", records=n - answered, labelled=labels["known"] - labels["known_answered"]),
        ],
        artifacts=document["records"]["artifacts"],
    )


def _why(verdict: str, judgements: Sequence[Mapping[str, Any]]) -> str:
    """The first of the judgements that make the verdict what it is."""
    for one in judgements:
        if one["verdict"] == verdict:
            part = f" of {one['part']}" if one["part"] else ""
            return f"promised{part}: {one['statement']}; found: {one['why']}"
    return "no artifact that decided here promises anything; say with --max-risk how often answers may be wrong"


def _remark(document: Mapping[str, Any]) -> str:
    labels, n = document["labels"], document["records"]["n"]
    known = f"{labels['known']:,} of {n:,} records have an outcome, {labels['known_answered']:,} of them were answered"
    if labels["all_known"]:
        return f"{known}; each stands for itself."
    return f"{known}; people were asked about {labels['drawn']:,}, and have looked at {labels['reviewed']:,}."


def _number(value: float | None) -> float:
    return nan if value is None else value
