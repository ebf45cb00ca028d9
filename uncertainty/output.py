"""What a model hands over for a batch: probabilities, and whatever else the configured scores asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from demur.uncertainty.answers import Answers
from demur.uncertainty.checks import ROW_SUM_TOLERANCE, Array, InvalidInput, Mask, outside_in_words, same_length
from demur.uncertainty.label_tree import LabelTree

Need = Literal[
    "probabilities",
    "logits",
    "embedding",
    "mc_probabilities",
    "reply",
    "logprobs",
    "top_logprobs",
    "samples",
    "stated",
    "rating",
    "given",
]
"""What costs something to make: a field of `Output`, or of its `replies`. Hosts make what is needed and no more. Who
needs `logits` needs those of the model itself: logarithms of its probabilities will not do."""

LEAST_PROBABILITY = 1e-300
"""Stands for a probability of 0 where its logarithm is wanted."""

FARTHEST_SUM = 1e-3
"""How far the probabilities of labels that exclude each other may be from 1 together: single precision is coarse."""

OF_REPLIES: frozenset[Need] = frozenset({"reply", "logprobs", "top_logprobs", "samples", "stated", "rating"})
"""What only a language model can give."""

NOT_READ = -np.inf
"""A score of a device whose embedding or passes have a number that is not finite: its row is not usable."""

NO_LABEL = -1

Link = Literal["softmax", "sigmoid"]
"""How logits become probabilities: of labels that exclude each other, or of labels that each hold or not."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """One batch of `n` rows. A row may hold NaN or infinity: `usable` says which rows do not."""

    logits: Array
    """[n, C], before the softmax or the sigmoid."""

    probabilities: Array
    """[n, C]."""

    embedding: Array | None = None
    """[n, d], what the classification head was given."""

    mc_probabilities: Array | None = None
    """[n, T, C], one slice for each Monte-Carlo dropout pass."""

    given: Array | None = None
    """[n, S], numbers that came with a prediction that was made elsewhere; NaN for one that did not come."""

    slots: NDArray[np.int32] | None = None
    """[n, C], where rows name candidates among very many labels: the label of each column, NO_LABEL where a row has
    fewer candidates. Such a column has the probability 0; or, where labels exclude each other, what all others share.
    None: each column is one label."""

    device_scores: NDArray[np.void] | None = None
    """[n], with a field of float64 for each score that the model's own device made, so that what it reads need not be
    here; NaN where a score is undefined, NOT_READ where what it reads is not a number. None: there is no such score."""

    replies: NDArray[np.object_] | None = None
    """[n], `Replies` of a language model."""

    unreadable: NDArray[np.object_] | None = None
    """[n], why nothing could be read from the model's reply, None where something could. None: there is no such row."""

    outages: NDArray[np.object_] | None = None
    """[n], `Outage` where the server of the model could not be asked about a row; such a row is unreadable as well.
    None: there is no such row. Those of a language model are in its `replies`."""

    def __post_init__(self) -> None:
        parts = self.parts()
        if len({len(array) for array in parts.values()}) > 1:
            same_length(**parts)  # says what differs

    @classmethod
    def from_logits(
        cls,
        logits: Array,
        *,
        link: Link = "softmax",
        embedding: Array | None = None,
        mc_logits: Array | None = None,
        tree: LabelTree | None = None,
    ) -> "Output":
        """Softmax takes a single logit z as those of two labels, (0, z). Labels under a tree are closed upwards here,
        in every pass, so that whatever is made of them sees them closed."""
        logits = _of_labels(logits, link, tree)
        with np.errstate(invalid="ignore"):  # a row of NaN or infinity stays one, and is not usable
            return cls(
                logits=logits,
                probabilities=_probabilities(logits, link),
                embedding=None if embedding is None else np.asarray(embedding, dtype=np.float64),
                mc_probabilities=None if mc_logits is None else _probabilities(_of_labels(mc_logits, link, tree), link),
            )

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Any,
        *,
        link: Link = "softmax",
        embedding: Any = None,
        mc_probabilities: Any = None,
        tree: LabelTree | None = None,
    ) -> "Output":
        """Probabilities [n, C] as a model gives them, and of repeated passes [n, T, C]. Logits are their logarithms.

        NaN is let through: its row is not usable, and its neighbours are. Rows of labels that exclude each other come
        to 1; where rounding has left a trace, they are scaled. Anything else raises `InvalidInput`.
        """
        rows = _checked(probabilities, link)
        with np.errstate(invalid="ignore"):
            logits = np.log(np.maximum(rows, LEAST_PROBABILITY))
            if link == "sigmoid":
                logits -= np.log(np.maximum(1 - rows, LEAST_PROBABILITY))
        if tree is not None:
            return cls.from_logits(logits, link=link, embedding=embedding, tree=tree)
        return cls(
            logits=logits,
            probabilities=rows,
            embedding=None if embedding is None else np.asarray(embedding, dtype=np.float64),
            mc_probabilities=None if mc_probabilities is None else _checked(mc_probabilities, link),
        )

    def __len__(self) -> int:
        return len(self.logits)

    def parts(self) -> dict[str, Any]:
        """The arrays that are there, by field name."""
        named = {
            "logits": self.logits,
            "probabilities": self.probabilities,
            "embedding": self.embedding,
            "mc_probabilities": self.mc_probabilities,
            "given": self.given,
            "slots": self.slots,
            "device_scores": self.device_scores,
            "replies": self.replies,
            "unreadable": self.unreadable,
            "outages": self.outages,
        }
        return {name: array for name, array in named.items() if array is not None}

    def only(self, needs: frozenset[Need], device_scores: Sequence[str] = ()) -> "Output":
        """Return the output with these parts and scores of the device alone: nobody looks at what was made for
        others."""
        wanted = {"logits", "probabilities", "slots", "unreadable", "outages", *needs}
        if needs & OF_REPLIES:
            wanted.add("replies")
        found = {name: array for name, array in self.parts().items() if name in wanted}
        if self.device_scores is not None:
            made = self.device_scores.dtype.names or ()
            if kept := [name for name in device_scores if name in made]:
                found["device_scores"] = self.device_scores[kept]
        return Output(**found)

    def needed(self, part: Need) -> Array:
        """Return a part that a score cannot do without."""
        try:
            found: Array = self.parts()[part]
            return found
        except KeyError:
            raise InvalidInput(f"a score needs the {part.replace('_', ' ')}, and the output has none") from None

    def device_score(self, name: str) -> Array:
        """Return [n], a score that the model's device made. Raises `InvalidInput` where it did not."""
        if self.device_scores is None or name not in (self.device_scores.dtype.names or ()):
            raise InvalidInput(f"the model's device did not make the score {name}")
        return np.asarray(self.device_scores[name])

    @cached_property
    def answers(self) -> Answers:
        """The tokens of the answers, the same object for every score that reads them. Raises for a model that writes
        nothing."""
        if self.replies is None:
            raise InvalidInput("a score reads the replies of a language model, and the output has none")
        return Answers(self.replies.tolist())

    def usable(self) -> Mask:
        """Rows that could be read, and in which every number is finite, also of what a device made scores of. A number
        in `given` may be missing: that leaves only the score undefined that reads it."""
        rows = self.readable()
        for name, array in self.parts().items():
            if name == "device_scores":
                for score in array.dtype.names:
                    rows &= array[score] != NOT_READ
            elif array.dtype != object and name != "given" and not np.isfinite(array).all():
                rows &= np.isfinite(array.reshape(len(self), -1)).all(axis=1)
        return rows

    def readable(self) -> Mask:
        """Rows in which the model's reply could be read; of a classifier, all."""
        if self.unreadable is None:
            return np.ones(len(self), dtype=bool)
        return np.array([why is None for why in self.unreadable.tolist()], dtype=bool)

    def why_unusable(self) -> list[str | None]:
        """[n], in words for whoever waits; None where all that is known is that a number is missing."""
        return [None] * len(self) if self.unreadable is None else self.unreadable.tolist()

    def rows(self, index: Mask | NDArray[np.intp] | slice) -> "Output":
        return Output(**{name: array[index] for name, array in self.parts().items()})

    @classmethod
    def concatenate(cls, batches: Sequence["Output"]) -> "Output":
        """Join batches that hold the same parts, but for what only some of them could not read or ask."""
        parts = [batch.parts() for batch in batches]
        for name in ("unreadable", "outages"):
            if any(name in of_batch for of_batch in parts):
                parts = [{name: np.full(len(batch), None), **one} for batch, one in zip(batches, parts, strict=True)]
        return cls(**{name: np.concatenate([of_batch[name] for of_batch in parts]) for name in parts[0]})


@dataclass(frozen=True, kw_only=True)
class LabelledOutput:
    """A batch whose right answers are known."""

    output: Output

    truth: Mask
    """[n, C], True for the right label, or for each label that holds."""

    exclusive: bool
    """Exactly one label is right for each row."""

    groups: NDArray[np.object_] | None = None
    """[n], the caller's word for where each input comes from, None where there is none; None: there is none at all."""

    weights: Array | None = None
    """[n], how many rows of the traffic each stands for; None: they are a plain sample, and stand for one each."""

    clusters: NDArray[np.intp] | None = None
    """[n], numbers of the clusters, such as patients, that rows belong to; None: each row is one of its own."""

    def __post_init__(self) -> None:
        same_length(output=self.output, **{name: one for name, one in self._beside().items() if one is not None})
        if self.truth.shape != self.output.probabilities.shape:
            raise InvalidInput(f"truth is {self.truth.shape}; the probabilities are {self.output.probabilities.shape}")

    @classmethod
    def of_classes(cls, output: Output, classes: NDArray[np.intp]) -> "LabelledOutput":
        """Rows with one right label each, given by its index."""
        truth = classes[:, None] == np.arange(output.probabilities.shape[1])
        return cls(output=output, truth=truth, exclusive=True)

    def __len__(self) -> int:
        return len(self.output)

    @property
    def classes(self) -> NDArray[np.intp]:
        """[n], index of the right label; a single class for all rows if labels do not exclude each other."""
        return np.asarray(self.truth.argmax(axis=1) if self.exclusive else np.zeros(len(self), dtype=np.intp))

    def rows(self, index: Mask | NDArray[np.intp] | slice) -> "LabelledOutput":
        beside = {name: None if one is None else one[index] for name, one in self._beside().items()}
        return LabelledOutput(
            output=self.output.rows(index), truth=self.truth[index], exclusive=self.exclusive, **beside
        )

    def _beside(self) -> dict[str, Any]:
        return {"groups": self.groups, "weights": self.weights, "clusters": self.clusters}


def _of_labels(values: Array, link: Link, tree: LabelTree | None) -> Array:
    logits = np.asarray(values, dtype=np.float64)
    if tree is not None:
        if link == "softmax":
            raise InvalidInput("labels that exclude each other cannot lie above each other")
        return tree.over_outputs(logits)
    if link == "softmax" and logits.shape[-1] == 1:
        return np.concatenate([np.zeros_like(logits), logits], axis=-1)
    return logits


def _probabilities(logits: Array, link: Link) -> Array:
    return np.asarray(softmax(logits, axis=-1) if link == "softmax" else expit(logits))


def _checked(probabilities: Any, link: Link) -> Array:
    rows = np.array(probabilities, dtype=np.float64)
    outside = ((rows < 0) | (rows > 1 + ROW_SUM_TOLERANCE)).any(axis=-1)
    if outside.any():
        raise InvalidInput(outside_in_words(rows[outside][0], exclusive=link == "softmax"))
    rows = np.minimum(rows, 1)
    if link == "sigmoid":
        return rows
    sums = rows.sum(axis=-1)
    off = np.abs(sums - 1)
    if (off > FARTHEST_SUM).any():
        raise InvalidInput(
            f"the probabilities of a row come to {sums.flat[np.nanargmax(off)]:.4g}, and labels that exclude each other"
            " come to 1"
        )
    rounded = off > ROW_SUM_TOLERANCE
    rows[rounded] /= sums[rounded][..., np.newaxis]
    return rows
