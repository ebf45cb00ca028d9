"""What a client can do about artifacts, waiting in threads or with `await`."""

from typing import Protocol, TypeVar, Unpack
from uuid import UUID

from demur.client.artifact_api import ArtifactApi, CanaryBounds, FitSettings, TimeRange
from demur.client.artifact_results import ArtifactSummary, Change, Job
from demur.client.steps import Steps

T = TypeVar("T")


class _Do(Protocol):
    def __call__(self, steps: Steps[T]) -> T: ...


class _DoAsync(Protocol):
    async def __call__(self, steps: Steps[T]) -> T: ...


class Artifacts:
    """Artifacts of the models of a service, and work on them. The key needs the scope `admin`; every change needs a
    reason, which stays in the history. What changes something is sent once and never tried again."""

    def __init__(self, api: ArtifactApi, do: "_Do") -> None:
        self._api, self._do = api, do

    def of(self, model: str) -> list[ArtifactSummary]:
        """Every artifact of a model, the newest first."""
        return self._do(self._api.listed(model))

    def history(self, model: str) -> list[Change]:
        """Who changed which artifact decides, when and why; the oldest change first."""
        return self._do(self._api.history(model))

    def promote(self, model: str, artifact: str, *, why: str) -> Change:
        """Put an artifact in force."""
        return self._do(self._api.promote(model, artifact, why=why))

    def rollback(self, model: str, *, why: str) -> Change:
        """Put the artifact in force again that was in force before."""
        return self._do(self._api.rollback(model, why=why))

    def shadow(self, model: str, artifact: str | None, *, why: str) -> Change:
        """Let an artifact decide beside the one in force; None ends that."""
        return self._do(self._api.shadow(model, artifact, why=why))

    def canary(self, model: str, artifact: str | None, *, why: str, **bounds: Unpack[CanaryBounds]) -> Change:
        """Let an artifact decide a share of the traffic, within `CanaryBounds`; None ends that."""
        return self._do(self._api.canary(model, artifact, bounds, why=why))

    def fit(self, model: str, **settings: Unpack[FitSettings]) -> Job:
        """Ask for a fit on logged records whose truth is known. `wait` has its result, with the `artifact`."""
        return self._do(self._api.start(model, "fit", dict(settings)))

    def compare(self, model: str, a: str, b: str, **range: Unpack[TimeRange]) -> Job:
        """Ask for a comparison of two artifacts on logged records."""
        return self._do(self._api.start(model, "compare", {"a": a, "b": b, **range}))

    def replay(self, model: str, artifact: str, **range: Unpack[TimeRange]) -> Job:
        """Ask what an artifact would have decided about logged records."""
        return self._do(self._api.start(model, "replay", {"artifact": artifact, **range}))

    def job(self, id: str | UUID) -> Job:
        """How far a job has come."""
        return self._do(self._api.job(id))

    def wait(self, id: str | UUID, timeout: float | None = None) -> Job:
        """Wait until a job is done. Raises `JobFailed`, and `StillWaiting` after so many seconds."""
        return self._do(self._api.wait(id, timeout))


class AsyncArtifacts:
    """`Artifacts` for programs with `await`."""

    def __init__(self, api: ArtifactApi, do: "_DoAsync") -> None:
        self._api, self._do = api, do

    async def of(self, model: str) -> list[ArtifactSummary]:
        """Every artifact of a model, the newest first."""
        return await self._do(self._api.listed(model))

    async def history(self, model: str) -> list[Change]:
        """Who changed which artifact decides, when and why; the oldest change first."""
        return await self._do(self._api.history(model))

    async def promote(self, model: str, artifact: str, *, why: str) -> Change:
        """Put an artifact in force."""
        return await self._do(self._api.promote(model, artifact, why=why))

    async def rollback(self, model: str, *, why: str) -> Change:
        """Put the artifact in force again that was in force before."""
        return await self._do(self._api.rollback(model, why=why))

    async def shadow(self, model: str, artifact: str | None, *, why: str) -> Change:
        """Let an artifact decide beside the one in force; None ends that."""
        return await self._do(self._api.shadow(model, artifact, why=why))

    async def canary(self, model: str, artifact: str | None, *, why: str, **bounds: Unpack[CanaryBounds]) -> Change:
        """Let an artifact decide a share of the traffic, within `CanaryBounds`; None ends that."""
        return await self._do(self._api.canary(model, artifact, bounds, why=why))

    async def fit(self, model: str, **settings: Unpack[FitSettings]) -> Job:
        """Ask for a fit on logged records whose truth is known. `wait` has its result, with the `artifact`."""
        return await self._do(self._api.start(model, "fit", dict(settings)))

    async def compare(self, model: str, a: str, b: str, **range: Unpack[TimeRange]) -> Job:
        """Ask for a comparison of two artifacts on logged records."""
        return await self._do(self._api.start(model, "compare", {"a": a, "b": b, **range}))

    async def replay(self, model: str, artifact: str, **range: Unpack[TimeRange]) -> Job:
        """Ask what an artifact would have decided about logged records."""
        return await self._do(self._api.start(model, "replay", {"artifact": artifact, **range}))

    async def job(self, id: str | UUID) -> Job:
        """How far a job has come."""
        return await self._do(self._api.job(id))

    async def wait(self, id: str | UUID, timeout: float | None = None) -> Job:
        """Wait until a job is done. Raises `JobFailed`, and `StillWaiting` after so many seconds."""
        return await self._do(self._api.wait(id, timeout))
