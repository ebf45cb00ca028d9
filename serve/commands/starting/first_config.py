"""A first configuration for each kind of model, from a template and from what files show."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined

from demur.serve.commands.starting.file_answers import told_by_file
from demur.serve.commands.starting.label_column import as_named
from demur.serve.commands.starting.labelled_sample import LabelledSample
from demur.serve.commands.starting.model_file import KINDS_BY_ENDING, NOTHING, facts_of
from demur.serve.commands.starting.yaml_text import as_yaml
from demur.serve.config.checkpoint_facts import NAMELESS, BadCheckpoint, check_named, read_facts
from demur.serve.config.file import BadConfig
from demur.serve.config.hosts.given import PREDICTS
from demur.serve.contract.printable import one_line

PLACEHOLDERS = ("first", "second")
"""Labels where nothing shows any."""

UNKNOWN_LABELS = (
    "Your own labels, in the order of the model's outputs. In a binary task the second is the positive one."
)

ROWS_FOR_A_PROMISE = 700
"""So many labelled rows carry the promise of at most 5% wrong answers where few of the surest answers are wrong."""

LABELS_WANTED = "which labels the model tells apart: task.labels"

NAMELESS_CLASSES = "The checkpoint has no names for its classes: write what each of them means, in this order."
NAMES_WANTED = "what the classes of the checkpoint are called: task.labels"

CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

FILE_OF_CLASS = "our_model.py"


@dataclass(frozen=True, kw_only=True)
class Start:
    """What `demur init` was told, and what it found in a labelled file."""

    kind: str
    source: str | None
    """A file, a folder, an address or a class, as the kind wants it."""

    name: str | None
    """Of the model; by default the source says it."""

    data: Path | None
    sample: LabelledSample | None
    """What `data` shows."""

    input_column: str = "input"
    label_column: str = "label"
    encoding: str | None = None
    """The encoding of the file `data`. None: its first bytes tell, and without such bytes it is UTF-8."""


@dataclass(frozen=True, kw_only=True)
class FirstConfig:
    """What is to be written, and what to tell."""

    name: str
    text: str
    beside: Mapping[str, str] = field(default_factory=dict)
    """Further files by name, written where there is none yet."""

    open_questions: tuple[str, ...] = ()
    """What only the user knows."""

    is_fitted_by_up: bool
    """Whether `demur up` finds labelled rows in the configuration."""


@dataclass(frozen=True, kw_only=True)
class StartingKind:
    """One thing that people may have."""

    name: str
    has: str
    """What somebody has who wants it."""

    example: str
    values: Callable[[Start], dict[str, Any]]
    """What its template is filled with, beside what all of them are."""


def first_config(start: Start) -> FirstConfig:
    """Return a configuration for what somebody has. Raises `BadConfig` where a source cannot be used."""
    kind = KINDS[start.kind]
    name = start.name or _name_of(start.source)
    values = {**_common(start, name), **kind.values(start)}
    questions = [LABELS_WANTED] if values.pop("labels_wanted") else []
    questions += values.pop("questions", ())
    text = _environment().get_template(f"{kind.name}.yaml.jinja").render(values)
    beside = {}
    if values.get("class_is_new"):
        beside[FILE_OF_CLASS] = _environment().get_template("model.py.jinja").render(values)
    return FirstConfig(
        name=name,
        text=text,
        beside=beside,
        open_questions=tuple(questions),
        is_fitted_by_up=values["data"] is not None,
    )


def _common(start: Start, name: str) -> dict[str, Any]:
    sample = start.sample
    labels = sample.labels if sample and len(sample.labels) > 1 else ()
    about = list(_about_labels(sample)) if labels and sample else [UNKNOWN_LABELS]
    return {
        "kind": start.kind,
        "name": name,
        "kind_of_task": sample.kind if sample and labels else "binary",
        "labels": list(labels or PLACEHOLDERS),
        "labels_wanted": not labels and start.kind not in ("classifier", "llm"),
        "about_labels": about,
        "rename": {},
        "score": "binary_entropy" if sample and sample.kind == "multilabel" else "softmax_response",
        "promises": sample is None or sample.rows >= ROWS_FOR_A_PROMISE,
        "rows_for_a_promise": ROWS_FOR_A_PROMISE,
        "data": str(start.data) if start.data and sample and sample.has_labels else None,
        "input_column": start.input_column,
        "label_column": start.label_column,
        "encoding": start.encoding,
        "columns": dict(sample.columns) if sample else {},
        "source": start.source,
    }


def _about_labels(sample: LabelledSample) -> list[str]:
    words = [f"As they are in {sample.path}."]
    if sample.kind == "binary":
        words.append("The second one is the positive one.")
    if sample.is_told:
        return [" ".join(words)]
    order = "They must stand in the order of the numbers in each row, which the file does not tell."
    if sample.right is None:
        return [" ".join(words), order]
    return [
        " ".join(words),
        order,
        f"In this order {sample.right:.0%} of the rows are right. If that is few, change it.",
    ]


def _classifier(start: Start) -> dict[str, Any]:
    source = start.source or "./model"
    filled: dict[str, Any] = {"source": source, "labels": [], "columns": {}}
    if not Path(source).is_dir():
        asked = "where the checkpoint is, a folder or a name on a hub: host.checkpoint"
        return {**filled, "questions": () if start.source else (asked,)}
    try:
        facts = read_facts(Path(source))
        if any(NAMELESS.fullmatch(name) for name in facts.labels):
            filled |= {"labels": list(facts.labels), "about_labels": [NAMELESS_CLASSES], "questions": (NAMES_WANTED,)}
        else:
            check_named(list(facts.labels), source)
            filled["rename"] = as_named(start.sample, facts.labels, source) if start.sample else {}
    except BadCheckpoint as error:
        raise BadConfig(str(error)) from None
    several = facts.problem_type == "multi_label_classification"
    kind = "multilabel" if several else "binary" if len(facts.labels) == 2 else "multiclass"
    return {**filled, "kind_of_task": kind, "score": "binary_entropy" if several else "softmax_response"}


def _given(start: Start) -> dict[str, Any]:
    sample = start.sample
    parts = dict(sample.parts) if sample else {"probabilities": 0}
    predicts = next((part for part in PREDICTS if part in parts), None)
    if predicts is None:
        there = f"{start.data} has none of the columns" if sample else "there is none of"
        one = ""
        if sample and len(sample.labels) == len(PLACEHOLDERS):
            second = sample.labels[1]
            one = f"; of two labels one will do: call the column with the probability of {second!r} 'p_{second}'"
        raise BadConfig(
            f"{there} {', '.join(PREDICTS)} or a column for each label (such as `p_` and the label), so nothing says"
            f" what the model predicted{one}; docs/given.md says what each of them holds"
        )
    gives = [part for part in parts if part == predicts or part not in PREDICTS]
    if predicts == "candidates":
        raise BadConfig(
            "candidates are for tasks whose labels stand in a file of their own (task.sparse); docs/given.md has such a"
            " configuration"
        )
    if "reply" not in gives:
        gives = [part for part in gives if part not in ("logprobs", "samples")]
    numbers = dict.fromkeys(sample.numbers if sample and "scores" in gives else (), "less_sure")
    filled: dict[str, Any] = {
        "gives": gives,
        "embedding_size": parts.get("embedding") if "embedding" in gives else None,
        "passes": parts.get("passes") if "passes" in gives else None,
        "candidates": None,
        "numbers": numbers,
        "own_score": None,
        "questions": (),
    }
    if "logprobs" in gives:
        filled |= {"own_score": "g_nll", "score": "g_nll"}
    elif predicts in ("prediction", "reply"):
        if not numbers:
            raise BadConfig(
                f"beside the {predicts} nothing says how sure the model is; add a column `scores` with an object of"
                " numbers to the file, or probabilities; docs/given.md says what each column holds"
            )
        own = next(iter(numbers))
        filled |= {"own_score": own, "score": own}
    if numbers:
        filled["questions"] = ("whether a higher number means surer or less sure: host.scores",)
    return filled


def _llm(start: Start) -> dict[str, Any]:
    source, questions = start.source, list[str]()
    checkpoint = source if source and "://" not in source else None
    if checkpoint and not Path(checkpoint).is_dir() and checkpoint.startswith((".", "/", "~")):
        raise BadConfig(
            f"there is no folder {checkpoint}; name the folder of a checkpoint, or the address of an endpoint"
        )
    if not source:
        questions.append("the address of the endpoint: host.base_url")
    if not checkpoint:
        questions.append("what the endpoint calls the model: host.model")
        questions.append("the key of the endpoint, in the environment: OPENAI_API_KEY")
    return {
        "checkpoint": checkpoint,
        "base_url": source if source and not checkpoint else "http://127.0.0.1:8001/v1",
        "model": "some-model",
        "model_is_known": False,
        "score": "g_nll",
        "kind_of_task": "generate",
        "questions": tuple(questions),
    }


def _python(start: Start) -> dict[str, Any]:
    path = start.source or f"{Path(FILE_OF_CLASS).stem}:Model"
    if not CLASS.fullmatch(path):
        raise BadConfig(f"{path!r} is no class; write its module, a colon and its name, such as our_model:Model")
    new = start.source is None
    questions = (f"what the class predicts: predict_proba in {FILE_OF_CLASS}",) if new else ()
    return {"class_path": path, "class_is_new": new, "questions": questions}


def _tabular(start: Start) -> dict[str, Any]:
    source = start.source or "model.skops"
    ending = Path(source).suffix.lower()
    if ending not in KINDS_BY_ENDING:
        raise BadConfig(
            f"{source}: the name of a model's file ends in {', '.join(KINDS_BY_ENDING)}; a model of another library is"
            " served through a class of your own: demur init python"
        )
    if start.source and not Path(source).is_file():
        raise BadConfig(f"there is no file {source}; name the file of the fitted model")
    host_kind = KINDS_BY_ENDING[ending]
    facts = facts_of(host_kind, Path(source)) if start.source else NOTHING
    needs_trust = host_kind == "sklearn" and ending != ".skops"
    questions = () if start.source else ("where the file of the model is: host.file",)
    if needs_trust:
        questions = (*questions, "whether you trust the file, which can run any code: host.trust")
    told = told_by_file(facts, start.sample, Path(source))
    return {
        **told,
        "host_kind": host_kind,
        "source": source,
        "needs_trust": needs_trust,
        "questions": (*questions, *told.get("questions", ())),
    }


def _remote(start: Start) -> dict[str, Any]:
    url = start.source or "http://127.0.0.1:8080"
    if not re.match(r"https?://[^/\s]", url):
        raise BadConfig(f"{url!r} is no address of a server; write one such as http://127.0.0.1:8080/v2/models/tickets")
    address, found, path = url.partition("/v2")
    is_oip = bool(found) or not urlsplit(url).path.strip("/")
    named = re.match(r"/models/([^/]+)", path)
    questions = [] if start.source else ["the address of the server: host.url"]
    if is_oip and not named:
        questions.append("what the server calls the model: host.model")
    if not is_oip:
        questions.append("what the server takes and gives: host.request and host.output")
    columns = start.sample.columns if start.sample else {}
    kinds = [told if isinstance(told, str) else told["kind"] for told in columns.values()]
    return {
        "apart": is_oip and bool({"category", "text"} & set(kinds)),
        "protocol": "oip_rest" if is_oip else "http",
        "url": address if is_oip else url,
        "model": unquote(named[1]) if named else "some-model",
        "questions": tuple(questions),
    }


KINDS: dict[str, StartingKind] = {
    kind.name: kind
    for kind in (
        StartingKind(
            name="classifier",
            has="a text or image classifier of the transformers library",
            example="demur init classifier ./models/tickets --data labelled.csv",
            values=_classifier,
        ),
        StartingKind(
            name="tabular",
            has="a model of tables: of scikit-learn (.skops), XGBoost (.json, .ubj), LightGBM (.txt) or ONNX (.onnx)",
            example="demur init tabular model.skops --data labelled.csv",
            values=_tabular,
        ),
        StartingKind(
            name="llm",
            has="a language model behind an endpoint, or in a folder",
            example="demur init llm http://127.0.0.1:8001/v1",
            values=_llm,
        ),
        StartingKind(
            name="given",
            has="predictions that are made elsewhere, in a file for example",
            example="demur init given predictions.parquet",
            values=_given,
        ),
        StartingKind(
            name="remote",
            has="a model behind another server",
            example="demur init remote http://127.0.0.1:8080/v2/models/tickets --data labelled.csv",
            values=_remote,
        ),
        StartingKind(
            name="python",
            has="a model that a class of your own calls, of any library",
            example="demur init python our_model:Model --data labelled.csv",
            values=_python,
        ),
    )
}
"""In the order in which they are shown."""


def _name_of(source: str | None) -> str:
    """A name for the model, from the last word of its source."""
    stem = Path(source.rstrip("/").split(":")[0] if source and "://" not in source else "model").stem
    words = re.sub(r"[^a-z0-9_.-]+", "-", stem.lower()).strip("-_.")
    return words[:63] or "model"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("demur.serve.commands.starting"),
        autoescape=False,  # noqa: S701 - YAML and Python, no HTML; each value goes through a filter
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters["yaml"] = as_yaml
    environment.filters["comment"] = one_line
    environment.filters["docstring"] = lambda text: one_line(text).replace("\\", "/").replace('"', "'")
    return environment
