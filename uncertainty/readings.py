"""What replies were read as, as arrays: how often each label was sampled, and which labels were on offer."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput, Mask
from demur.uncertainty.generation import Outage, Replies
from demur.uncertainty.output import Output

INDEX = (int, np.integer)

LEAST = 1e-12
"""The least probability whose logarithm is told: logits are finite."""


def replies_of(output: Output) -> list[Replies | None]:
    """[n], None where there is no reply at all. Raises for a model that writes none."""
    if output.replies is None:
        raise InvalidInput("a score reads the replies of a language model, and the output has none")
    replies: list[Replies | None] = output.replies.tolist()
    return replies


def without_logprobs(output: Output) -> list[str]:
    """[n], why a row's reply came without the log-probabilities that were asked for; empty where it did not, or where
    nobody asked."""
    if output.replies is None:
        return [""] * len(output)
    return ["" if replies is None else replies.first.no_logprobs for replies in output.replies.tolist()]


def outages_in(output: Output) -> list[Outage | None]:
    """[n], why the model could not be asked about a row; None where it could."""
    if output.outages is not None:
        found: list[Outage | None] = output.outages.tolist()
        return found
    if output.replies is None:
        return [None] * len(output)
    return [None if replies is None else replies.outage for replies in output.replies.tolist()]


def per_row(output: Output, score: Callable[[Replies, int], float]) -> Array:
    """[n], the score of each row's replies, given with its position; NaN where they lack what the formula needs."""
    values = np.full(len(output), np.nan)
    for row, replies in enumerate(replies_of(output)):
        if replies is not None:
            values[row] = _or_nan(score, replies, row)
    return values


def per_first_reply(output: Output, score: Callable[[Replies], float]) -> Array:
    """Compute a score that does not look at samples. Rows that share a first reply share its value."""
    before: Replies | None = None
    value = np.nan

    def of(replies: Replies, row: int) -> float:  # noqa: ARG001 - wherever it is
        nonlocal before, value
        if before is None or replies.first is not before.first or replies.spans is not before.spans:
            before, value = replies, np.nan
            value = score(replies)
        return value  # also of one of many completions of the same samples

    return per_row(output, of)


def named_in(reading: Any) -> Iterator[int]:
    """The labels that a reading names: one, or each of several; none where it is a text, or could not be read."""
    if isinstance(reading, tuple):
        yield from (int(label) for label in reading if isinstance(label, INDEX))
    elif isinstance(reading, INDEX):
        yield int(reading)


def predicted_in(replies: Replies, probabilities: Array) -> Any:
    """What is predicted in a row: the most probable label where one is right, else what the first reply was read as."""
    said: Any = replies.said
    return int(probabilities.argmax()) if isinstance(said, INDEX) else said


def shares(output: Output) -> Array:
    """[n, C], the share of each row's samples that name each label; NaN without samples.

    Samples that could not be read stay in the number, so a row may sum to less than 1.
    """
    result: Array = np.full(output.probabilities.shape, np.nan)
    for row, replies in enumerate(replies_of(output)):
        if replies is not None and replies.samples:
            result[row] = _counts(replies.samples, result.shape[1]) / len(replies.samples)
    return result


def sample_probabilities(replies: Replies, n_labels: int) -> Array:
    """[C], the frequencies of labels that exclude each other among a row's samples; NaN where none could be read.

    One that could not be read speaks for all that was on offer alike. The order of samples changes no digit.
    """
    if all(said is None for said in replies.samples):
        return np.full(n_labels, np.nan)
    counts = _counts(replies.samples, n_labels)
    unread = sum(said is None for said in replies.samples)
    offered = [label for option in replies.options or () for label in named_in(option)] or list(range(n_labels))
    counts[offered] += unread / len(offered)
    return np.asarray(counts / len(replies.samples))


def with_sample_probabilities(output: Output) -> Output:
    """Return the output with `sample_probabilities`, and their logarithms as logits."""
    probabilities: Array = np.full(output.probabilities.shape, np.nan)
    for row, replies in enumerate(replies_of(output)):
        if replies is not None:
            probabilities[row] = sample_probabilities(replies, probabilities.shape[1])
    return replace(output, probabilities=probabilities, logits=np.log(np.maximum(probabilities, LEAST)))


def on_offer(output: Output) -> Mask | None:
    """[n, C], False for labels that could not have been chosen in the row; None where all of them always could."""
    if output.replies is None:
        return None
    offered = np.ones(output.probabilities.shape, dtype=bool)
    for row, replies in enumerate(replies_of(output)):
        options = None if replies is None else replies.options
        labels = [label for option in options or () for label in named_in(option)]
        if labels:
            offered[row] = False
            offered[row, labels] = True
    return offered


def _counts(samples: Sequence[Any], n_labels: int) -> Array:
    counts = np.zeros(n_labels)
    for reading, times in Counter(samples).items():
        for label in named_in(reading):
            counts[label] += times
    return counts


def _or_nan(score: Callable[[Replies, int], float], replies: Replies, row: int) -> float:
    """A formula refuses what is missing or is no log-probability; a single row of it must not stop its neighbours."""
    try:
        return score(replies, row)
    except InvalidInput:
        return np.nan
