"""An artifact: one fitted selector with what it was fitted on, immutable, named by its content."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load, save

from demur.calibration_store.parts import UnknownPart, put_together, take_apart
from demur.policies.promise import as_it_holds
from demur.policies.selector import Selector
from demur.uncertainty.checks import InvalidInput

FORMAT = 1
"""Version of the layout. A new layout gets a new number; the reader keeps understanding the old ones."""


class ArtifactRefused(ValueError):
    """An artifact must not be used. The message says which one, why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """What a selector is bound to: the very weights, and the very labels in their order."""

    checkpoint: str
    """Its name, for people: what it is bound to is the fingerprint."""

    fingerprint: str
    """SHA-256 over the files of the checkpoint."""

    labels: tuple[str, ...]
    """Empty where there are so many that they stand in a file: `labels_sha256` then tells them."""

    labels_sha256: str = ""
    """Of the labels in their order, where they stand in a file; else empty."""

    parents_sha256: str = ""
    """Of the label tree; empty where there is none."""

    left_out: frozenset[str] = frozenset()
    """Parameters, such as `temperature=0`, that the endpoint of the model refused: it was fitted without them."""

    def as_json(self) -> dict[str, Any]:
        tree = {"parents_sha256": self.parents_sha256} if self.parents_sha256 else {}
        if self.labels_sha256:
            tree["labels_sha256"] = self.labels_sha256
        left_out = {"left_out": sorted(self.left_out)} if self.left_out else {}
        fitted = {"checkpoint": self.checkpoint, "fingerprint": self.fingerprint, "labels": list(self.labels)}
        return {**fitted, **tree, **left_out}


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A fitted selector and its manifest."""

    name: str
    """The model, a dash, and the first digits of the manifest's SHA-256."""

    manifest: Mapping[str, Any]
    selector: Selector
    further: Mapping[str, Selector] = field(default_factory=dict)
    """In a cascade, the models that are asked after this one, in turn: what was fitted for each."""

    def selector_of(self, model: str) -> Selector:
        """What decides about the output of a model: this artifact's own, or one of its cascade."""
        return self.further.get(model, self.selector)

    def left_out_of(self, model: str) -> frozenset[str]:
        """Parameters that the endpoint of a model refused while this was fitted."""
        return frozenset(self._fitted_for(model).get("left_out", ()))

    def check_fits(self, identity: ModelIdentity, model: str = "") -> None:
        """Raise `ArtifactRefused` unless this was fitted for exactly this model, or for this `model` of its cascade.

        What an endpoint refuses is learnt while it is asked, so `left_out` is looked at then, row by row.
        """
        fitted = self._fitted_for(model)
        if fitted["fingerprint"] != identity.fingerprint:
            raise ArtifactRefused(
                f"artifact {self.name} was fitted for another checkpoint than {identity.checkpoint};"
                " fit a new one with `demur fit`"
            )
        if tuple(fitted["labels"]) != identity.labels:
            raise ArtifactRefused(
                f"artifact {self.name} was fitted for another label set ({len(fitted['labels'])} labels,"
                f" {fitted['labels'][:3]} ...); fit a new one with `demur fit`"
            )
        if fitted.get("labels_sha256", "") != identity.labels_sha256:
            raise ArtifactRefused(
                f"artifact {self.name} was fitted for another file of labels; fit a new one with `demur fit`"
            )
        if fitted.get("parents_sha256", "") != identity.parents_sha256:
            raise ArtifactRefused(
                f"artifact {self.name} was fitted for another label tree; fit a new one with `demur fit`"
            )

    def _fitted_for(self, model: str) -> Mapping[str, Any]:
        """The identity of the model, or of one of its cascade, as the manifest holds it."""
        fitted: Mapping[str, Any] = self.manifest["model"]
        return self.manifest["cascade"][model]["model"] if model in self.further else fitted


@dataclass(frozen=True, kw_only=True)
class ArtifactFiles:
    """An artifact as bytes, ready to be stored."""

    name: str
    manifest: bytes
    arrays: bytes


def pack(
    selector: Selector,
    *,
    model: str,
    identity: ModelIdentity,
    facts: Mapping[str, Any],
    further: Mapping[str, tuple[Selector, ModelIdentity]] = {},
) -> ArtifactFiles:
    """Return the files of an artifact. `facts` is what else the manifest should tell: data, report, versions."""
    description, arrays = take_apart(selector)
    cascade = {}
    for name, (following, its_identity) in further.items():
        its_description, its_arrays = take_apart(following, place=f"cascade.{name}.")
        cascade[name] = {"model": its_identity.as_json(), "selector": its_description}
        arrays |= its_arrays
    blob = save(arrays)
    manifest = {
        "format": FORMAT,
        "name": model,
        "model": identity.as_json(),
        "selector": description,
        **({"cascade": cascade} if cascade else {}),
        "arrays": {"sha256": hashlib.sha256(blob).hexdigest(), "bytes": len(blob)},
        **facts,
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False).encode()
    return ArtifactFiles(name=f"{model}-{digest_of(text)}", manifest=text, arrays=blob)


def unpack(files: ArtifactFiles) -> Artifact:
    """Check the files against their name and each other, and return the artifact."""
    name = files.name
    manifest = _checked_manifest(files)
    arrays = manifest["arrays"]
    if len(files.arrays) < arrays["bytes"]:
        raise ArtifactRefused(
            f"artifact {name} is half written: its arrays have {len(files.arrays)} of {arrays['bytes']} bytes;"
            " fit it again"
        )
    if hashlib.sha256(files.arrays).hexdigest() != arrays["sha256"]:
        raise ArtifactRefused(f"artifact {name} was altered: its arrays are not those that were fitted; fit it again")
    try:
        loaded = load(files.arrays)
        selector = put_together(manifest["selector"], loaded)
        further = {model: put_together(step["selector"], loaded) for model, step in manifest.get("cascade", {}).items()}
    except (UnknownPart, SafetensorError, InvalidInput) as error:
        raise ArtifactRefused(f"artifact {name} cannot be read by this demur: {error}") from None
    return Artifact(name=name, manifest=manifest, selector=selector, further=further)


def _checked_manifest(files: ArtifactFiles) -> dict[str, Any]:
    name = files.name
    if digest_of(files.manifest) == name.rsplit("-", 1)[-1]:
        manifest: dict[str, Any] = json.loads(files.manifest)
        if manifest["format"] != FORMAT:
            raise ArtifactRefused(
                f"artifact {name} has format {manifest['format']}, this demur reads {FORMAT}; use a newer demur"
            )
        if "promises" in manifest:
            manifest["promises"] = [as_it_holds(one) for one in manifest["promises"]]
        return manifest
    try:
        json.loads(files.manifest)
    except ValueError:
        raise ArtifactRefused(f"artifact {name} is half written: its manifest breaks off; fit it again") from None
    raise ArtifactRefused(f"artifact {name} was altered: its manifest does not match its name; fit it again")


def digest_of(manifest: bytes) -> str:
    return hashlib.sha256(manifest).hexdigest()[:16]
