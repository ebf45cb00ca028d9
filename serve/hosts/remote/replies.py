"""What a server replied, read as the output of a model. A reply is untrusted: whatever is wrong with it is said."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from demur.serve.config.hosts.remote import RemoteSettings
from demur.serve.config.task import TaskConfig
from demur.serve.contract.body import check_structure
from demur.serve.contract.inputs import TooLarge
from demur.serve.contract.printable import printable
from demur.serve.contract.reading.numbers import NotNumbers, RaggedArray, array_of
from demur.serve.hosts.arrays import ArrayReader
from demur.serve.hosts.kind import BadModelOutput
from demur.uncertainty.checks import Array
from demur.uncertainty.output import Need, Output

SHOWN = 80
"""Characters of what came, in a message."""

LABEL, SCORE = ("label", "class", "name"), ("score", "probability", "p")
"""How servers call the two parts of an entry that names its label."""


@dataclass(frozen=True, kw_only=True)
class RemoteReply:
    """What came back for some inputs, part by part."""

    parts: Mapping[str, Any] = field(default_factory=dict)
    """`output`, `output_labels` and `embedding`, as arrays or as JSON."""

    version: str = ""
    """Which version of the model the server says it asked; empty where it says none."""


def read_json(content: bytes) -> Any:
    """Return the JSON of a reply; NaN and infinity are let through. Raises `BadModelOutput`, also where an object has a
    key twice: nobody knows which of the values is meant."""
    try:
        check_structure(content)
    except TooLarge as error:
        raise BadModelOutput(f"its reply is too large: {error}") from None
    try:
        return json.loads(content, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        came = f"which begins {shown(content)}" if content.strip() else "which is empty"
        raise BadModelOutput(f"its reply is not JSON, {came}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise BadModelOutput(f"its reply has the key {shown(twice)} twice in one object")
    return found


def shown(said: Any) -> str:
    """The beginning of what came, as a log may have it."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return repr(printable(" ".join(text[: 4 * SHOWN].encode("utf-8", "replace").decode().split()))[:SHOWN])


class ReplyReader:
    """Makes outputs of replies, for one task. Every method raises `BadModelOutput`."""

    def __init__(self, task: TaskConfig, host: RemoteSettings, name: str) -> None:
        self._task, self._host, self._name = task, host, name
        self._arrays = ArrayReader(task, name)
        self._labels = host.labels or task.outputs
        self._order = [self._labels.index(label) for label in task.outputs]

    def output(self, reply: RemoteReply, n: int, needs: frozenset[Need]) -> Output:
        """Read what was said about n inputs."""
        self._check_version(reply)
        embedding = self._embedding(reply, n) if "embedding" in needs else None
        place = f"host.output ({self._host.output or 'the only tensor'})"
        found = self._rows(reply.parts["output"], n, place)
        if "output_labels" in reply.parts:
            names = self._rows(reply.parts["output_labels"], n, f"host.output_labels ({self._host.output_labels})")
            values = self._named([_pairs(row, of) for row, of in zip(_listed(found), _listed(names), strict=True)])
        elif isinstance(found, list) and (pairs := _entries(found)) is not None:
            values = self._named(pairs)
        else:
            values = self._columns(found, n, place)
        read = self._arrays.logits if self._host.gives == "logits" else self._arrays.probabilities
        values = np.where(np.isfinite(values), values, np.nan)  # it holds its row, and not its neighbours
        return read(values, n, of=place, embedding=embedding)

    def nothing(self, n: int, needs: frozenset[Need]) -> Output:
        """Return n rows about which nothing is known."""
        size = self._host.embedding_size
        embedding = np.full((n, size), np.nan) if "embedding" in needs and size else None
        return self._arrays.probabilities(
            np.full((n, len(self._task.outputs)), np.nan), n, of="nothing", embedding=embedding
        )

    def _check_version(self, reply: RemoteReply) -> None:
        wanted = self._host.version
        if wanted and reply.version and reply.version != wanted:
            raise BadModelOutput(
                f"it answered with version {shown(reply.version)}, and host.version is {wanted!r}; change that and fit"
                " again, or serve that version"
            )

    def _rows(self, found: Any, n: int, place: str) -> Any:
        """What was found for each of n inputs: a list, or an array whose first dimension counts them."""
        if not self._host.takes_batches:
            alone = isinstance(found, list | np.ndarray) and len(found) == 1 and self._is_row(found[0])
            found = found if alone else found[np.newaxis] if isinstance(found, np.ndarray) else [found]
        if isinstance(found, Mapping):
            raise BadModelOutput(f"{place}: there is an object in the place of a list with an entry for each input")
        if not isinstance(found, list | np.ndarray) or (isinstance(found, np.ndarray) and not found.ndim):
            raise BadModelOutput(
                f"{place}: there is {shown(found)} in the place of a list with an entry for each input"
            )
        if len(found) != n:
            raise BadModelOutput(f"{place}: there are {len(found):,} entries for {n:,} inputs")
        return found

    @staticmethod
    def _is_row(found: Any) -> bool:
        """Whether this is all that was said about one input, rather than a part of it."""
        return isinstance(found, np.ndarray) or (isinstance(found, list) and len(found) > 0)

    def _columns(self, found: Any, n: int, place: str) -> Array:
        """Numbers [n, labels], or [n] of a binary task, in the order of the task's labels."""
        values = self._numbers(found, place)
        width = len(self._labels)
        if values.ndim > 2 and values.size == n * width:  # such as [n, labels, 1, 1]
            values = values.reshape(n, width)
        if self._task.kind == "binary" and values.shape in ((n,), (n, 1)):
            positive = values.reshape(n)
            other = 1 - positive if self._host.gives == "probabilities" else np.zeros(n)
            values = np.column_stack([other, positive])
        return values[:, self._order] if values.shape == (n, width) else values  # the reader says what is wrong

    def _embedding(self, reply: RemoteReply, n: int) -> Array:
        size, place = self._host.embedding_size or 0, f"host.embedding ({self._host.embedding})"
        values = self._numbers(self._rows(reply.parts["embedding"], n, place), place)
        if values.size != n * size:
            raise BadModelOutput(f"{place}: its shape is {list(values.shape)}; it should be [{n}, {size}]")
        return values.reshape(n, size)

    def _numbers(self, found: Any, place: str) -> Array:
        if isinstance(found, np.ndarray):
            if found.dtype.kind not in "fiub":
                raise BadModelOutput(f"{place}: the tensor holds texts, and numbers are wanted")
            return found.astype(np.float64)
        try:
            return array_of(found, nulls=True).astype(np.float64)
        except RaggedArray:
            raise BadModelOutput(f"{place}: its lists differ in length, or are nested too deeply") from None
        except NotNumbers:
            raise BadModelOutput(f"{place}: there is something other than numbers in it: {shown(found)}") from None

    def _named(self, rows: Sequence[Mapping[str, Any]]) -> Array:
        """Numbers [n, labels] of rows that name the label of each."""
        values = np.empty((len(rows), len(self._task.outputs)))
        for at, row in enumerate(rows):
            if missing := [label for label in self._task.outputs if label not in row]:
                there = ", ".join(shown(label) for label in list(row)[:5]) or "none"
                raise BadModelOutput(
                    f"host.output: no number is for the label {missing[0]!r}; there are: {there}. Every label needs"
                    " one; let the server give all of them"
                )
            values[at] = [_number(row[label]) for label in self._task.outputs]
        return values


def _entries(rows: Sequence[Any]) -> list[Mapping[str, Any]] | None:
    """By row, the number of each label: of objects `{label: number}`, or of lists of objects with a label and a score.
    None where rows are numbers."""
    if rows and all(isinstance(row, Mapping) for row in rows):
        return list(rows)
    if not rows or not all(isinstance(row, list) and row and isinstance(row[0], Mapping) for row in rows):
        return None
    return [_by_label([_entry(one) for one in row]) for row in rows]


def _by_label(entries: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(entries)
    if len(found) < len(entries):
        raise BadModelOutput("host.output: a row names a label twice; nobody knows which of the numbers is meant")
    return found


def _entry(one: Any) -> tuple[str, Any]:
    here = one if isinstance(one, Mapping) else {}
    label, score = (next((key for key in keys if key in here), None) for keys in (LABEL, SCORE))
    if label is None or score is None or not isinstance(one[label], str):
        raise BadModelOutput(f"host.output: an entry is {shown(one)}; it should have a `label` and a `score`")
    return one[label], one[score]


def _pairs(numbers: Any, names: Any) -> dict[str, Any]:
    numbers, names = _listed(numbers), _listed(names)
    if len(numbers) != len(names) or not all(isinstance(name, str) for name in names):
        raise BadModelOutput("host.output_labels: there is not one label for each number of host.output")
    pairs = zip(names, numbers, strict=True)
    return _by_label([(name, number) for name, number in pairs if name])  # an empty one fills up a row


def _listed(found: Any) -> list[Any]:
    if isinstance(found, np.ndarray):
        listed: list[Any] = found.tolist()
        return listed
    if not isinstance(found, list):
        raise BadModelOutput(f"host.output_labels: there is {shown(found)} in the place of a list")
    return found


def _number(value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadModelOutput(f"host.output: a label has {shown(value)} in the place of a number")
    try:
        return float(value)
    except OverflowError:
        return float("inf")
