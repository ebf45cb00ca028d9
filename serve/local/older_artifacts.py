"""Artifacts in force that were fitted with other settings than are configured now."""

from calibration_store.artifact import ArtifactRefused
from calibration_store.folder import ArtifactsUnreachable
from calibration_store.store import ArtifactNotFound, ArtifactStore
from serve.config.file import Config
from serve.config.fitted_settings import differences, in_words


class ConfigurationNotInForce(RuntimeError):
    """What is configured is not what would decide. Fit the models anew, or say that the older artifacts are wanted."""


def older_artifacts(config: Config) -> dict[str, str]:
    """Return what differs, in one sentence for each model whose artifact in force was fitted with other settings.

    A model whose artifact cannot be read is left out: its host says why.
    """
    store = ArtifactStore(config.artifacts)
    found = {}
    for name, model in config.models.items():
        try:
            artifact = store.in_force(name)
        except (ArtifactNotFound, ArtifactRefused, ArtifactsUnreachable):
            continue
        if differing := differences(name, config.models, artifact.manifest):
            data = "" if model.calibration.data else " --data FILE"
            found[name] = (
                f"model {name!r}: artifact {artifact.name} is in force, which was fitted with other settings than are"
                f" configured: {in_words(differing)}; to put the configuration in force, run"
                f" `demur fit {name}{data} --promote`"
            )
    return found


def check_artifacts(config: Config, *, allowed: bool) -> list[str]:
    """Return these sentences. Raises `ConfigurationNotInForce` with them unless older artifacts are allowed."""
    found = list(older_artifacts(config).values())
    if found and not allowed:
        raise ConfigurationNotInForce(
            f"{'. '.join(found)}. To serve with what was fitted, run `demur up --with-older-artifact`, or set"
            " `on_difference: warn`"
        )
    return found
