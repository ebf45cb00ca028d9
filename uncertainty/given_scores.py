"""Numbers that came with a prediction that was made elsewhere, as scores."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from demur.uncertainty.checks import Array
from demur.uncertainty.output import LabelledOutput, Need, Output


@dataclass(frozen=True, kw_only=True)
class GivenScore:
    """One of the numbers that each request brings. Nothing is fitted."""

    column: int
    """Which one, in the order of the configuration."""

    surer: bool = False
    """Whether a higher number means that the model is surer; the score is then its negative."""

    needs: ClassVar[frozenset[Need]] = frozenset({"given"})

    def fit(self, rows: LabelledOutput, quality: Array) -> Self:  # noqa: ARG002 - nothing to learn
        return self

    def of(self, output: Output) -> Array:
        """Return [n], higher when less sure; NaN where a request did not bring the number."""
        values = output.needed("given")[:, self.column]
        return np.asarray(-values if self.surer else values.copy())
