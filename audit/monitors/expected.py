"""How many of the latest answers confidence expects to be wrong: an estimate without labels, and no finding."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

from demur.audit.metrics.unlabelled_risk import expected_risk
from demur.audit.monitors.reference import DriftComparison, UnlabelledRecord


@dataclass(frozen=True, kw_only=True)
class ExpectedWrong:
    """METHODS 10.10. It assumes that the calibration still holds, and enters no verdict."""

    estimate: float
    """Mean of 1 - confidence over the answers."""

    standard_error: float
    """The chance of the outcomes alone."""

    n: int
    """Answers among the latest records."""

    unlike: bool
    """Whether the records are not like the reference any more, so that the estimate is not to be relied on."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def expected_from_json(document: Mapping[str, Any] | None) -> ExpectedWrong | None:
    """What `as_json` wrote down; None for what was written before there was any."""
    return None if document is None else ExpectedWrong(**document)


def expected_wrong(
    latest: Sequence[UnlabelledRecord], comparison: DriftComparison, *, delta: float
) -> ExpectedWrong | None:
    """Return the estimate of the answers among the `latest` records; None where none has a known confidence.

    Records are unlike the reference where Holm's test at `delta` rejects one of the tests of confidence, scores and
    predicted labels.
    """
    answered = [row.confidence for row in latest if not row.held and not isnan(row.confidence)]
    if not answered:
        return None
    known = list(_p_values(comparison))
    found = expected_risk(answered, drift_p_values=known or None, delta=delta)
    return ExpectedWrong(
        estimate=found.estimate, standard_error=found.standard_error, n=found.n_answered, unlike=bool(found.warning)
    )


def _p_values(comparison: DriftComparison) -> Iterable[float]:
    told = [p for one in comparison.drifts for p in (one.psi_p_value, one.ks_p_value)]
    return [p for p in (*told, comparison.labels_p_value) if p is not None]
