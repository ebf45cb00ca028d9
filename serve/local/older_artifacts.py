"""Artifacts in force that were fitted with other settings than are configured now."""

from collections.abc import Mapping

from demur.calibration_store.artifact import ArtifactRefused
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from demur.serve.config.file import Config
from demur.serve.config.fitted_settings import differences, in_words

ALLOW = (
    "to serve with what was fitted, run `demur up --with-older-artifact`, or set `on_difference: warn` at the top of"
    " the file"
)


class ConfigurationNotInForce(RuntimeError):
    """What is configured is not what would decide. Fit the models anew, or say that the older artifacts are wanted."""


def check_artifacts(config: Config, *, allowed: bool) -> list[str]:
    """Return a sentence for each model whose artifact in force was fitted with other settings than are configured.

    Raises `ConfigurationNotInForce` with these sentences unless older artifacts are allowed. A model whose artifact
    cannot be read is left out: its host says why.
    """
    store = ArtifactStore(config.artifacts)
    found = []
    for name in config.models:
        try:
            artifact = store.in_force(name)
        except (ArtifactNotFound, ArtifactRefused, ArtifactsUnreachable):
            continue
        if differing := differences(name, config.models, artifact.manifest):
            found.append(f"model {name!r}: {not_in_force(config, artifact.name, name, differing)}")
    if found and not allowed:
        raise ConfigurationNotInForce(f"{'. '.join(found)}. {ALLOW[0].upper()}{ALLOW[1:]}")
    return found


def not_in_force(config: Config, artifact: str, model: str, differing: Mapping[str, str]) -> str:
    """Return what is configured otherwise than the artifact in force was fitted, and how to put it in force."""
    data = "" if config.models[model].calibration.data else " --data FILE"
    return (
        f"artifact {artifact} is in force, which was fitted with other settings than are configured:"
        f" {in_words(differing)}; to put the configuration in force, run `demur fit {model}{data} --promote`"
    )
