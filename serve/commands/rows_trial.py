"""How often a model is right about its labelled rows, in words, before anything is fitted on them."""

from collections.abc import Iterator
from pathlib import Path

from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactStore
from demur.serve.commands.checkpoint_trial import try_calibration
from demur.serve.commands.starting.yaml_text import as_yaml
from demur.serve.commands.trials import Doubt, Finding, NotTried, Remark, Wrong
from demur.serve.config.file import Config, ModelConfig
from demur.serve.fitting.rerun import limits_of_past
from demur.serve.fitting.tried_rows import TriedRows, try_rows
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.trial_process import ProcessEnded

FEWEST = 20
"""With fewer rows, being right seldom is no reason for doubt."""

MOST_LISTED = 10
"""Labels of an order that is written out."""

MOST_PAIRS = 3
"""Labels that are told to stand for others."""


def try_labelled_rows(config: Config, name: str, *, model_is_right: bool, offline: bool) -> Iterator[Finding]:
    """Whether the labelled rows can be fitted on where the first start will do so; and, of a model in which nothing is
    wrong, how often it is right about some of them."""
    found = list(try_calibration(config, name, offline=offline))
    yield from found
    if not model_is_right or found or not _can_be_run(config.models[name]):
        return
    model = config.models[name]
    data = model.calibration.data
    if data is None or (offline and "://" in config.artifacts):
        return
    try:
        if ArtifactStore(config.artifacts).name_in_force(name) is not None:
            return  # its report has told how often the model was right
    except (ArtifactsUnreachable, OSError):
        return
    if offline and model.host.is_endpoint:
        yield NotTried(f"how often {name} is right about rows of {data} (--offline)")
        return
    yield from how_right(config, name, checked=True)


def how_right(config: Config, name: str, *, checked: bool = False) -> Iterator[Finding]:
    """How often a model is right about some of its labelled rows. `checked`: it has passed its check."""
    model = config.models[name]
    data = model.calibration.data
    assert data is not None
    try:
        tried = try_rows(model, data, limits_of_past(config), checked=checked)
    except BadModel as error:
        yield Wrong(("models", name, "calibration", "data"), str(error))
    except ProcessEnded as error:
        yield NotTried(f"how often {name} is right about rows of {data}: the model {error}")
    else:
        yield Remark(f"{name}: {rightness(model, tried, data)}")
        if tried.why_unreadable:
            yield Remark(f"{name}: nothing could be read about {tried.unreadable:,} of them; {tried.why_unreadable}")
        yield from (Doubt(f"{name}: {doubt}") for doubt in doubts_of(tried))


def _can_be_run(model: ModelConfig) -> bool:
    """Whether a few rows cost little, and right labels are known without a text being written. Where a checkpoint lies
    on a hub, nobody waits for it here."""
    if model.host.is_language or model.task.kind in ("choice", "generate"):
        return False
    checkpoint = getattr(model.host, "checkpoint", None)
    return checkpoint is None or Path(checkpoint).is_dir()


def rightness(model: ModelConfig, tried: TriedRows, data: Path) -> str:
    """Return how often the model is right, beside how often one answer for all rows would be."""
    part = f"{tried.asked:,} rows" if tried.asked == tried.rows else f"{tried.asked:,} rows, drawn from {tried.rows:,},"
    if tried.asked == tried.unreadable:
        return f"nothing could be read from what the model says about {part} of {data}"
    share = tried.always_right / tried.asked
    if not model.task.exclusive and not model.task.sparse:
        said = ", ".join(map(repr, tried.always[:MOST_LISTED])) or "no label"
        return (
            f"about {part} of {data}, the labels said are right to {tried.right / tried.asked:.0%} on average"
            f" ({model.right}); {said} said of every row would be to {share:.0%}"
        )
    what = "the model's first candidate" if model.task.sparse and not model.task.exclusive else "the model"
    return (
        f"{what} is right for {tried.right:,.0f} of {part} of {data} ({tried.right / tried.asked:.0%}); always saying"
        f" {tried.always[0]!r}, the commonest label, would be for {tried.always_right:,.0f} ({share:.0%})"
    )


def doubts_of(tried: TriedRows) -> Iterator[str]:
    """Yield what somebody should look at before the model is believed: it is no better than one answer for all rows,
    or its labels seem to stand in another order."""
    if tried.better:
        yield (
            f"what each label means: {tried.better_right:,} of {tried.asked:,} rows would be right if"
            f" {_meaning(tried)}{_way(tried)}"
        )
    elif not tried.beats_one_label and tried.asked >= FEWEST:
        columns = (
            "the columns may stand in another order than in training (host.input.columns, unless the model's file names"
            " them), or "
            if tried.is_table
            else ""
        )
        yield (
            "whether the model is wired as it was trained, since one answer for all rows would be right at least as"
            f" often: {columns}the labels may be misnamed (task.labels{'' if tried.in_order else ', task.rename'})"
        )


def _meaning(tried: TriedRows) -> str:
    moved = [(old, new) for old, new in zip(tried.labels, tried.better, strict=True) if old != new]
    if len(moved) == 2:
        return f"{moved[0][0]!r} and {moved[0][1]!r} changed places"
    told = " and ".join(f"what is called {old!r} were {new!r}" for old, new in moved[:MOST_PAIRS])
    return f"{told}{', and so on' if len(moved) > MOST_PAIRS else ''}"


def _way(tried: TriedRows) -> str:
    if not tried.in_order:
        return "; see how the model's outputs are named"
    if len(tried.better) > MOST_LISTED:
        return "; put task.labels in the order of the model's outputs"
    return f"; write `labels: {as_yaml(list(tried.better))}` if that is the order of the model's outputs"
