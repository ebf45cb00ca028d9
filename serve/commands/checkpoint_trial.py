"""Whether the files of a model are there and can be used: its checkpoint, its examples, its labelled rows."""

from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError, safe_open

from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactStore
from demur.serve.commands.adapter_trial import why_no_fit
from demur.serve.commands.trials import Finding, NotTried, Steps, Wrong
from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.config.checkpoint_labels import folder_here, is_path, no_folder
from demur.serve.config.file import Config, ModelConfig
from demur.serve.config.hosts.classifier import ClassifierHost
from demur.serve.config.hosts.language import TransformersHost, VllmHost
from demur.serve.fitting.labelled_rows import check_read, truth_of
from demur.serve.fitting.rerun import row_reader
from demur.serve.hosts.checkpoint import check_suits, check_writes, classifier_facts, not_handed_out
from demur.serve.hosts.language.anchors import BadRatings
from demur.serve.hosts.language.kind import check_ratings, check_writer
from demur.traffic.dataset import read_labelled_file
from demur.traffic.table_file import BadDataFile

LFS_POINTER = b"version https://git-lfs"
"""How a file begins that git-lfs has not fetched yet."""

WEIGHTS = ("*.safetensors", "*.bin")
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.*", "*.model")


KEYS = (
    "task.labels",
    "task.kind",
    "task.rename",
    *("host.checkpoint", "host.adapter", "host.input", "host.zero_shot", "host.reasoning_parser"),
)
"""With which a complaint about a checkpoint may begin."""

DESCRIPTION = ("config.json", "tokenizer_config.json", "chat_template.*")
"""What of a checkpoint says what it is."""


def try_checkpoint(name: str, model: ModelConfig, *, offline: bool) -> Iterator[Finding]:
    """Whether a checkpoint is there, is for this task, has these labels, and has weights that are whole."""
    host, place = model.host, ("models", name)
    assert isinstance(host, ClassifierHost | TransformersHost | VllmHost)
    try:
        revision = host.revision if isinstance(host, ClassifierHost) else None
        folder = folder_here(host.checkpoint, revision)
        if folder is None and is_path(host.checkpoint):
            raise BadCheckpoint(f"host.checkpoint: {no_folder(host.checkpoint)}")
        on_hub = not Path(host.checkpoint).is_dir()
        if on_hub and offline:
            yield NotTried(f"the checkpoint of {name}, {host.checkpoint}, which is no folder (--offline)")
            return
        _check_suits(model, _described_by_hub(host.checkpoint, revision) if on_hub else Path(host.checkpoint))
    except BadCheckpoint as error:
        yield _wrong(place, error)
        return
    if on_hub:
        yield NotTried(f"the weights of {name}: {host.checkpoint} comes whole from its hub when it is first needed")
        return
    takes_pictures = isinstance(host, ClassifierHost) and classifier_facts(host, Path(host.checkpoint)).kind == "image"
    for why in _broken(Path(host.checkpoint), takes_pictures=takes_pictures):
        yield Wrong((*place, "host", "checkpoint"), why)
    if host.adapter is not None and (why := why_no_fit(host.adapter, Path(host.checkpoint))):
        yield Wrong((*place, "host", "adapter"), why)


def _check_suits(model: ModelConfig, folder: Path) -> None:
    """Raise `BadCheckpoint` unless what lies in this folder is a checkpoint for the model's task."""
    if isinstance(model.host, ClassifierHost):
        check_suits(model.host, model.task, folder)
    else:
        assert isinstance(model.host, TransformersHost | VllmHost)
        check_writes(str(folder))
        check_writer(model.host)


def try_examples(name: str, model: ModelConfig) -> Iterator[Finding]:
    """Whether the examples of a prompt fit the task, and a tournament has ratings."""
    place = ("models", name)
    if not model.host.is_language:
        return
    try:
        check_ratings(model)
    except BadRatings as error:
        yield Wrong((*place, "host", "tournament", "ratings"), str(error))
    few_shot = model.prompt.few_shot
    if few_shot is None or not isinstance(few_shot.examples, Path):
        return
    from demur.serve.hosts.language.few_shot import examples_of
    from demur.serve.hosts.language.forms import UnfitExample, form_of
    from demur.serve.hosts.language.prompts import Prompts

    try:
        form = few_shot.form(model.calibration.form)
        examples_of(few_shot.examples, form_of(model, Prompts(model)), form)
    except (BadDataFile, UnfitExample) as error:
        text = str(error).removeprefix("few_shot.examples: ")
        yield Wrong((*place, "prompt", "few_shot", "examples"), text)


def try_calibration(config: Config, name: str, *, offline: bool) -> Iterator[Finding]:
    """Whether the labelled rows are fit to be fitted on, where the first start will do so."""
    model = config.models[name]
    data = model.calibration.data
    if data is None or (offline and "://" in config.artifacts):
        return
    try:
        if ArtifactStore(config.artifacts).name_in_force(name) is None:
            rows = read_labelled_file(data, model.file_form)
            truth_of(rows, model.task)
            if read := row_reader(config, model):
                check_read(rows, read)
    except BadDataFile as error:
        yield Wrong(("models", name, "calibration", "data"), str(error))
    except (ArtifactsUnreachable, OSError):
        return  # said where artifacts are tried


def _described_by_hub(checkpoint: str, revision: str | None) -> Path:
    """The folder in which a model on a hub describes itself, without its weights. Raises `BadCheckpoint`."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(checkpoint, revision=revision, allow_patterns=list(DESCRIPTION)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise BadCheckpoint(f"host.checkpoint: {not_handed_out(checkpoint, error, revision)}") from None


def _broken(folder: Path, *, takes_pictures: bool) -> Iterator[str]:
    """What keeps a folder from being loaded, as far as that shows without loading it."""
    weights = [path for pattern in WEIGHTS for path in sorted(folder.glob(pattern))]
    if not weights:
        yield f"{folder} holds no weights ({' or '.join(WEIGHTS)}); copy the whole checkpoint"
    for path in weights:
        with path.open("rb") as file:
            begins = file.read(len(LFS_POINTER))
        if begins == LFS_POINTER:
            yield f"{path} only points to weights; fetch them with `git lfs pull`"
        elif path.suffix == ".safetensors" and (why := _unreadable(path)):
            yield f"{path} cannot be read ({why}); copy it again"
    if takes_pictures:
        if not (folder / "preprocessor_config.json").is_file():
            yield f"{folder} has no preprocessor_config.json, without which nobody knows how pictures go in"
    elif not any(any(folder.glob(name)) for name in TOKENIZERS):
        yield f"{folder} has no tokenizer ({' or '.join(TOKENIZERS)}); save it there with `save_pretrained`"


def _unreadable(path: Path) -> str:
    try:
        with safe_open(path, framework="np"):
            return ""
    except (SafetensorError, OSError) as error:
        return str(error).split("\n")[0]


def _wrong(place: Steps, error: BadCheckpoint) -> Wrong:
    """A checkpoint's fault in its place, with which the message begins."""
    text = str(error)
    for told in KEYS:
        if text.startswith(told):
            return Wrong((*place, *told.split(".")), text.removeprefix(f"{told}: "))
    return Wrong((*place, "host", "checkpoint"), text)
