"""What may be done to the artifacts of the models that are served, as programs ask for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from demur.calibration_store import model_jobs
from demur.calibration_store.artifact import Artifact, ArtifactRefused
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.history import Change
from demur.calibration_store.model_jobs import ModelJob
from demur.calibration_store.store import ArtifactStore
from demur.policies.limit_shown import limit_as_confidence
from demur.serve.config.file import Config
from demur.serve.config.fitted_settings import fitted_settings
from demur.serve.contract.artifact_wire import CanaryRequest, JobRequest
from demur.serve.contract.hosts import UnknownModel
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.fitting.artifact_diff import DiffSection, diff_of, settings_against
from demur.serve.fitting.releases import artifacts_of, change_json, refused_fit_of, standing_json
from demur.traffic.database import Database

MOST_LISTED = 100
"""Jobs in a list."""


class UnknownArtifact(LookupError):
    """No artifact of this name is stored for the model. GET /v1/artifacts/{model} lists them."""


class ArtifactService:
    """Reads and changes which artifacts decide. Every method may take as long as the store does."""

    def __init__(
        self,
        config: Config,
        store: ArtifactStore,
        database: Database,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], UUID],
    ) -> None:
        self._config, self._store, self._database = config, store, database
        self._clock, self._new_id = clock, new_id
        self._read: dict[tuple[str, str], Artifact] = {}

    def listed(self, model: str) -> dict[str, Any]:
        """Return every artifact of a model, and which of them decide."""
        self._check(model)
        standing = self._store.standing(model)
        artifacts = artifacts_of(self._store, model)
        refused = refused_fit_of(self._store.url, model, artifacts)
        return {"model": model, "standing": standing_json(standing), "artifacts": artifacts, "refused_fit": refused}

    def diff(self, model: str, a: str, b: str | None) -> dict[str, Any]:
        """Return two artifacts side by side, or one beside the settings that are configured now. Raises
        `UnknownArtifact`."""
        self._check(model)
        first = self._loaded(model, a)
        if b is None:
            return diff_json(a, "configured now", settings_against(first, fitted_settings(self._config.models[model])))
        return diff_json(a, b, diff_of([first, self._loaded(model, b)]))

    def promises_in_force(self, model: str) -> list[str]:
        """Return what the artifact in force promises, a sentence each; nothing where there is none, or it cannot be
        read."""
        return [one["statement"] for one in self._manifest_in_force(model).get("promises", [])]

    def limit_in_force(self, model: str) -> float | None:
        """Return the confidence from which the artifact in force answers, as `limit_as_confidence` tells it."""
        artifact = self._in_force(model)
        return None if artifact is None else limit_as_confidence(artifact.selector)

    def manifest(self, model: str, artifact: str) -> dict[str, Any]:
        """Return everything that an artifact tells about itself. Raises `UnknownArtifact`."""
        self._check(model)
        return dict(self._loaded(model, artifact))

    def history(self, model: str) -> dict[str, Any]:
        """Return every change of which artifacts decide, the oldest first."""
        self._check(model)
        return {"model": model, "changes": [change_json(change) for change in self._store.history(model)]}

    def promote(self, model: str, artifact: str, *, by: str, why: str) -> dict[str, Any]:
        """Put an artifact in force. Raises `UnknownArtifact`."""
        self._check(model)
        self._loaded(model, artifact)
        return change_json(self._store.promote(model, artifact, by=by, why=why, clock=self._clock))

    def rollback(self, model: str, *, by: str, why: str) -> dict[str, Any]:
        """Put the artifact in force again that was in force before. Raises `NothingToRollBack`."""
        self._check(model)
        return change_json(self._store.rollback(model, by=by, why=why, clock=self._clock))

    def shadow(self, model: str, artifact: str | None, *, by: str, why: str) -> dict[str, Any]:
        """Let an artifact decide beside the one in force; None ends that. Raises `RoleRefused`."""
        self._check(model)
        if artifact is not None:
            self._loaded(model, artifact)
        return change_json(self._store.shadow(model, artifact, by=by, why=why, clock=self._clock))

    def canary(self, model: str, asked: CanaryRequest, *, by: str) -> dict[str, Any]:
        """Let an artifact decide a share of the traffic; None ends that. Raises `RoleRefused`."""
        self._check(model)
        return change_json(self._canary(model, asked, by=by))

    def _canary(self, model: str, asked: CanaryRequest, *, by: str) -> Change:
        bounds = (asked.share, asked.held_between, asked.max_risk)
        if asked.artifact is None:
            if bounds != (None, None, None):
                raise InvalidRequest("artifact: to end a canary, leave share, held_between and max_risk out")
            ended = self._store.stop_canary(model, by=by, why=asked.why, clock=self._clock)
            assert ended is not None  # only where `only` names one
            return ended
        if asked.share is None or asked.held_between is None:
            raise InvalidRequest("share, held_between: a canary has both, such as 0.1 and [0.05, 0.4]")
        if asked.max_risk is not None and self._config.models[model].spot_checks is None:
            raise InvalidRequest(
                f"max_risk: it watches answers that people check, and none of model {model!r} are; set its `spot_check`"
            )
        self._loaded(model, asked.artifact)
        low, high = asked.held_between
        return self._store.start_canary(
            model,
            asked.artifact,
            share=asked.share,
            held_between=(low, high),
            max_risk=asked.max_risk,
            by=by,
            why=asked.why,
            clock=self._clock,
        )

    def ask(self, model: str, asked: JobRequest, *, by: str) -> dict[str, Any]:
        """Ask for work that takes long. Raises `TooManyJobs`."""
        self._check(model)
        for name in {"compare": ("a", "b"), "replay": ("artifact",)}.get(asked.kind, ()):
            artifact = getattr(asked, name)
            if artifact is None:
                raise InvalidRequest(f"{name}: {asked.kind} needs the name of an artifact here")
            self._loaded(model, artifact)
        if asked.promote and not asked.why:
            raise InvalidRequest("why: a promotion needs a reason")
        for name in ("since", "until"):
            moment = getattr(asked, name)
            if moment is not None and moment.tzinfo is None:
                raise InvalidRequest(f"{name}: a time with its zone is wanted here, such as 2026-11-21T08:30:00Z")
        settings = asked.model_dump(mode="json", exclude={"kind"}, exclude_defaults=True)
        with self._database.transaction() as connection:
            return job_json(model_jobs.ask(connection, self._new_id(), model, asked.kind, settings, asked_by=by))

    def job(self, id: UUID) -> dict[str, Any]:
        """Return a job. Raises `JobNotFound`."""
        with self._database.transaction() as connection:
            return job_json(model_jobs.job_of(connection, id))

    def jobs(self, model: str) -> dict[str, Any]:
        """Return the latest jobs of a model."""
        self._check(model)
        with self._database.transaction() as connection:
            found = model_jobs.latest_jobs(connection, model, limit=MOST_LISTED)
        return {"model": model, "jobs": [job_json(job) for job in found]}

    def _manifest_in_force(self, model: str) -> Mapping[str, Any]:
        artifact = self._in_force(model)
        return {} if artifact is None else artifact.manifest

    def _in_force(self, model: str) -> Artifact | None:
        """The artifact in force, read once, since it never changes; None where there is none that can be read."""
        try:
            name = self._store.name_in_force(model)
            if name is None:
                return None
            if (model, name) not in self._read:
                self._read = {key: kept for key, kept in self._read.items() if key[0] != model}
                self._read[model, name] = self._store.load(model, name)
            return self._read[model, name]
        except (ArtifactRefused, ArtifactsUnreachable):
            return None

    def _check(self, model: str) -> None:
        if model not in self._config.models:
            raise UnknownModel(f"model: there is no model {model!r}; there are: {', '.join(self._config.models)}")

    def _loaded(self, model: str, artifact: str) -> Any:
        if artifact not in self._store.names(model):  # so that no name leads to another folder
            raise UnknownArtifact(
                f"artifact: there is no artifact {artifact!r} of model {model!r}; GET /v1/artifacts/{model} lists them"
            )
        return self._store.load(model, artifact).manifest


def diff_json(a: str, b: str, sections: Sequence[DiffSection]) -> dict[str, Any]:
    """`ArtifactDiff`."""
    return {"a": a, "b": b, "sections": [asdict(section) for section in sections]}


def job_json(job: ModelJob) -> dict[str, Any]:
    """`JobView`."""
    return {
        "id": str(job.id),
        "model": job.model,
        "kind": job.kind,
        "settings": dict(job.settings),
        "asked_by": job.asked_by,
        "asked_at": job.asked_at.isoformat(),
        "status": job.status.value,
        "share": job.share,
        "error": job.error,
        "result": job.result,
        "ended_at": job.ended_at.isoformat() if job.ended_at else None,
    }
