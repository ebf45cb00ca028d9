"""When enough replies are sampled: once no further ones could change what is decided."""

import logging
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from demur.policies.selector import Selector
from demur.serve.config.prompt import SamplesConfig
from demur.serve.contract.model import MoreSamples
from demur.uncertainty.checks import Mask
from demur.uncertainty.generation import Replies, as_column
from demur.uncertainty.output import Output
from demur.uncertainty.readings import replies_of, with_sample_probabilities

log = logging.getLogger("demur.language")

MOST_COMPLETIONS = 2000
"""Of one row. With more ways to go on it is not asked whether all of them lead to one decision."""


def more(selectors: Sequence[Selector], samples: SamplesConfig) -> MoreSamples:
    """Return what a language model asks about a batch: which rows [n] need samples, or further ones.

    Nobody needs them where no selector reads samples of such a row. With `stop: decision` a row needs no more than
    `samples.min` once every selector decides, on what is there, as it would on every possible completion to
    `samples.max`: the same action, and the same prediction. That is exact, and costs nothing in what is decided; the
    scores and the confidence on the record are those of the samples that were drawn.
    """

    def wanted(output: Output) -> Mask:
        wants = np.zeros(len(output), dtype=bool)
        for selector in selectors:
            wants |= _wanted(selector, output)
        drawn = np.array([0 if one is None else len(one.samples) for one in replies_of(output)])
        wants &= drawn < samples.max
        if samples.stop is None or samples.min is None:
            return wants
        for row in np.flatnonzero(wants & (drawn >= samples.min)).tolist():
            wants[row] = not _settled(output.rows(slice(row, row + 1)), selectors, samples.max)
        return wants

    return wanted


def completions(replies: Replies, most: int) -> Iterator[tuple[Hashable | None, ...]]:
    """Every way in which the samples may go on until there are `most`: how often each option comes, and how often what
    cannot be read. The order of samples counts for nothing."""
    return combinations_with_replacement(_outcomes(replies), most - len(replies.samples))


def n_completions(replies: Replies, most: int) -> int:
    rest = most - len(replies.samples)
    return comb(rest + len(replies.options or ()), rest)


def _settled(row: Output, selectors: Sequence[Selector], most: int) -> bool:
    """Whether every selector decides about this one row as on every completion."""
    (replies,) = replies_of(row)
    if replies is None or not replies.options or n_completions(replies, most) > MOST_COMPLETIONS:
        return False
    outcomes, rest = _outcomes(replies), most - len(replies.samples)
    one_sided = _with(row, replies, ((outcome,) * rest for outcome in outcomes))
    if not all(
        _decides_alike(selector, one_sided) for selector in selectors
    ):  # for most rows that is all there is to do
        return False
    possible = _with(row, replies, completions(replies, most))
    return all(_decides_alike(selector, possible) for selector in selectors)


def _with(row: Output, replies: Replies, completions: Iterable[tuple[Hashable | None, ...]]) -> Output:
    """The row as it is, and then with its samples completed in each way."""
    ways = [replace(replies, samples=(*replies.samples, *rest)) for rest in completions]
    return replace(row.rows(np.zeros(1 + len(ways), dtype=np.intp)), replies=as_column([replies, *ways]))


def _outcomes(replies: Replies) -> tuple[Hashable | None, ...]:
    return (*(replies.options or ()), None)


def _wanted(selector: Selector, output: Output) -> Mask:
    try:
        return selector.wants_more(output.only(selector.needs))
    except Exception:  # one that cannot judge will say so when it is asked to; until then nobody else is to suffer
        log.debug("a selector does not know what it needs", exc_info=True)
        return output.readable()


def _decides_alike(selector: Selector, possible: Output) -> bool:
    """Whether it comes to one action and one prediction about all rows."""
    output = with_sample_probabilities(possible) if selector.sampled else possible
    try:
        judged = selector.decide(output.only(selector.needs))
    except Exception:
        log.debug("a selector cannot decide", exc_info=True)
        return False
    actions = judged.decisions.actions
    return all(action is actions[0] for action in actions) and bool((judged.predicted == judged.predicted[0]).all())
