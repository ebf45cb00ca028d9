"""What was decided in force and what in the shadow about the same records, as columns."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from demur.traffic.database import Connection
from demur.traffic.outcomes import THE_ONE_OF_R, Precedence, listed
from demur.traffic.record import Answer


@dataclass(frozen=True, kw_only=True)
class ShadowSide:
    """One of two artifacts that decided about the same `n` records."""

    predictions: list[Answer | None]
    actions: list[str]
    confidence: NDArray[np.float64]
    """[n], NaN where it was unknown."""


@dataclass(frozen=True, kw_only=True)
class ShadowedTraffic:
    """Records of one model that one artifact decided in the shadow, in order of time, with the outcomes that
    count."""

    ids: list[str]
    artifacts: list[str | None]
    """Who decided what the caller was told: the artifact in force at the time, or a canary."""

    told: ShadowSide
    shadow: ShadowSide
    label_probability: NDArray[np.float64]
    """[n], the chance that a person was asked, as it stood when the record was written."""

    outcomes: list[Answer | None]
    """None where nobody has said what is true."""

    reviewed: NDArray[np.bool_]
    """[n], whether a person was asked and has answered. Other outcomes came unasked: from a caller, say."""

    model_milliseconds: NDArray[np.float64]
    shadow_milliseconds: NDArray[np.float64]
    """[n], what the model and then the shadow took for the batch that the record was in: for so long its caller waited.
    NaN where it was not noted."""

    def __len__(self) -> int:
        return len(self.ids)


def read_shadowed(
    connection: Connection,
    model: str,
    shadow: str,
    *,
    precedence: Precedence,
    since: datetime | None = None,
    until: datetime | None = None,
) -> ShadowedTraffic:
    """Return the records decided in [since, until) about which the artifact `shadow` decided as well."""
    rows = connection.execute(
        "select r.id, r.artifact, r.label_probability, o.label,"
        "       r.prediction, r.action, r.confidence, s.prediction, s.action, s.confidence,"
        "       exists (select from outcomes where record_id = r.id and source = 'review'),"
        "       (r.timings ->> 'model')::float8, (r.timings ->> 'shadow')::float8"
        f" from records r join shadow_decisions s on s.record_id = r.id left join lateral {THE_ONE_OF_R} o on true"
        " where r.model = %(model)s and s.artifact = %(shadow)s"
        "   and r.created_at >= coalesce(%(since)s::timestamptz, '-infinity')"
        "   and r.created_at < coalesce(%(until)s::timestamptz, 'infinity')"
        " order by r.created_at, r.id",
        {"model": model, "shadow": shadow, "since": since, "until": until, "precedence": listed(precedence)},
    ).fetchall()
    columns = list(zip(*rows, strict=True)) if rows else [()] * 13
    return ShadowedTraffic(
        ids=[str(value) for value in columns[0]],
        artifacts=list(columns[1]),
        label_probability=np.array(columns[2], dtype=np.float64),
        outcomes=list(columns[3]),
        told=_side(*columns[4:7]),
        shadow=_side(*columns[7:10]),
        reviewed=np.array(columns[10], dtype=bool),
        model_milliseconds=np.array(columns[11], dtype=np.float64),
        shadow_milliseconds=np.array(columns[12], dtype=np.float64),
    )


def _side(
    predictions: tuple[Answer | None, ...], actions: tuple[str, ...], confidence: tuple[float | None, ...]
) -> ShadowSide:
    # None becomes NaN
    return ShadowSide(
        predictions=list(predictions), actions=list(actions), confidence=np.array(confidence, dtype=np.float64)
    )
