"""Cases in the JSON format of Label Studio: as its tasks, with the labelling configuration for them, and back.

The format is that of its documentation (labelstud.io/guide/task_format, /guide/predictions, /tags): a task has `data`,
`predictions` and `annotations`; a chosen label is a result of type `choices`, one in a tree a path of type `taxonomy`,
and labels of a sparse task are the lines of a `textarea`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID
from xml.etree import ElementTree

from demur.review.exchange import Dossier
from demur.review.item import ENDED, Opinion
from demur.serve.access.names import as_name
from demur.serve.config.task import LETTERS, TaskConfig
from demur.serve.contract.body import MOST_KEYS_OF_A_FILE, check_structure
from demur.serve.contract.inputs import InvalidRequest, TooLarge
from demur.serve.contract.reading.picture_url import picture_url
from demur.serve.web.review.showing import showing
from demur.traffic.record import Answer

InputKind = Literal["text", "image", "choice", "chat", "table"]

CONTROL, OBJECT, COMMENT = "label", "input", "comment"
"""Names of the tags."""

CASE, SHOWN = "demur_case", "demur_prediction_shown"
"""Keys of `data` by which a task is known again when it comes back."""

SKIPPED = "skipped in Label Studio"

LONGEST_COMMENT = 10_000

MOST_ANNOTATIONS = 50_000
"""Tasks and annotations together of one body: each of them is looked at, and answered, by itself."""


class BadExport(InvalidRequest):
    """The file is no JSON export of Label Studio. The message says what is wrong with it."""


class Unreadable(ValueError):
    """One annotation cannot be taken as a verdict. The message says why."""


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """What one person chose for one case."""

    case_id: UUID
    person: str
    label: Answer | None
    """None: they skipped it."""

    reason: str | None
    comment: str | None
    seconds: float | None
    saw_prediction: bool


@dataclass(frozen=True, kw_only=True)
class AnnotationRow:
    """One annotation of a file, where it stands, and what it says or why that cannot be told."""

    task: int
    annotation: int
    found: Annotation | Unreadable


def task_json(dossier: Dossier, task: TaskConfig, *, with_prediction: bool) -> dict[str, Any] | None:
    """A case as a task; None where its input is no longer kept.

    What the model said goes along where it is asked for and the case is not to be answered blindly. What people said
    goes along when the case has ended: before, it would lead those who are still to answer.
    """
    if dossier.value is None:
        return None
    case, record = dossier.case, dossier.record
    shown = with_prediction and not case.blind and record.prediction is not None
    data = {
        CASE: str(case.id),
        SHOWN: shown,
        "model": case.model,
        "group": case.group,
        **input_data(dossier.value, task, None if record.reply is None else record.reply["text"]),
    }
    predictions = []
    if shown and record.prediction is not None:
        result = _result(record.prediction, task)
        predictions.append(
            {"model_version": record.artifact or record.model, "score": record.confidence, "result": result}
        )
    annotations = []
    if case.status in ENDED:
        annotations = [_annotation(said, task) for said in dossier.opinions if said.undone_at is None]
    return {"data": data, "predictions": predictions, "annotations": annotations}


def input_kind(value: Any, task: TaskConfig) -> InputKind:
    """What the inputs of a task are, from one of them."""
    if task.kind == "choice":
        return "choice"
    if task.kind == "generate":
        return "chat"
    if isinstance(value, dict):
        return "table"
    return "text" if picture_url(value) is None else "image"


def label_config(task: TaskConfig, kind: InputKind) -> str:
    """The labelling configuration for such tasks, as XML."""
    view = ElementTree.Element("View")
    for tag, attributes in _OBJECTS[kind]:
        ElementTree.SubElement(view, tag, attributes)
    if task.sparse:  # no project can list them all
        ElementTree.SubElement(view, "Header", value=f"Labels, one on each line, as in the file ({len(task.labels):,})")
        wanted = {"maxSubmissions": "1", "required": "true"} if task.exclusive else {"maxSubmissions": "1"}
        ElementTree.SubElement(
            view, "TextArea", {"name": CONTROL, "toName": OBJECT, "placeholder": "Labels", "rows": "4", **wanted}
        )
    elif task.tree:
        taxonomy = ElementTree.SubElement(view, "Taxonomy", name=CONTROL, toName=OBJECT)
        _add_choices(taxonomy, task)
    else:
        wanted = {"choice": "single", "required": "true"} if task.exclusive else {"choice": "multiple"}
        choices = ElementTree.SubElement(view, "Choices", {"name": CONTROL, "toName": OBJECT, **wanted})
        for label in task.labels:
            ElementTree.SubElement(choices, "Choice", value=label)
    ElementTree.SubElement(
        view, "TextArea", name=COMMENT, toName=OBJECT, placeholder="Comment", maxSubmissions="1", rows="2"
    )
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


_OBJECTS: dict[InputKind, list[tuple[str, dict[str, str]]]] = {
    "text": [("Text", {"name": OBJECT, "value": "$text"})],
    "table": [("Table", {"name": OBJECT, "value": "$table"})],
    "image": [("Image", {"name": OBJECT, "value": "$image"})],
    "choice": [
        ("Text", {"name": OBJECT, "value": "$question"}),
        ("Text", {"name": "options", "value": "$options"}),
    ],
    "chat": [
        (
            "Paragraphs",
            {"name": OBJECT, "value": "$messages", "layout": "dialogue", "nameKey": "author", "textKey": "text"},
        ),
        ("Header", {"value": "Is this reply right?"}),
        ("Text", {"name": "reply", "value": "$reply"}),
    ],
}


def rows_of_export(content: bytes | str) -> list[Mapping[str, Any]]:
    """The tasks of a JSON export; raises `BadExport`, or `TooLarge`."""
    if isinstance(content, bytes):  # from outside; what somebody has on this machine may be as large as they like
        check_structure(content, most_keys=MOST_KEYS_OF_A_FILE)
    try:
        tasks = json.loads(content)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, json.JSONDecodeError) else "it cannot be read"
        raise BadExport(f"this is not JSON: {why}; export from Label Studio as JSON") from None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise BadExport("this is not a list of tasks; export from Label Studio as JSON, not as JSON-MIN or CSV")
    if isinstance(content, bytes):
        _check_number(tasks)
    return tasks


def _check_number(tasks: Sequence[Mapping[str, Any]]) -> None:
    listed = (task.get("annotations") for task in tasks)
    number = len(tasks) + sum(len(some) for some in listed if isinstance(some, list))
    if number > MOST_ANNOTATIONS:
        raise TooLarge(
            f"the file has {number:,} tasks and annotations; at most {MOST_ANNOTATIONS:,} are taken at once: split it,"
            " or use `demur review import`"
        )


def annotations_of(
    tasks: Sequence[Mapping[str, Any]], exclusive: Mapping[UUID, bool], people: Mapping[str, str]
) -> Iterator[AnnotationRow]:
    """Yield every annotation of an export, task by task, the oldest of each first.

    `exclusive` says of each case whether it takes one label; `people` names those whom Label Studio knows by a number
    or an address.
    """
    for at, task in enumerate(tasks):
        listed = task.get("annotations")
        for place, annotation in _by_age(listed if isinstance(listed, list) else []):
            try:
                found: Annotation | Unreadable = _read(task, annotation, exclusive, people)
            except Unreadable as error:
                found = error
            yield AnnotationRow(task=at, annotation=place, found=found)


def case_of(task: Mapping[str, Any]) -> UUID | None:
    """The case that a task is about; None where it came from elsewhere."""
    data = task.get("data")
    try:
        return UUID(data[CASE]) if isinstance(data, dict) else None
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def _by_age(annotations: list[Any]) -> list[tuple[int, Any]]:
    def made(numbered: tuple[int, Any]) -> str:
        return str(numbered[1].get("created_at", "")) if isinstance(numbered[1], dict) else ""

    return sorted(enumerate(annotations), key=made)


def _read(
    task: Mapping[str, Any], annotation: Any, exclusive: Mapping[UUID, bool], people: Mapping[str, str]
) -> Annotation:
    case_id = case_of(task)
    if case_id is None:
        raise Unreadable(f"its task has no `data.{CASE}`: it was not exported from here")
    if case_id not in exclusive:
        raise Unreadable(f"there is no case {case_id}, or its model is no longer served")
    if not isinstance(annotation, dict) or not isinstance(annotation.get("result"), list):
        raise Unreadable("it has no `result`")
    chosen, comment = [], None
    for item in annotation["result"]:
        value = item.get("value") if isinstance(item, dict) else None
        if not isinstance(value, dict):
            continue
        if item.get("from_name") == CONTROL:
            chosen += _labels_in(value)
        elif item.get("from_name") == COMMENT:
            comment = _text_in(value)
    labels, reason = list(dict.fromkeys(chosen)), None
    label: Answer | None = labels
    if annotation.get("was_cancelled"):
        label, reason, comment = None, comment or SKIPPED, None
    elif exclusive[case_id]:
        if len(labels) != 1:
            raise Unreadable(f"it chooses {len(labels)} labels, and one is right")
        label = labels[0]
    seconds = annotation.get("lead_time")
    return Annotation(
        case_id=case_id,
        person=_person(annotation.get("completed_by"), people),
        label=label,
        reason=reason,
        comment=comment,
        seconds=float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else None,
        saw_prediction=task["data"].get(SHOWN) is not False,  # in doubt they saw it
    )


def _labels_in(value: Mapping[str, Any]) -> list[str]:
    """Return the labels of a choice, every step of the paths of a taxonomy, or each line of a text."""
    if "text" in value:
        return [line.strip() for line in (_text_in(value) or "").split("\n") if line.strip()]
    paths = value.get("taxonomy", value.get("choices"))
    if not isinstance(paths, list):
        raise Unreadable("its choice is no list of labels")
    labels = [step for path in paths for step in (path if isinstance(path, list) else [path])]
    if not all(isinstance(label, str) for label in labels):
        raise Unreadable("one of its labels is no text")
    return labels


def _text_in(value: Mapping[str, Any]) -> str | None:
    text = value.get("text")
    lines = text if isinstance(text, list) else [text]
    told = "\n".join(line for line in lines if isinstance(line, str)).replace("\x00", "").strip()
    return told.encode("utf-8", "replace").decode()[:LONGEST_COMMENT] or None


def _person(told: Any, people: Mapping[str, str]) -> str:
    """Who made an annotation: a number, an address, or both in an object."""
    known = [told.get("email"), told.get("id")] if isinstance(told, dict) else [told]
    keys = [str(one) for one in known if isinstance(one, str | int) and str(one)]
    named = next((people[key] for key in keys if key in people), None)
    if named is None and keys and not keys[0].isdigit():
        named = keys[0]  # an address says enough
    if named is None:
        raise Unreadable(
            f"Label Studio calls its author {told!r}; say who that is, as in --person {keys[0] if keys else 7}=Ada"
        )
    name = as_name(named)
    if name is None:
        raise Unreadable(f"{named!r} is no name of a person")
    return name


def input_data(value: Any, task: TaskConfig, reply: str | None) -> dict[str, Any]:
    """What the `data` of a task says of its input, and of the `reply` where the model wrote one."""
    kind = input_kind(value, task)
    if kind == "image":
        return {"image": picture_url(value)}
    if kind == "choice" and isinstance(value, dict):
        options = zip(LETTERS, value.get("options", []), strict=False)
        return {
            "question": value.get("question", ""),
            "options": "\n".join(f"{letter}. {option}" for letter, option in options),
        }
    if kind == "chat":
        messages = showing(value if isinstance(value, dict) else {"messages": [{"role": "user", "content": value}]})
        return {
            "messages": [{"author": one.role, "text": one.text} for one in messages.messages],
            "reply": reply if reply is not None else "(no reply)",
        }
    if kind == "table":
        return {"table": {str(name): _cell(one) for name, one in value.items()}}
    return {"text": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


def _cell(value: Any) -> Any:
    """A value as a table of Label Studio shows it."""
    return value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)


def _annotation(said: Opinion, task: TaskConfig) -> dict[str, Any]:
    result = [] if said.label is None else _result(said.label, task)
    if said.comment or said.reason:
        told = {"text": [said.comment or said.reason]}
        result.append({"from_name": COMMENT, "to_name": OBJECT, "type": "textarea", "value": told})
    return {
        "completed_by": {"email": said.reviewer},
        "result": result,
        "was_cancelled": said.label is None,
        "created_at": said.at.isoformat(),
        "lead_time": said.seconds,
    }


def _result(answer: Answer, task: TaskConfig) -> list[dict[str, Any]]:
    labels = [answer] if isinstance(answer, str) else answer
    if not labels:
        return []
    if task.sparse:
        told = {"text": ["\n".join(labels)]}
        return [{"from_name": CONTROL, "to_name": OBJECT, "type": "textarea", "value": told}]
    kind = "taxonomy" if task.tree else "choices"
    chosen: list[Any] = _paths(labels, task) if task.tree else labels
    return [{"from_name": CONTROL, "to_name": OBJECT, "type": kind, "value": {kind: chosen}}]


def _paths(labels: list[str], task: TaskConfig) -> list[list[str]]:
    """The way from the top to each label that has none of the others below it; of several ways one."""
    parents = _parents(task)
    above = {parent for label in labels for parent in parents.get(label, ())}
    paths = []
    for label in labels:
        if label in above:
            continue
        path = [label]
        while parents.get(path[0]):
            path.insert(0, parents[path[0]][0])
        paths.append(path)
    return paths


def _add_choices(top: ElementTree.Element, task: TaskConfig) -> None:
    parents = _parents(task)
    children: dict[str, list[str]] = {}
    for label in task.labels:
        for parent in parents.get(label, ()):
            children.setdefault(parent, []).append(label)
    waiting = [(top, label) for label in reversed(task.labels) if label not in parents]
    while waiting:
        element, label = waiting.pop()
        choice = ElementTree.SubElement(element, "Choice", value=label)
        waiting += [(choice, child) for child in reversed(children.get(label, []))]


def _parents(task: TaskConfig) -> dict[str, list[str]]:
    assert task.tree is not None
    parents: dict[str, list[str]] = {}
    for child, parent in zip(*(ends.tolist() for ends in task.tree.links), strict=True):
        parents.setdefault(task.labels[child], []).append(task.labels[parent])
    return parents
