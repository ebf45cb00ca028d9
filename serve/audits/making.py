"""Making one audit: the same for the command line and for the service."""

import json
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from math import nan
from typing import Any

from audit.intervals import clopper_pearson
from audit.old_report import FittedLabels
from audit.old_report import audit as measure
from audit.reports import Extent, Figure, Labelled, NewReport, Summary
from calibration_store.artifact import ArtifactRefused
from calibration_store.store import ArtifactNotFound, ArtifactStore
from serve.config.file import Config
from traffic.database import Database
from traffic.dataset import read_traffic

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of that is done, and how much there is to do; 0 of 0 where that is not known."""

VERDICTS = ("kept", "broken", "not enough evidence", "nothing was promised")


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


def make(config: Config, database: Database, wish: Wish, progress: Progress) -> Made:
    """Read the records, measure, and put it into words. Raises `NothingToAudit` where there are none, or no label."""
    name, precedence = wish.model, config.precedence(wish.model)
    progress("reading", 0, 0)
    with database.transaction() as connection:
        traffic = read_traffic(connection, name, precedence=precedence, since=wish.since, until=wish.until)
    fitted = FittedLabels()
    with suppress(ArtifactNotFound, ArtifactRefused):  # an audit needs no artifact; one tells which labels are rare
        data = ArtifactStore(config.artifacts).in_force(name).manifest["data"]
        fitted = FittedLabels(counts=data.get("label_counts", {}), n=data["n"])
    progress("measuring", 0, 0)
    report = measure(traffic, model=name, since=wish.since, until=wish.until, fitted=fitted, precedence=precedence)
    document = report.as_json()
    return Made(
        extent=Extent(model=name, since=report.since, until=report.until, as_of=wish.as_of),
        command=command_of(wish, since=report.since),
        summary=_summary(json.loads(document), wish.max_risk),
        document=document,
        html=report.as_html(),
        remark=report.missing,
    )


def command_of(wish: Wish, *, since: datetime) -> str:
    """The command that makes the same report whenever it is run."""
    words = ["demur", "audit", "--model", wish.model]
    for option, at in (("--since", since), ("--until", wish.until), ("--as-of", wish.as_of)):
        words += [option, at.astimezone(UTC).isoformat().replace("+00:00", "Z")]
    words += [] if wish.max_risk is None else ["--max-risk", f"{wish.max_risk!r}"]
    words += ["--seed", str(wish.seed)] if wish.seed else []
    return shlex.join(words)


def _summary(document: dict[str, Any], max_risk: float | None) -> Summary:
    whole = document["strata"][0]
    n = whole["labelled_answered"]
    right = whole["accuracy_answered"]
    risk = nan if right is None else 1 - right
    errors = 0 if right is None else round(risk * n)
    bounds = clopper_pearson(errors, n) if n else None
    low, high = (bounds.lower, bounds.upper) if bounds else (nan, nan)
    told = {line["name"]: line["value"] for line in document["findings"]}
    if max_risk is None:
        verdict, why = "nothing was promised", "nobody has said how often answers may be wrong"
    elif high <= max_risk:
        verdict, why = "kept", f"at most {high:.2%} of the answers is wrong"
    elif low > max_risk:
        verdict, why = "broken", f"at least {low:.2%} of the answers is wrong"
    else:
        verdict, why = "not enough evidence", f"between {low:.2%} and {high:.2%} of the answers is wrong"
    coverage = whole["answered"] / whole["records"] if whole["records"] else nan
    ece = told.get("ece")
    return Summary(
        verdict=verdict,
        why=why,
        max_risk=nan if max_risk is None else max_risk,
        figures=[
            Figure(name="selective_risk", words="wrong among the answered", value=risk, low=low, high=high),
            Figure(name="coverage", words="answered", value=coverage, low=nan, high=nan),
            Figure(name="ece", words="calibration error", value=nan if ece is None else ece, low=nan, high=nan),
        ],
        labels=[
            Labelled(name="answered", records=whole["answered"], labelled=n),
            Labelled(name="held", records=whole["held"], labelled=whole["labelled_held"]),
        ],
        artifacts=document["artifacts"],
    )
