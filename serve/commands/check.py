"""`demur check`: what a configuration would serve, and whether that would work."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import Progress

from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactStore
from demur.serve.commands.score_cost import costs
from demur.serve.commands.terminal import out
from demur.serve.commands.trials import Doubt, NotTried, Remark, Wrong, findings_of, trials_of
from demur.serve.config.access import reach_in_words
from demur.serve.config.file import BadConfig, Config, ModelConfig
from demur.serve.config.mistake import in_order
from demur.serve.config.task import TaskConfig
from demur.serve.configuration import read_config
from demur.traffic.outcomes import rule_in_words


def check_file(path: Path, *, offline: bool, with_older_artifact: bool = False) -> None:
    """Say what would be served and what could not be tried, and at the end that the file is valid. Raises `BadConfig`
    with everything that is wrong.

    An artifact in force that was fitted with other settings than are configured is wrong, unless `with_older_artifact`,
    or the configuration, allows it."""
    read = read_config(path)
    for line in overview(read.config):
        out.print(line)
    trials = trials_of(read.config, offline=offline, with_older_artifact=with_older_artifact)
    with Progress(console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("trying what can be tried", total=len(trials))
        with _quiet("demur.language"):
            findings = findings_of(trials, lambda: bar.advance(task))
    for finding in findings:
        if isinstance(finding, NotTried):
            out.print(f"not tried: {finding.text}")
        elif isinstance(finding, Remark):
            out.print(f"note: {finding.text}")
    wrong = [read.document.mistake(one.steps, one.text) for one in findings if isinstance(one, Wrong)]
    if wrong:
        raise BadConfig.of(path, in_order(wrong))
    for finding in findings:
        if isinstance(finding, Doubt):
            out.print(f"to be checked by you: {finding.text}")
    out.print(f"{path} is valid")


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep a logger from warning of what is said here in any case."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def overview(config: Config) -> Iterator[str]:
    """What would be served, in lines."""
    http = config.http
    yield f"http://{http.host}:{http.port}: {reach_in_words(config.access, http.host)}"
    for name, model in config.models.items():
        yield from _of_model(name, model, _in_force(config, name))
    if config.gateway.most_replicas > 1:
        yield f"  gateway: {config.gateway.replicas_in_words}"
    yield f"  {config.audit.words}"
    for webhook in config.review.webhooks:
        which = ", ".join(webhook.models or ("all models",))
        yield f"  told of what is {', '.join(webhook.events)}, of {which}: {webhook.key}"
    for n, rule in enumerate(config.review.rules, start=1):
        yield f"  review rule {n}: {rule.words}"


def _of_model(name: str, model: ModelConfig, in_force: str) -> Iterator[str]:
    yield f"  {name}: {_labels(model.task)}, {model.host.model_name}, artifact in force: {in_force}"
    if model.host.most_replicas > 1:
        yield f"    {model.host.replicas_in_words}"
    for score, cost in costs(model).items():
        yield f"    {score}: {cost.words}"
    if model.control:
        yield f"    control: {model.control.words}"
    if precedence := model.outcomes.precedence:
        yield f"    of several outcomes counts: {rule_in_words(precedence)}"
    if model.watched:
        yield f"    {model.watched.words}"


def _in_force(config: Config, name: str) -> str:
    try:
        return ArtifactStore(config.artifacts).name_in_force(name) or "none yet"
    except (ArtifactsUnreachable, OSError):
        return "unknown"


def _labels(task: TaskConfig) -> str:
    if task.tree is None:
        return f"{len(task.labels)} labels"
    text = f"{len(task.labels)} labels in a tree of {task.tree.roots} roots and depth {task.tree.depth}"
    if added := task.labels[len(task.outputs) :]:
        names = f"{', '.join(added[:5])}{', ...' if len(added) > 5 else ''}"
        text += f" ({len(added)} without an output of the model: {names})"
    return text
