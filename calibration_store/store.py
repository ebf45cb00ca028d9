"""Where artifacts are kept, and which of them decide for each model.

    <url>/<model>/artifacts/<name>/arrays.safetensors   written first
    <url>/<model>/artifacts/<name>/manifest.json        written last: with it the artifact is there
    <url>/<model>/promotions/00000001.json              one file for each change; the highest number tells the standing

Changes are only ever added, each under a number that can be taken once, so the history is the pointer and two people
who change something at the same moment both end up in it: whoever comes second makes the change to what the first one
left. Going back is one more entry, never one less.
"""

from collections.abc import Callable
from datetime import datetime

from demur.calibration_store.artifact import Artifact, ArtifactFiles, ArtifactRefused, unpack
from demur.calibration_store.folder import Folder
from demur.calibration_store.history import Change, change_between, line_in_force, read_change
from demur.calibration_store.standing import (
    Canary,
    RoleRefused,
    Standing,
    after_canary,
    after_canary_stop,
    after_promotion,
    after_shadow,
    after_shadow_stop,
)

Clock = Callable[[], datetime]


class ArtifactNotFound(LookupError):
    """No such artifact, or none in force. Fit one with `demur fit`, put it in force with `demur artifacts promote`."""


class NothingToRollBack(LookupError):
    """No other artifact was in force before the present one. Promote the one that is wanted by its name."""


class ArtifactStore:
    """A folder, or anything else that fsspec can address by URL. Every method may raise `ArtifactsUnreachable`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._folder = Folder(url)

    def save(self, model: str, files: ArtifactFiles) -> None:
        """Store the files. An artifact that is there already has this very content and is left alone."""
        folder = f"{model}/artifacts/{files.name}"
        if not self._folder.exists(f"{folder}/manifest.json"):
            self._folder.write(f"{folder}/arrays.safetensors", files.arrays)
            self._folder.write(f"{folder}/manifest.json", files.manifest)

    def load(self, model: str, name: str) -> Artifact:
        """Return a checked artifact, or raise `ArtifactNotFound` or `ArtifactRefused`."""
        folder = f"{model}/artifacts/{name}"
        contents = {}
        for file in ("manifest.json", "arrays.safetensors"):
            try:
                contents[file] = self._folder.read(f"{folder}/{file}")
            except FileNotFoundError:
                if self._folder.exists(folder):
                    raise ArtifactRefused(f"artifact {name} is half written: {file} is missing; fit it again") from None
                known = ", ".join(self.names(model)) or "none"
                raise ArtifactNotFound(
                    f"there is no artifact {name!r} for model {model!r} in {self.url} (there: {known})"
                ) from None
        return unpack(
            ArtifactFiles(name=name, manifest=contents["manifest.json"], arrays=contents["arrays.safetensors"])
        )

    def names(self, model: str) -> list[str]:
        """Names of all stored artifacts of a model, half-written ones included."""
        return self._folder.children(f"{model}/artifacts")

    def promote(self, model: str, name: str, *, by: str, why: str, clock: Clock) -> Change:
        """Put an artifact in force. It is read and checked first.

        If it was the shadow or the canary, it is that no more. The canary of an artifact that this one replaces ends
        as well; a shadow stays.
        """
        self.load(model, name)
        return self._append(
            model, lambda now: after_promotion(now, name), action="promote", artifact=name, by=by, why=why, at=clock()
        )

    def rollback(self, model: str, *, by: str, why: str, clock: Clock) -> Change:
        """Put the artifact in force again that was in force before the present one. It is read and checked first.

        What was rolled back does not come back by rolling back once more: that goes one further. Where to is settled
        by what is in force at the call. Whoever rolls back the same artifact at the same moment arrives at the same
        one, and not one further than either of them meant. Shadow and canary fare as when it is promoted.
        """
        line = line_in_force(self.history(model))
        if not line:
            raise NothingToRollBack(f"no artifact was ever in force for model {model!r} in {self.url}")
        if len(line) == 1:
            raise NothingToRollBack(
                f"there is nothing to roll back to for model {model!r}: no other artifact was in force before"
                f" {line[0]}; put another one in force with `demur artifacts promote`"
            )
        earlier, present = line[-2:]
        self.load(model, earlier)
        return self._append(
            model,
            lambda now: after_promotion(now, earlier),
            action="rollback",
            artifact=earlier,
            by=by,
            why=why,
            at=clock(),
            rolled_back=present,
        )

    def shadow(self, model: str, name: str | None, *, by: str, why: str, clock: Clock) -> Change:
        """Let an artifact decide in the shadow of the one in force, in the place of another shadow; None ends that.

        It is read and checked first. Raises `RoleRefused` where nothing is in force, where this one has another role,
        and where there is no shadow to end.
        """
        if name is None:
            return self._append(
                model, after_shadow_stop, action="stop_shadow", artifact=None, by=by, why=why, at=clock()
            )
        self.load(model, name)
        return self._append(
            model, lambda now: after_shadow(now, name), action="shadow", artifact=name, by=by, why=why, at=clock()
        )

    def start_canary(
        self,
        model: str,
        name: str,
        *,
        share: float,
        held_between: tuple[float, float],
        max_risk: float | None,
        by: str,
        why: str,
        clock: Clock,
    ) -> Change:
        """Let an artifact decide a share of the traffic, in the place of another canary. It is read and checked first.

        The same artifact may be started again, with another share; it is then judged by what comes from now on. Raises
        `RoleRefused` where nothing is in force or this one has another role, `InvalidInput` for bounds that are none.
        """
        at = clock()
        canary = Canary(artifact=name, share=share, held_between=held_between, max_risk=max_risk, since=at.isoformat())
        self.load(model, name)
        return self._append(
            model, lambda now: after_canary(now, canary), action="canary", artifact=name, by=by, why=why, at=at
        )

    def stop_canary(self, model: str, *, by: str, why: str, clock: Clock, only: str | None = None) -> Change | None:
        """End the canary; the artifact in force decides all traffic again.

        With `only`, this artifact is stopped or nothing: None comes back if it is not the canary any more. Without,
        `RoleRefused` where there is no canary.
        """
        try:
            return self._append(
                model,
                lambda now: after_canary_stop(now, only=only),
                action="stop_canary",
                artifact=None,
                by=by,
                why=why,
                at=clock(),
            )
        except RoleRefused:
            if only is None:
                raise
            return None

    def standing(self, model: str) -> Standing:
        """Which artifacts decide. Cheap, for hosts ask every other second: one folder is listed and one file read."""
        return self._latest(model)[1]

    def history(self, model: str) -> list[Change]:
        """All changes of a model, oldest first."""
        folder = f"{model}/promotions"
        return [
            change
            for file in _numbered(self._folder.children(folder))
            if (change := read_change(self._folder.read(f"{folder}/{file}")))
        ]

    def name_in_force(self, model: str) -> str | None:
        """Name of the artifact in force, or None."""
        return self.standing(model).in_force

    def in_force(self, model: str) -> Artifact:
        """Return the artifact in force, checked."""
        name = self.name_in_force(model)
        if name is None:
            raise ArtifactNotFound(
                f"no artifact is in force for model {model!r} in {self.url}; run"
                f" `demur fit {model} --data FILE --promote`"
            )
        return self.load(model, name)

    def _latest(self, model: str) -> tuple[int, Standing]:
        """The highest number that is taken, and the standing after the last change that can be read."""
        folder = f"{model}/promotions"
        files = _numbered(self._folder.children(folder))
        taken = _number(files[-1]) if files else 0
        for file in reversed(files):
            if change := read_change(self._folder.read(f"{folder}/{file}")):
                return taken, change.standing
        return taken, Standing()

    def _append(
        self,
        model: str,
        step: Callable[[Standing], Standing],
        *,
        action: str,
        artifact: str | None,
        by: str,
        why: str,
        at: datetime,
        rolled_back: str | None = None,
    ) -> Change:
        """Write a change under the next number that is free, made to the standing that is found there."""
        while True:
            taken, before = self._latest(model)
            change = change_between(
                before,
                step(before),
                number=taken + 1,
                action=action,
                artifact=artifact,
                at=at.isoformat(),
                by=by,
                why=why,
                rolled_back=rolled_back,
            )
            if self._folder.create(f"{model}/promotions/{change.number:08}.json", change.as_json()):
                return change
            # somebody else took this number; theirs came first


def _numbered(files: list[str]) -> list[str]:
    return sorted(filter(_number, files), key=_number)


def _number(file: str) -> int:
    stem = file.removesuffix(".json")
    return int(stem) if stem.isdigit() else 0
