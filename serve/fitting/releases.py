"""Artifacts of a model as people and programs are told of them: what each was fitted on, promises, and is now."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from demur.calibration_store.artifact import ArtifactRefused
from demur.calibration_store.history import Change
from demur.calibration_store.refusals import RefusedFits
from demur.calibration_store.standing import Standing
from demur.calibration_store.store import ArtifactStore

IN_FORCE, SHADOW, CANARY = "in force", "shadow", "canary"


def role_of(standing: Standing, name: str) -> str | None:
    """Return what an artifact is now; None if it is nothing but stored."""
    if name == standing.in_force:
        return IN_FORCE
    if name == standing.shadow:
        return SHADOW
    return CANARY if standing.canary and name == standing.canary.artifact else None


def summary(name: str, manifest: Mapping[str, Any], standing: Standing) -> dict[str, Any]:
    """Return what is told of an artifact in a list."""
    report = manifest.get("report", {})
    data = manifest.get("data", {})
    configured = manifest.get("configured", {})
    return {
        "name": name,
        "role": role_of(standing, name),
        "created_at": manifest.get("created_at"),
        "fitted_on": {
            "file": data.get("file"),
            "since": data.get("since"),
            "until": data.get("until"),
            "n": manifest.get("n_fitted"),
            "n_reported": manifest.get("n_reported"),
        },
        "policy": configured.get("policy", {}).get("kind"),
        "promises": [one["statement"] for one in manifest.get("promises", [])],
        "ece": report.get("ece", {}).get("value"),
        "selective_risk": report.get("selective_risk", {}).get("value"),
        "coverage": report.get("coverage", {}).get("value"),
        "refused": None,
    }


def artifacts_of(store: ArtifactStore, model: str) -> list[dict[str, Any]]:
    """Return every stored artifact of a model, the newest first. One that cannot be read says why under `refused`."""
    standing = store.standing(model)
    found = []
    for name in store.names(model):
        try:
            found.append(summary(name, store.load(model, name).manifest, standing))
        except ArtifactRefused as error:
            found.append({**summary(name, {}, standing), "refused": str(error)})
    return sorted(found, key=lambda one: one["created_at"] or "", reverse=True)


def refused_fit_of(url: str, model: str, artifacts: Sequence[Mapping[str, Any]]) -> dict[str, str] | None:
    """Return the last fit that was refused, if nothing was fitted since: when, why, and on what. `artifacts`: those of
    the model."""
    refused = RefusedFits(url).last(model)
    if refused is None or any((one["created_at"] or "") > refused.at for one in artifacts):
        return None
    return asdict(refused)


def standing_json(standing: Standing) -> dict[str, Any]:
    """Return which artifacts decide."""
    canary = None if standing.canary is None else asdict(standing.canary)
    return {"in_force": standing.in_force, "shadow": standing.shadow, "canary": canary}


def change_json(change: Change) -> dict[str, Any]:
    """Return one entry of the history."""
    return {
        "number": change.number,
        "at": change.at,
        "action": change.action,
        "artifact": change.artifact,
        "by": change.by,
        "why": change.why,
        "standing": standing_json(change.standing),
    }
