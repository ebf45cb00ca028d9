"""What a model hands over for a batch: probabilities, and whatever else the configured scores asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from uncertainty.checks import Array, Mask, same_length

Need = Literal["probabilities", "embedding", "mc_probabilities"]
"""A field of `Output` that costs something to make. Hosts compute those that are needed and no more."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """One batch of `n` rows. A row may hold NaN or infinity: `usable` says which rows do not."""

    logits: Array
    """[n, C], before the softmax."""

    probabilities: Array
    """[n, C]."""

    embedding: Array | None = None
    """[n, d], what the classification head was given."""

    mc_probabilities: Array | None = None
    """[n, T, C], one slice for each Monte-Carlo dropout pass."""

    def __post_init__(self) -> None:
        same_length(**self.parts())

    @classmethod
    def from_logits(cls, logits: Array, *, embedding: Array | None = None, mc_logits: Array | None = None) -> "Output":
        logits = np.asarray(logits, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # a row of NaN or infinity stays one, and is not usable
            return cls(
                logits=logits,
                probabilities=softmax(logits, axis=-1),
                embedding=None if embedding is None else np.asarray(embedding, dtype=np.float64),
                mc_probabilities=None if mc_logits is None else softmax(mc_logits.astype(np.float64), axis=-1),
            )

    def __len__(self) -> int:
        return len(self.logits)

    def parts(self) -> dict[str, Array]:
        """The arrays that are there, by field name."""
        named = {
            "logits": self.logits,
            "probabilities": self.probabilities,
            "embedding": self.embedding,
            "mc_probabilities": self.mc_probabilities,
        }
        return {name: array for name, array in named.items() if array is not None}

    def usable(self) -> Mask:
        """Rows in which every number is finite."""
        rows = np.ones(len(self), dtype=bool)
        for array in self.parts().values():
            rows &= np.isfinite(array.reshape(len(self), -1)).all(axis=1)
        return rows

    def rows(self, index: Mask | NDArray[np.intp]) -> "Output":
        return Output(**{name: array[index] for name, array in self.parts().items()})

    @classmethod
    def concatenate(cls, batches: Sequence["Output"]) -> "Output":
        """Join batches that hold the same parts."""
        names = batches[0].parts()
        return cls(**{name: np.concatenate([batch.parts()[name] for batch in batches]) for name in names})


@dataclass(frozen=True, kw_only=True)
class LabelledOutput:
    """A batch whose right answers are known."""

    output: Output

    classes: NDArray[np.intp]
    """[n], index of the right label."""

    def __len__(self) -> int:
        return len(self.output)

    @property
    def correct(self) -> Array:
        """[n], 1 where the most probable label is the right one."""
        right = self.output.probabilities.argmax(axis=1) == self.classes
        return np.asarray(right, dtype=np.float64)

    def rows(self, index: Mask | NDArray[np.intp]) -> "LabelledOutput":
        return LabelledOutput(output=self.output.rows(index), classes=self.classes[index])
