"""Texts that are to be ranked, with a label where one is known."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from demur.serve.contract.inputs import InputLimits, InputSpec, InvalidRequest
from demur.serve.contract.reading.inputs import read_input
from demur.traffic.file_form import FileForm
from demur.traffic.table_file import BadDataFile, no_column, rows_of


@dataclass(frozen=True, kw_only=True)
class Instances:
    """The rows of a file, in its order."""

    path: Path
    inputs: list[str]
    labels: list[str | None]

    @cached_property
    def distinct(self) -> list[str]:
        """Inputs that are the same are one player: nothing is compared with itself."""
        return list(dict.fromkeys(self.inputs))

    @property
    def sha256(self) -> str:
        """A hash of the inputs alone: labels may come later, and change no comparison."""
        return hashlib.sha256(json.dumps(self.distinct).encode()).hexdigest()


def read_instances(path: Path, known: Sequence[str], limits: InputLimits, form: FileForm | None = None) -> Instances:
    """Read rows with an `input` and perhaps a `label`, one of those that are `known`. Raises `BadDataFile`."""
    form = form or FileForm()
    inputs, labels = list[str](), list[str | None]()
    for where, row in rows_of(path, form):
        if form.input not in row:
            raise BadDataFile(f"{where}: {no_column(form.input, row, form.setting('input_column'))}")
        label = None if row.get(form.label) in (None, "") else str(row[form.label])  # an empty cell of a .csv is none
        if label is not None and label not in known:
            raise BadDataFile(f"{where}: the label is {label!r}, and the model has {' and '.join(known)}")
        try:
            text = read_input(row[form.input], InputSpec(kind="text"), limits)
        except InvalidRequest as error:
            raise BadDataFile(f"{where}: {error}") from None
        assert isinstance(text, str)
        inputs.append(text)
        labels.append(label)
    instances = Instances(path=path, inputs=inputs, labels=labels)
    if len(instances.distinct) < 2:
        raise BadDataFile(f"{path}: ranking takes two different inputs at least; there are {len(instances.distinct)}")
    return instances
