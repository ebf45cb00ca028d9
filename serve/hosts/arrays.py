"""Arrays that a model gave, checked and made an `Output`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.serve.config.task import TaskConfig
from demur.serve.contract.user_code import in_words
from demur.serve.hosts.kind import BadModelOutput
from demur.uncertainty.checks import Array, InvalidInput
from demur.uncertainty.output import Output


class ArrayReader:
    """Reads what a model gave for the labels of a task. Every method raises `BadModelOutput`.

    A row with NaN or infinity is let through: it is held, and its neighbours are not.
    """

    def __init__(self, task: TaskConfig, name: str) -> None:
        """`name` is what people call the model."""
        self._task, self._name = task, name

    def probabilities(self, found: Any, rows: int, *, of: str, embedding: Array | None = None) -> Output:
        """Read probabilities [rows, labels]; of a binary task, [rows] of the second label will do. `of`
        says what gave them."""
        values = self._columns(self.numbers(found, of=of), rows, of=of)
        try:
            return Output.from_probabilities(values, link=self._task.link, embedding=embedding, tree=self._task.tree)
        except InvalidInput as error:
            raise BadModelOutput(f"{of} of {self._name}: {error}") from None

    def logits(self, found: Any, rows: int, *, of: str, embedding: Array | None = None) -> Output:
        """Read what comes before the softmax or the sigmoid, [rows, labels]; of a binary task, [rows] will do."""
        values = self.numbers(found, of=of)
        if self._is_positive_alone(values, rows):
            values = np.column_stack([np.zeros(rows), values.reshape(rows)])
        elif values.shape != (rows, len(self._task.outputs)):
            raise self._wrong(values, of, f"[{rows}, {len(self._task.outputs)}], a column for each label")
        return Output.from_logits(values, link=self._task.link, embedding=embedding, tree=self._task.tree)

    def embedding(self, found: Any, rows: int, *, of: str) -> Array:
        """Read vectors [rows, d]."""
        values = self.numbers(found, of=of)
        if values.ndim != 2 or len(values) != rows or not values.shape[1]:
            raise self._wrong(values, of, f"[{rows}, d], a row for each input")
        return values

    def numbers(self, found: Any, *, of: str) -> Array:
        """Read an array of any shape, and copy it: a model may use its own again. What is masked is NaN. Texts are no
        numbers, whatever they say."""
        try:
            _check_numbers(array := np.asarray(found))
            numbers = np.array(array, dtype=np.float64)
        except Exception as error:  # what a model gives may be of any class
            raise BadModelOutput(f"{of} of {self._name} gave no array of numbers: {in_words(error)}") from None
        if isinstance(found, np.ma.MaskedArray):
            numbers[np.ma.getmaskarray(found)] = np.nan
        return numbers

    def _columns(self, values: Array, rows: int, *, of: str) -> Array:
        if self._is_positive_alone(values, rows):
            positive = values.reshape(rows)
            return np.column_stack([1 - positive, positive])
        if values.shape != (rows, len(self._task.outputs)):
            raise self._wrong(values, of, f"[{rows}, {len(self._task.outputs)}], a column for each label")
        return values

    def _is_positive_alone(self, values: Array, rows: int) -> bool:
        return self._task.kind == "binary" and values.shape in ((rows,), (rows, 1))

    def _wrong(self, found: Array, of: str, right: str) -> BadModelOutput:
        return BadModelOutput(f"{of} of {self._name} gave {list(found.shape)}; it should give {right}")


def _check_numbers(array: NDArray[Any]) -> None:
    """Raise `TypeError` for what NumPy would make numbers of and is none, such as a text or a time."""
    kind = array.dtype.kind
    if kind in "SU" or (kind == "O" and any(isinstance(one, str | bytes) for one in array.flat)):
        raise TypeError("there are texts in it")
    if kind not in "fiubO":
        raise TypeError(f"its elements are {array.dtype}")
