"""When enough replies are sampled: once no further ones could change what is decided."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from policies.judgement import Judgement
from policies.selector import Selector
from serve.host_config import SamplesConfig
from uncertainty.checks import Mask
from uncertainty.generation import Replies, as_column
from uncertainty.output import Output
from uncertainty.readings import replies_of, with_sample_probabilities

MOST_COMPLETIONS = 2000
"""Of one row. With more ways to go on it is not asked whether all of them lead to one decision."""

More = Callable[[Output], Mask]


def more(selectors: Sequence[Selector], samples: SamplesConfig) -> More:
    """Return what a language model asks about a batch: which rows [n] need samples, or further ones.

    Nobody needs them where no selector reads samples of such a row. With `stop: decision` a row needs no more than
    `samples.min` once every selector decides, on what is there, as it would on every possible completion to
    `samples.max`: the same action, and the same prediction. That is exact, and costs nothing in what is decided; the
    scores and the confidence on the record are those of the samples that were drawn.
    """

    def wanted(output: Output) -> Mask:
        wants = np.zeros(len(output), dtype=bool)
        for selector in selectors:
            wants |= selector.wants_more(output)
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
    outcomes = (*(replies.options or ()), None)
    return combinations_with_replacement(outcomes, most - len(replies.samples))


def n_completions(replies: Replies, most: int) -> int:
    rest = most - len(replies.samples)
    return comb(rest + len(replies.options or ()), rest)


def _settled(row: Output, selectors: Sequence[Selector], most: int) -> bool:
    """Whether every selector decides about this one row as on every completion."""
    (replies,) = replies_of(row)
    if replies is None or not replies.options or n_completions(replies, most) > MOST_COMPLETIONS:
        return False
    ways = [replace(replies, samples=(*replies.samples, *rest)) for rest in completions(replies, most)]
    possible = replace(row.rows(np.zeros(1 + len(ways), dtype=np.intp)), replies=as_column([replies, *ways]))
    return all(_one_decision(selector.decide(_as_read(selector, possible))) for selector in selectors)


def _as_read(selector: Selector, possible: Output) -> Output:
    output = with_sample_probabilities(possible) if selector.sampled else possible
    return output.only(selector.needs)


def _one_decision(judged: Judgement) -> bool:
    actions = judged.decisions.actions
    return all(action is actions[0] for action in actions) and bool((judged.predicted == judged.predicted[0]).all())
