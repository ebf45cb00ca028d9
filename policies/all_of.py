"""A rule behind gates: whatever a gate stops is held, and the rule promises something of what passes them all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from demur.policies.conformal import conformal_quantile
from demur.policies.decision import Action, Assessment, Decisions
from demur.policies.promise import Promise
from demur.policies.rules import Policy, PolicyRecipe
from demur.policies.threshold import Otherwise, ScoreGate
from demur.uncertainty.checks import InvalidInput, Mask, UnknownScore, fraction, real_number, whole_number


class Gate(Protocol):
    """A fitted gate."""

    @property
    def otherwise(self) -> str:
        """What becomes of what is stopped."""
        ...

    @property
    def reads(self) -> frozenset[str]:
        """The scores that it looks at."""
        ...

    def passes(self, assessed: Assessment) -> Mask:
        """[n], False where anything is unknown."""
        ...

    def reasons(self, assessed: Assessment, rows: Sequence[int]) -> list[str]:
        """Why these rows are stopped."""
        ...


class GateRecipe(Protocol):
    """A gate as it is configured, before it has seen data."""

    @property
    def reads(self) -> frozenset[str]:
        """The scores that it looks at."""
        ...

    @property
    def acts_on_sets(self) -> bool:
        """Whether it reads the size of the prediction set, and so cannot do without sets."""
        ...

    @property
    def learns(self) -> bool:
        """Whether what it stops hangs on calibration data."""
        ...

    def fit(self, assessed: Assessment) -> Gate: ...


@dataclass(frozen=True, kw_only=True)
class InDistribution:
    """`in_distribution`: stops what is stranger than a share `quantile` of the calibration data is, by a score such as
    `mahalanobis` or `local_outlier_factor`; or what has a score above a given `max`.

    On traffic like the calibration data at most a share 1 - `quantile` is stopped, on average over such data.
    """

    score: str
    quantile: float | None = None
    max: float | None = None
    otherwise: Otherwise = "review"

    acts_on_sets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (self.quantile is None) == (self.max is None):
            raise InvalidInput(f"the gate of {self.score} takes either a `quantile` of the calibration data or a `max`")
        if self.quantile is not None:
            fraction("quantile", self.quantile, open_low=True, open_high=True)
        if self.max is not None:
            real_number("max", self.max)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.score})

    @property
    def learns(self) -> bool:
        return self.quantile is not None

    def fit(self, assessed: Assessment) -> ScoreGate:
        if self.quantile is None:
            limit, meaning = float(self.max or 0.0), "the limit in the configuration"
        else:
            values = assessed.scores[self.score]
            known = values[np.isfinite(values)]  # what is unknown is stopped, whatever the limit
            if not len(known):
                raise UnknownScore(f"the gate of {self.score}: the score is unknown in every row; choose another one")
            limit = conformal_quantile(known, 1 - self.quantile)
            meaning = f"which at least {100 * self.quantile:g}% of the calibration data do not exceed"
        return ScoreGate(score=self.score, limit=limit, meaning=meaning, otherwise=self.otherwise)


@dataclass(frozen=True, kw_only=True)
class SmallSet:
    """`set_size`: stops a prediction set of more than `at_most` labels, or one without the prediction."""

    at_most: int = 1
    otherwise: Otherwise = "review"

    reads: ClassVar[frozenset[str]] = frozenset()
    acts_on_sets: ClassVar[bool] = True
    learns: ClassVar[bool] = True  # the sets do

    def __post_init__(self) -> None:
        whole_number("at_most", self.at_most, least=1)

    def fit(self, assessed: Assessment) -> "SmallSet":  # noqa: ARG002 - the sets are fitted, not the gate
        return self

    def passes(self, assessed: Assessment) -> Mask:
        return np.asarray((assessed.set_size <= self.at_most) & assessed.in_set)

    def reasons(self, assessed: Assessment, rows: Sequence[int]) -> list[str]:
        return [
            f"{assessed.set_size[row]} labels cannot be ruled out {assessed.set_promise}; at most {self.at_most} may be"
            if assessed.set_size[row] > self.at_most
            else f"what is predicted is ruled out {assessed.set_promise}"
            for row in rows
        ]


@dataclass(frozen=True, kw_only=True)
class Parsable:
    """`parsable`: what cannot be read is held under every rule; this says as what."""

    otherwise: Otherwise = "review"

    reads: ClassVar[frozenset[str]] = frozenset()
    acts_on_sets: ClassVar[bool] = False
    learns: ClassVar[bool] = False

    def fit(self, assessed: Assessment) -> "Parsable":  # noqa: ARG002 - nothing to learn
        return self

    def passes(self, assessed: Assessment) -> Mask:
        return ~np.isnan(assessed.confidence)

    def reasons(self, assessed: Assessment, rows: Sequence[int]) -> list[str]:  # noqa: ARG002
        return ["the model's reply could not be read, and what is unknown is held"] * len(rows)


GATES: dict[str, Callable[..., GateRecipe]] = {
    "in_distribution": InDistribution,
    "set_size": SmallSet,
    "parsable": Parsable,
}

FITTED_GATES = (ScoreGate, SmallSet, Parsable)
"""What an artifact may hold in the place of a gate."""


@dataclass(frozen=True, kw_only=True)
class Gated:
    """Fitted gates before a fitted rule."""

    gates: list[Gate]
    rule: Policy

    @property
    def otherwise(self) -> str:
        """What becomes of an output that is not a number."""
        return next((gate.otherwise for gate in self.gates if isinstance(gate, Parsable)), self.rule.otherwise)

    @property
    def promise(self) -> Promise | None:
        """The promise of the rule. It was fitted on rows that pass the gates, so it speaks of what is answered in the
        end."""
        return self.rule.promise

    @property
    def reads(self) -> frozenset[str]:
        return self.rule.reads.union(*(gate.reads for gate in self.gates))

    def decide(self, assessed: Assessment) -> Decisions:
        decided = self.rule.decide(assessed)
        actions, reasons = list(decided.actions), list(decided.reasons)
        for gate in reversed(self.gates):  # the first gate that stops a row has the last word
            stopped = np.flatnonzero(~gate.passes(assessed)).tolist()
            for row, reason in zip(stopped, gate.reasons(assessed, stopped), strict=True):
                actions[row], reasons[row] = Action(gate.otherwise), reason
        return Decisions(actions=tuple(actions), reasons=tuple(reasons))


@dataclass(frozen=True, kw_only=True)
class AllOf:
    """`all_of`: gates and one main rule, all of which must agree to an answer.

    The gates are fitted, and fixed, before the rule sees its rows; the rule is fitted on those of them that pass. So a
    rule that certifies does so for the answers that leave the service (METHODS 4.5). What prediction sets promise is
    still said of all rows, whatever a gate makes of their size.
    """

    rule: PolicyRecipe
    gates: tuple[GateRecipe, ...]

    @property
    def certifies(self) -> bool:
        return self.rule.certifies

    @property
    def otherwise(self) -> str:
        return next((gate.otherwise for gate in self.gates if isinstance(gate, Parsable)), self.rule.otherwise)

    @property
    def reads(self) -> frozenset[str]:
        return self.rule.reads.union(*(gate.reads for gate in self.gates))

    @property
    def acts_on_sets(self) -> bool:
        return self.rule.acts_on_sets or any(gate.acts_on_sets for gate in self.gates)


def fitted_gates(recipe: PolicyRecipe | AllOf, assessed: Assessment) -> list[Gate]:
    """The gates of a policy, fitted on rows that its rule will not be fitted on if it certifies; none for most."""
    return [gate.fit(assessed) for gate in recipe.gates] if isinstance(recipe, AllOf) else []


def passing(gates: Sequence[Gate], assessed: Assessment) -> Mask:
    """[n], True for rows that every gate lets through."""
    passed = np.ones(len(assessed), dtype=bool)
    for gate in gates:
        passed &= gate.passes(assessed)
    return passed


def behind(gates: list[Gate], rule: Policy) -> Policy:
    """The rule behind its gates."""
    return Gated(gates=gates, rule=rule) if gates else rule


def gates_of(policy: Policy) -> list[Gate]:
    """The gates of a fitted policy."""
    return policy.gates if isinstance(policy, Gated) else []
