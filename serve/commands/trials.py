"""What can be tried of a configuration before anything is served. Each trial says what is wrong, or what it could not
try; none is in the way of another."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec

from demur.calibration_store.artifact import ArtifactRefused
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from demur.serve.config.access import NoAccessSecret, Unguarded, check_guarded
from demur.serve.config.file import Config
from demur.serve.config.fitted_settings import differences
from demur.serve.config.webhooks import NoSecret

AT_A_TIME = 16

IN_FORCE = "in force"

Steps = tuple[str | int, ...]


@dataclass(frozen=True)
class Wrong:
    """Something that would not work, about what these keys lead to."""

    steps: Steps
    text: str


@dataclass(frozen=True)
class NotTried:
    """Something of which nobody knows whether it works, and why."""

    text: str


@dataclass(frozen=True)
class Remark:
    """Something that works, and perhaps not as whoever wrote the file thinks."""

    text: str


@dataclass(frozen=True)
class Doubt:
    """Something that works, and that somebody should look at before it is believed."""

    text: str


Finding = Wrong | NotTried | Remark | Doubt
Trial = Callable[[], Iterator[Finding]]


def trials_of(config: Config, *, offline: bool, with_older_artifact: bool = False) -> list[Trial]:
    """Every trial. `offline`: those that would ask another machine only say that they were left out.
    `with_older_artifact`: as `demur up` would be started."""
    from demur.serve.commands.checkpoint_trial import try_examples
    from demur.serve.commands.database_trial import try_database
    from demur.serve.commands.gpu_trial import try_gpus
    from demur.serve.commands.provider_trial import try_provider

    trials: list[Trial] = [
        lambda: _secrets(config),
        lambda: _packages(config),
        lambda: _redaction(config),
        lambda: try_database(config, offline=offline),
        lambda: try_gpus(config),
    ]
    if config.access and (oidc := config.access.oidc):
        trials.append(lambda: try_provider(oidc, offline=offline))
    older = with_older_artifact or config.on_difference == "warn"
    for name, model in config.models.items():
        trials.append(lambda name=name, model=model: try_examples(name, model))  # type: ignore[misc]
        trials.append(lambda name=name: _model(config, name, offline=offline, older=older))  # type: ignore[misc]
    return trials


def findings_of(trials: Sequence[Trial], advance: Callable[[], None]) -> list[Finding]:
    """Make all trials, several at a time; return what they found, in their order."""
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        running = [threads.submit(lambda trial=trial: list(trial())) for trial in trials]  # type: ignore[misc]
        for _ in as_completed(running):
            advance()
    return [finding for one in running for finding in one.result()]


def _secrets(config: Config) -> Iterator[Finding]:
    """Who gets in, and what the environment must hold."""
    try:
        check_guarded(config.access, config.http.host)
    except Unguarded as error:
        yield Wrong(("http", "host"), str(error))
    access = config.access
    parts = {"oidc.client_secret_env": access and access.oidc, "proxy.secret_env": access and access.proxy}
    for place, part in parts.items():
        try:
            _ = part and part.secret()
        except NoAccessSecret as error:
            yield Wrong(("access", *place.split(".")), str(error).removeprefix("access: "))
    for at, webhook in enumerate(config.review.webhooks):
        try:
            webhook.check_secret()
        except NoSecret as error:
            yield Wrong(("review", "webhooks", at, *webhook.secret_key), str(error).removeprefix("review.webhooks: "))


def _packages(config: Config) -> Iterator[Finding]:
    """What does not come with demur itself."""
    for name, model in config.models.items():
        for package, command in model.host.packages:
            if "RAY_ADDRESS" in os.environ:
                yield NotTried(f"whether the cluster at RAY_ADDRESS has {package}, for {name}")
            elif find_spec(package) is None:
                yield Wrong(("models", name, "host", "kind"), f"the package {package} is missing: {command}")
    if config.access and config.access.oidc and find_spec("joserfc") is None:
        yield Wrong(("access", "oidc"), "the package joserfc is missing: pip install 'demur[oidc]'")


def _redaction(config: Config) -> Iterator[Finding]:
    from demur.serve.gateway.redaction import BadRedaction, Redaction

    try:
        _ = config.redact and Redaction(config.redact)
    except BadRedaction as error:
        yield Wrong(("redact", "function"), str(error))


def _model(config: Config, name: str, *, offline: bool, older: bool) -> Iterator[Finding]:
    """Whether a model is there, and whether what decides for it fits. A checkpoint that is not as it is configured
    would only be told once more by its artifacts."""
    from demur.serve.commands.checkpoint_trial import try_checkpoint
    from demur.serve.commands.endpoint_trial import try_endpoints
    from demur.serve.commands.model_trial import try_model
    from demur.serve.commands.remote_trial import try_remote
    from demur.serve.commands.rows_trial import try_labelled_rows

    model = config.models[name]
    is_right = True
    if model.host.is_endpoint and model.host.is_language:
        yield from try_endpoints(name, model, offline=offline)
    else:
        has_checkpoint = hasattr(model.host, "checkpoint")
        found = list(try_checkpoint(name, model, offline=offline) if has_checkpoint else try_model(name, model))
        if model.host.is_endpoint and not found:
            found += try_remote(name, model, offline=offline)
        yield from found
        is_right = not any(isinstance(finding, Wrong) for finding in found)
    yield from try_labelled_rows(config, name, model_is_right=is_right, offline=offline)
    if is_right:
        yield from _artifacts(config, name, offline=offline, older=older)


def _artifacts(config: Config, name: str, *, offline: bool, older: bool) -> Iterator[Finding]:
    """Whether what decides for a model can be read, is for this checkpoint and these labels, and was fitted with the
    settings that are configured, unless an `older` one will do."""
    from demur.serve.hosts.artifact_set import check_fits
    from demur.serve.hosts.identity import identity_if_here
    from demur.serve.local.older_artifacts import ALLOW, not_in_force

    if offline and "://" in config.artifacts:
        yield NotTried(f"the artifacts of {name} in {config.artifacts} (--offline)")
        return
    try:
        store = ArtifactStore(config.artifacts)
        standing = store.standing(name)
    except (ArtifactsUnreachable, OSError) as error:
        yield Wrong(("artifacts",), str(error))
        return
    roles = {IN_FORCE: standing.in_force, "the shadow": standing.shadow}
    if standing.canary:
        roles["the canary"] = standing.canary.artifact
    if not any(roles.values()):
        return
    why = "its checkpoint is not on this machine"
    try:
        identity = identity_if_here(config.models[name])
    except ValueError as error:  # of the checkpoint, the prompt or the ratings, each of which has a trial of its own
        identity, why = None, str(error)
    if identity is None:
        yield NotTried(f"whether the artifacts of {name} fit: {why}")
    for role, artifact in roles.items():
        if artifact is None:
            continue
        differing: Mapping[str, str] = {}
        allow = f"; {ALLOW}"
        try:
            loaded = store.load(name, artifact)
            differing = differences(name, config.models, loaded.manifest) if role == IN_FORCE else {}
            if identity is not None:
                check_fits(loaded, identity, config.models)
        except (ArtifactNotFound, ArtifactRefused, ArtifactsUnreachable, OSError) as error:
            yield Wrong(("models", name), f"{error} (it is {role})")
            allow = ""  # nothing lets such an artifact decide
        if differing:
            text = not_in_force(config, artifact, name, differing)
            yield Remark(f"{name}: {text}") if older else Wrong(_place(name, differing), f"{text}{allow}")


def _place(model: str, differing: Mapping[str, str]) -> Steps:
    """Where a difference stands; of several, or one in a later model of a cascade, the model."""
    (key, *others) = differing
    return ("models", model) if others or ":" in key else ("models", model, *key.split("."))
