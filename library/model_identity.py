"""Which model an artifact is for: what a service will find when it loads the model."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from demur.calibration_store.artifact import ModelIdentity

GIVEN = "given"
"""Predictions are made elsewhere and sent to the service: there is no file."""

BYTES_AT_A_TIME = 1 << 20


def identity_of(model: str | Path | Mapping[str, str] | ModelIdentity, labels: Sequence[str]) -> ModelIdentity:
    """Return the identity of the model that a service runs: `given`, for `host: {kind: given}` without a `model` and a
    `version`; these two, as the configuration has them; the path of the file that it loads; or an identity that is
    known already.

    Raise `ValueError` where it is none of these, where there is no such file, where a name is not one of the two, or
    where the identity has other labels.
    """
    if isinstance(model, Mapping):
        if unknown := sorted(set(model) - {"model", "version"}):
            raise ValueError(f"identity: it has `model` and `version`, and not {', '.join(map(repr, unknown))}")
        name, version = model.get("model", GIVEN), model.get("version", "")
        checkpoint = f"{name} {version}".strip()
        return ModelIdentity(checkpoint=checkpoint, fingerprint=given_fingerprint(name, version), labels=tuple(labels))
    if isinstance(model, ModelIdentity):
        if model.labels != tuple(labels):
            raise ValueError(
                f"identity: it has the labels {', '.join(model.labels[:10])}, and the classifier has"
                f" {', '.join(labels[:10])}"
            )
        return model
    if model == GIVEN:
        return ModelIdentity(checkpoint=GIVEN, fingerprint=given_fingerprint(GIVEN, ""), labels=tuple(labels))
    if not isinstance(model, str | Path):
        raise ValueError(
            f"identity: {type(model).__name__} is no identity; give the path of the model's file that the service will"
            f" load (save the model first, such as with skops.io.dump), or {GIVEN!r} where predictions are made"
            " elsewhere"
        )
    path = Path(model)
    if not path.is_file():
        raise ValueError(
            f"identity: there is no file {path}; give the path of the model's file that the service will load, or"
            f" {GIVEN!r} where predictions are made elsewhere"
        )
    return ModelIdentity(checkpoint=path.name, fingerprint=_sha256(path), labels=tuple(labels))


def given_fingerprint(model: str, version: str, *further: str) -> str:
    """Return what an artifact is bound to where predictions are made elsewhere: the model's name and version, as
    somebody says them, and how its replies are read, if it writes any."""
    return hashlib.sha256("\0".join([GIVEN, model, version, *further]).encode()).hexdigest()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BYTES_AT_A_TIME):
            digest.update(block)
    return digest.hexdigest()
