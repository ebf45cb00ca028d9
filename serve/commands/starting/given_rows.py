"""Whether the rows of a file can be read as what a model said, as the configuration will have it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from demur.library.nearest import did_you_mean
from demur.serve.config.hosts.given import PREDICTS, GivenHost
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InputLimits, InvalidRequest
from demur.serve.contract.reading.given import GivenReader
from demur.traffic.dataset import SpreadRow
from demur.traffic.file_form import LABEL_COLUMNS
from demur.traffic.table_file import BadDataFile, Row

LISTED = ("probabilities", "logits")
"""Parts that have a number for each label."""

FEWEST_LABELS = 2

MOST_CHARACTERS = 1_000_000
"""A bound that no text beside the numbers reaches: the length of texts is not what is checked here."""

MOST_SHOWN = 10
"""Labels or columns that a message names."""


def wide_labels(first: Row) -> tuple[str, list[str]]:
    """Return how the columns of labels begin, such as `p_`, and the labels that have one, such as `billing` of
    `p_billing`; nothing where no column begins so."""
    prefixes = [prefix for some in LABEL_COLUMNS.values() for prefix in some]
    found = {prefix: [name.removeprefix(prefix) for name in first if _begins(name, prefix)] for prefix in prefixes}
    best = max(prefixes, key=lambda prefix: len(found[prefix]))
    return best, found[best]


def _begins(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name != prefix


def check_labels(path: Path, column: str, named: Sequence[str], right: Sequence[str], *, every: bool) -> None:
    """Raise `BadDataFile` where right labels are none of those that have a number. `every`: the file names all that
    there are; else one that never got a number may be right."""
    unknown = [one for one in right if one not in named]
    if named and unknown and (every or len(unknown) == len(right)):
        raise BadDataFile(
            f"{path}: the column {column!r} has {unknown[0]!r}, for which there is no number; write it as one of:"
            f" {', '.join(named[:MOST_SHOWN])}, or name the column of right labels with --label-column"
            f"{did_you_mean(unknown[0], named)}"
        )


def one_label_wanted(path: Path, there: str, column: str, right: Sequence[str]) -> str:
    """Return what to say where one of two labels has a number, and is none of the right ones."""
    return (
        f"{path}: {there!r} is of one label, and the column {column!r} has {right[0]!r} and {right[1]!r}; call it"
        f" 'p_{right[1]}' if it is the probability of {right[1]!r} (that of {right[0]!r} is the rest), or write the"
        " labels alike"
    )


def check_outputs(
    path: Path, rows: Sequence[Row], column: str, parts: Mapping[str, int], kind: str, labels: Sequence[str]
) -> None:
    """Raise `BadDataFile` for rows of which no number could be read, with what to do about them."""
    if not set(PREDICTS) & set(parts):
        if wanted := columns_wanted(path, rows[0], labels):
            raise BadDataFile(wanted)
        return
    for part in LISTED:
        if part not in parts or len(labels) < FEWEST_LABELS:
            continue
        in_a_list = isinstance(_said(rows[0]).get(part), list)
        if in_a_list and parts[part] < len(labels):
            raise BadDataFile(
                f"{path}: each row has {parts[part]} {part}, and the column {column!r} has {len(labels)} different"
                f" labels, such as {', '.join(map(repr, labels[:MOST_SHOWN]))}; mend the labels, or name the right"
                " column with --label-column"
            )
        if not in_a_list or parts[part] == len(labels):  # of more numbers, the rows may lack a label that is rare
            check_rows(path, rows, column, part, kind, labels)


def check_rows(path: Path, rows: Sequence[Row], column: str, part: str, kind: str, labels: Sequence[str]) -> None:
    """Raise `BadDataFile` for the first row whose probabilities or logits no request could bring, with what to do."""
    try:
        task = TaskConfig.model_validate({"kind": kind, "labels": labels})
        host = GivenHost.model_validate({"kind": "given", "gives": [part]})
    except ValidationError:
        return  # of labels that no task can have: `demur check` tells which
    reader = GivenReader(host, task, InputLimits(text_characters=MOST_CHARACTERS))
    for number, row in enumerate(rows, start=1):
        try:
            reader.read(reader.gathered(_only(part, row, column)))
        except InvalidRequest as error:
            raise BadDataFile(f"{path}, row {number}: {error}") from None


def columns_wanted(path: Path, first: Mapping[str, Any], right: Sequence[str]) -> str:
    """Return what to say where columns end with the right labels, and begin with nothing that is known."""
    prefixes = ("", *(prefix for some in LABEL_COLUMNS.values() for prefix in some))
    if there := [name for name in (f"{prefix}{label}" for label in right[:1] for prefix in prefixes) if name in first]:
        return f"{path}, row 1: {there[0]!r} holds {first[there[0]]!r}, and a number such as 0.25 is wanted in each row"
    ends = {label: [name for name in first if name.endswith(label) and name != label] for label in right}
    if len(right) > 1 and all(ends.values()):
        old, new = ends[right[0]][0], f"{LABEL_COLUMNS['probabilities'][0]}{right[0]}"
        return f"{path} seems to have a column for each label, such as {old!r}: call it {new!r}, and so the others"
    return ""


def _said(row: Row) -> Mapping[str, Any]:
    """What the model said: the column `output`, or all columns."""
    said = row.get("output")
    return said if isinstance(said, Mapping) else row


def _only(part: str, row: Row, column: str) -> SpreadRow:
    """The row without its other parts, which have other rules."""
    spread = SpreadRow({name: value for name, value in row.items() if name != column})
    if isinstance(said := spread.get("output"), Mapping):
        spread["output"] = {part: said[part]} if part in said else {}
    return spread
