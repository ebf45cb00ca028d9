"""A fitted selector in a store of artifacts, where a service finds it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demur.calibration_store.artifact import ModelIdentity, pack
from demur.calibration_store.store import ArtifactStore
from demur.library import html
from demur.library.facts import facts_of, versions
from demur.library.report import FitReport

MODEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, kw_only=True)
class SavedArtifact:
    """An artifact that was stored, and is not in force yet."""

    name: str
    model: str
    store: str
    """The folder or URL of the store."""

    promises: tuple[str, ...]

    @property
    def command(self) -> str:
        """What puts it in force, where the service is configured."""
        return f"demur artifacts promote {self.model} {self.name}"

    def __str__(self) -> str:
        return self.name

    def _repr_html_(self) -> str:
        promises = [f"Promise: {one}." for one in self.promises] or ["It promises nothing."]
        return html.table(f"artifact {self.name}", ("model", "store", "not in force yet"), [self._row]) + (
            html.paragraphs(promises)
        )

    @property
    def _row(self) -> tuple[str, str, str]:
        return self.model, self.store, self.command


def save_artifact(
    report: FitReport,
    store: str | Path | ArtifactStore,
    *,
    model: str,
    identity: ModelIdentity,
    configured: Mapping[str, Any],
) -> SavedArtifact:
    """Store the fitted selector with its report, as `demur fit` does. Nothing is promoted here."""
    if not MODEL_NAME.fullmatch(model):
        raise ValueError(f"model: {model!r} is not a name of letters, digits, dots, dashes and underscores")
    artifacts = store if isinstance(store, ArtifactStore) else ArtifactStore(str(store))
    fitted = report.fitted
    facts = facts_of(
        replace(report.fit, selectors={model: fitted.selector}),
        kind=report.labels.kind,
        labels=report.labels.labels,
        truth=fitted.truth,
        data={"file": "arrays in Python", "since": None, "until": None, "sha256": fitted.sha256},
        weights=fitted.weights,
        remarks=[],
    )
    files = pack(
        fitted.selector,
        model=model,
        identity=identity,
        facts={
            "created_at": datetime.now(UTC).isoformat(),
            "configured": configured,
            **facts,
            "stored_anyway": [one.why for one in fitted.against],
            "versions": versions(),
        },
    )
    artifacts.save(model, files)
    return SavedArtifact(
        name=files.name,
        model=model,
        store=artifacts.url,
        promises=tuple(promise.statement for promise in report.promises),
    )
