"""What a request brings of a model that runs elsewhere, checked against what the configuration says it brings."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.library.nearest import one_of, shown
from demur.serve.config.hosts.given import GivenHost
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import GivenOutput, InputLimits, InvalidRequest
from demur.serve.contract.reading.given_numbers import is_number, number_or_nan, numbers_in
from demur.serve.contract.reading.given_replies import KEYS_OF_A_REPLY, read_reply
from demur.serve.contract.reading.texts import kind_of
from demur.traffic.dataset import GivenRow, SpreadRow
from demur.traffic.file_form import LABEL_COLUMNS
from demur.traffic.table_file import MOST_LISTED
from demur.uncertainty.checks import outside_in_words

Vector = NDArray[np.float64]

SLACK = 1e-3
"""By how much the probabilities of labels that exclude each other may miss 1."""

MOST_SAMPLES = 200


class GivenReader:
    """Reads the `output` of requests for one model. Its methods raise `InvalidRequest` with the place of a mistake."""

    def __init__(self, host: GivenHost, task: TaskConfig, limits: InputLimits) -> None:
        self._host, self._task, self._limits = host, task, limits
        self._labels = task.outputs
        self._index = task.table.index
        self._parts: dict[str, Callable[[Any, dict[str, Any]], None]] = {
            "probabilities": self._probabilities,
            "candidates": self._candidates,
            "logits": self._logits,
            "prediction": self._prediction,
            "embedding": self._embedding,
            "passes": self._passes,
            "scores": self._scores,
            "reply": self._reply,
            "samples": self._samples,
        }
        self._wanted = [part for part in host.gives if part != "logprobs"]  # which are in the reply

    def read(self, row: GivenRow) -> GivenOutput:
        """Return what a request brings."""
        output = row.output
        if not isinstance(output, Mapping):
            raise InvalidRequest(
                f"output: this model's predictions are made elsewhere; send {{{self._shape()}}}, not {kind_of(output)}"
            )
        if unknown := [name for name in output if name not in self._wanted]:
            raise InvalidRequest(f"output.{unknown[0]}: {self._meant(unknown[0]) or one_of(unknown[0], self._wanted)}")
        found: dict[str, Any] = {"options": _options(row.input) if self._task.kind == "choice" else None}
        for part in self._wanted:
            if part not in output and part != "scores":
                raise InvalidRequest(f"output.{part}: it is missing; `host.gives` says that each request brings it")
            self._parts[part](output.get(part), found)
        return GivenOutput(**found)

    def read_all(self, rows: Sequence[GivenRow]) -> list[GivenOutput | InvalidRequest]:
        """Return what each request brings, or an error in its place."""
        if (quick := self._all_probabilities(rows)) is not None:
            return quick
        return [self._or_error(row) for row in rows]

    def gathered(self, value: Any) -> GivenRow:
        """Return a row of a file: the output in a column `output`, or each of its parts in a column of its own.

        Probabilities may also come in a column for each label: called as the label is, or one of `LABEL_COLUMNS` and
        the label.
        """
        if isinstance(value, GivenRow):
            return value
        if not isinstance(value, SpreadRow):
            raise InvalidRequest("there is no output of the model beside the input")
        if isinstance(output := value.get("output"), Mapping):
            return GivenRow(input=value.get("input"), output=output)
        output = {part: value[part] for part in self._wanted if part in value and value[part] is not None}
        if self._task.kind == "binary":  # one number is that of the second label, also in a file of texts
            output |= {part: _number_in(output[part]) for part in LABEL_COLUMNS if part in output}
        for part in ("probabilities", "logits"):
            if part in self._wanted and part not in output:
                output |= self._wide(part, value)
        if "scores" in self._wanted and "scores" not in output:
            output["scores"] = {name: _number_in(value[name]) for name in self._host.scores if name in value}
        if isinstance(reply := output.get("reply"), str) and "logprobs" in value:
            output["reply"] = {"text": reply, **{name: value[name] for name in KEYS_OF_A_REPLY if name in value}}
        if missing := [part for part in self._wanted if part not in output]:
            raise InvalidRequest(
                f"there is no column {missing[0]!r}{self._or_wide(missing[0])}; there are: "
                f"{', '.join(map(repr, list(value)[:MOST_LISTED]))}; `host.gives` says that each row brings it"
            )
        return GivenRow(input=_input_of(value), output=output)

    def _wide(self, part: str, row: SpreadRow) -> dict[str, Any]:
        for prefix in ("", *LABEL_COLUMNS[part]):
            if all(prefix + label in row for label in self._labels):
                return {part: [_number_in(row[prefix + label]) for label in self._labels]}
        if part == "probabilities" and self._task.kind == "binary":  # one of the two says the other
            for prefix in ("", *LABEL_COLUMNS[part]):
                if there := [label for label in self._labels if prefix + label in row]:
                    return {part: {there[0]: _number_in(row[prefix + there[0]])}}
        return {}

    def _meant(self, name: str) -> str:
        """What to send in the place of a part that is called as a column of a file may be, such as `p_spam`."""
        for part, prefixes in LABEL_COLUMNS.items():
            for prefix in ("", *prefixes):
                label = name.removeprefix(prefix)
                if part in self._wanted and name.startswith(prefix) and label in self._index:
                    alone = part == "probabilities" and self._task.kind == "binary"
                    more = "" if alone else ", with a number for each label"
                    return f'send it as {{"{part}": {{"{label}": ...}}}}{more}'
        return ""

    def _or_wide(self, part: str) -> str:
        """What else a part may be, where each label may have a column."""
        if part not in LABEL_COLUMNS or len(self._labels) > MOST_LISTED:
            return ""
        return f", nor one for each label: {', '.join(LABEL_COLUMNS[part][0] + label for label in self._labels)}"

    def _all_probabilities(self, rows: Sequence[GivenRow]) -> list[GivenOutput | InvalidRequest] | None:
        """Read all rows in one go, if each brings a plain list of probabilities and nothing else; else return None."""
        if self._wanted != ["probabilities"] or not rows:
            return None
        wanted = len(self._labels)
        listed = []
        for row in rows:
            output = row.output
            if type(output) is not dict or len(output) != 1 or type(p := output.get("probabilities")) is not list:
                return None
            if len(p) != wanted or not set(map(type, p)) <= {float, int}:
                return None
            listed.append(p)
        try:
            values = np.array(listed, dtype=np.float64)
        except OverflowError:
            return None
        inside = (values >= 0) & (values <= 1)
        if not inside.all() or (self._task.exclusive and (np.abs(values.sum(axis=1) - 1) > SLACK).any()):
            return None
        return [GivenOutput(probabilities=row) for row in values]

    def _or_error(self, row: GivenRow) -> GivenOutput | InvalidRequest:
        try:
            return self.read(row)
        except InvalidRequest as error:
            return error

    def _probabilities(self, value: Any, found: dict[str, Any]) -> None:
        place = "output.probabilities"
        if self._task.kind == "binary" and is_number(value):
            value = [1 - value, value]
        if self._task.kind == "binary" and isinstance(value, Mapping) and len(value) == 1:
            value = self._both(place, value)
        found["probabilities"] = self._checked_probabilities(self._by_label(place, value, lacking=0.0), place)

    def _both(self, place: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """The probabilities of both labels, from that of one."""
        ((label, p),) = value.items()
        if label not in self._index:
            raise InvalidRequest(f"{place}.{label}: {one_of(label, self._labels)}")
        if not is_number(p) or not 0 <= p <= 1:
            raise InvalidRequest(f"{place}.{label}: a probability between 0 and 1 is wanted here")
        return {label: p, next(one for one in self._labels if one != label): 1 - p}

    def _checked_probabilities(self, values: Vector, place: str) -> Vector:
        if (values < 0).any() or (values > 1).any():
            raise InvalidRequest(f"{place}: {outside_in_words(values, exclusive=self._task.exclusive)}")
        if self._task.exclusive and abs(total := float(values.sum()) - 1) > SLACK:
            raise InvalidRequest(
                f"{place}: they come to {total + 1:.4g}, and those of labels that exclude each other come to 1; if they"
                " are rounded, divide each by their sum, and else add what is missing"
            )
        return values

    def _candidates(self, value: Any, found: dict[str, Any]) -> None:
        """Labels with their probabilities, as an object, or as a list of pairs as some files have it."""
        place, most = "output.candidates", self._host.candidates or 0
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list) or not all(isinstance(one, list | tuple) and len(one) == 2 for one in pairs):
            raise InvalidRequest(f"{place}: an object of labels and probabilities is wanted here, not {kind_of(value)}")
        if not pairs and self._task.exclusive:
            raise InvalidRequest(f"{place}: there is none, and one of all labels is right")
        if len(pairs) > most:
            raise InvalidRequest(f"{place}: there are {len(pairs):,}; at most {most:,} are taken (host.candidates)")
        if any(not isinstance(name, str) for name, _ in pairs):
            raise InvalidRequest(f"{place}: pairs of a label, as a text, and its probability are wanted here")
        if unknown := [name for name, _ in pairs if name not in self._index]:
            raise InvalidRequest(f"{place}.{shown(unknown[0])}: there is no such label among {len(self._index):,}")
        labels = np.array([self._index[name] for name, _ in pairs], dtype=np.int32)
        probabilities = numbers_in(place, [number for _, number in pairs])
        if len(set(labels.tolist())) < len(labels):
            raise InvalidRequest(f"{place}: a label is there twice")
        if (probabilities < 0).any() or (probabilities > 1).any():
            raise InvalidRequest(f"{place}: a probability is not between 0 and 1")
        if self._task.exclusive and (total := float(probabilities.sum())) > 1 + SLACK:
            raise InvalidRequest(f"{place}: they come to {total:.4g}, more than 1")
        order = np.argsort(-probabilities, kind="stable")
        found["candidates"] = labels[order], probabilities[order]

    def _logits(self, value: Any, found: dict[str, Any]) -> None:
        if self._task.kind == "binary" and is_number(value):
            value = [0.0, value]
        found["logits"] = self._by_label("output.logits", value, lacking=None)

    def _by_label(self, place: str, value: Any, *, lacking: float | None) -> Vector:
        """Numbers in the order of the labels. A label that an object does not name has the number `lacking`."""
        if isinstance(value, Mapping):
            if unknown := [label for label in value if label not in self._index]:
                raise InvalidRequest(f"{place}.{unknown[0]}: {one_of(unknown[0], self._labels)}")
            missing = [label for label in self._labels if label not in value]
            if missing and (lacking is None or not self._task.exclusive):
                raise InvalidRequest(f"{place}.{missing[0]}: a number for each label is wanted here, and it is missing")
            value = [value.get(label, lacking) for label in self._labels]
        numbers = numbers_in(place, value)
        if numbers.shape != (len(self._labels),):
            raise InvalidRequest(
                f"{place}: {len(numbers):,} numbers came, and there are {len(self._labels):,} labels:"
                f" {', '.join(self._labels[:20])}"
            )
        return numbers

    def _prediction(self, value: Any, found: dict[str, Any]) -> None:
        place = "output.prediction"
        if self._task.exclusive != isinstance(value, str):
            wanted = "a label" if self._task.exclusive else "a list of labels, which may be empty"
            raise InvalidRequest(f"{place}: {wanted} is wanted here, not {kind_of(value)}")
        named = [value] if isinstance(value, str) else value
        if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
            raise InvalidRequest(f"{place}: a list of labels, which may be empty, is wanted here")
        if unknown := [one for one in named if one not in self._index]:
            raise InvalidRequest(f"{place}: {one_of(unknown[0], self._labels)}")
        found["predicted"] = tuple(sorted({self._index[one] for one in named}))

    def _embedding(self, value: Any, found: dict[str, Any]) -> None:
        numbers = numbers_in("output.embedding", value)
        if len(numbers) != self._host.embedding_size:
            raise InvalidRequest(
                f"output.embedding: {len(numbers):,} numbers came; `host.embedding_size` is"
                f" {self._host.embedding_size:,}"
            )
        found["embedding"] = numbers

    def _passes(self, value: Any, found: dict[str, Any]) -> None:
        place = "output.passes"
        if not isinstance(value, list) or len(value) != self._host.passes:
            raise InvalidRequest(f"{place}: a list of {self._host.passes} passes is wanted here (host.passes)")
        found["passes"] = np.array(
            [
                self._checked_probabilities(self._by_label(f"{place}.{at}", one, lacking=None), f"{place}.{at}")
                for at, one in enumerate(value)
            ]
        )

    def _scores(self, value: Any, found: dict[str, Any]) -> None:
        told = {} if value is None else value
        if not isinstance(told, Mapping):
            raise InvalidRequest(f"output.scores: an object of names and numbers is wanted here, not {kind_of(value)}")
        if unknown := [name for name in told if name not in self._host.scores]:
            raise InvalidRequest(f"output.scores.{unknown[0]}: {one_of(unknown[0], self._host.scores)}")
        found["scores"] = tuple(number_or_nan(f"output.scores.{name}", told.get(name)) for name in self._host.scores)

    def _reply(self, value: Any, found: dict[str, Any]) -> None:
        found["reply"] = read_reply("output.reply", value, self._limits)

    def _samples(self, value: Any, found: dict[str, Any]) -> None:
        if not isinstance(value, list) or len(value) > MOST_SAMPLES:
            raise InvalidRequest(f"output.samples: a list of up to {MOST_SAMPLES} replies is wanted here")
        found["samples"] = tuple(read_reply(f"output.samples.{at}", one, self._limits) for at, one in enumerate(value))

    def _shape(self) -> str:
        return ", ".join(f'"{part}": ...' for part in self._wanted)


def _options(value: Any) -> tuple[str, ...] | None:
    options = value.get("options") if isinstance(value, Mapping) else None
    if not isinstance(options, list) or not all(isinstance(one, str) for one in options):
        return None
    return tuple(options)


def _input_of(row: SpreadRow) -> Any:
    return row.get("input")


def _number_in(value: Any) -> Any:
    """A cell of a file of texts as a number, if it is one."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return None if value == "" else value
