"""Traffic whose truth is known, as METHODS 9.9 draws it: an over-confident model, all held records labelled, and a few
of the answered ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import ndtr

from demur.audit.ledger.ledger import ACTIONS, NONE, CodedColumn, Extent, Ledger

LABELS = tuple(str(digit) for digit in range(10))
START = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulated:
    ledger: Ledger
    right: NDArray[np.float64]
    """[n], what nobody but the simulation knows of every record."""

    true: NDArray[np.intp]
    """[n], the place of the right label in `LABELS`."""


def simulated(
    n: int,
    rng: np.random.Generator,
    *,
    spot_check: float | tuple[float, float] = 0.02,
    threshold: float = 0.9,
    all_known: bool = False,
    reviewed_share: float | Sequence[float] = 1.0,
    per_cluster: int = 0,
    dependence: float = 0.0,
    complaints: float = 0.0,
) -> Simulated:
    """Return records of a week.

    Two spot checks are those of the less sure half of the answers and of the surer one, as a budget that is allocated
    has them. A review share for each of three groups makes these thirds of the rows by how sure the model is; else
    groups mean nothing. With `per_cluster` so many in a row belong together, and `dependence`, in [0, 1], correlates
    what makes their predictions right or wrong. `complaints` is the share of the wrong answers that somebody outside
    complains of, whether or not they were drawn.
    """
    z = rng.normal(2.2, 1.6, n)
    chance = rng.random(n)
    if dependence:
        of_cluster = rng.normal(size=-(-n // per_cluster)).repeat(per_cluster)[:n]
        chance = ndtr(np.sqrt(dependence) * of_cluster + np.sqrt(1 - dependence) * rng.normal(size=n))
    right = (chance < 1 / (1 + np.exp(-z))).astype(float)
    confidence = 1 / (1 + np.exp(-1.35 * z))
    answered = confidence >= threshold
    low, high = spot_check if isinstance(spot_check, tuple) else (spot_check, spot_check)
    surer = confidence >= np.median(confidence[answered])
    probability = np.where(answered, np.where(surer, high, low), 1.0)
    drawn = rng.random(n) < probability
    done = rng.random(n)
    if isinstance(reviewed_share, float):
        reviewed = drawn & (done < reviewed_share)
    else:
        third = (3 * z.argsort().argsort()) // n
        reviewed = drawn & (done < np.array(reviewed_share)[third])
    known = reviewed | all_known
    if complaints:
        known |= answered & (right == 0) & (rng.random(n) < complaints)
    guess = rng.integers(0, 10, n)
    truth = np.where(right == 1, guess, (guess + rng.integers(1, 10, n)) % 10)
    times = np.datetime64("2026-11-01", "us") + np.sort(rng.integers(0, 7 * 86400 * 10**6, n))
    clusters = np.full(n, NONE, dtype=np.int32)
    names: tuple[str, ...] = ()
    ids = rng.bytes(16 * n)
    groups = rng.integers(0, 3, n) if isinstance(reviewed_share, float) else third
    if per_cluster:
        clusters = (np.arange(n) // per_cluster).astype(np.int32)
        names = tuple(f"patient-{at:07d}" for at in range(int(clusters.max()) + 1))
    ledger = Ledger(
        extent=Extent(model="m", since=START, until=START.replace(day=8), as_of=START.replace(day=9)),
        ids=pa.Array.from_buffers(pa.binary(16), n, [None, pa.py_buffer(ids)]),
        times=times,
        actions=CodedColumn(names=ACTIONS, codes=np.where(answered, 0, 1).astype(np.int32)),
        artifacts=CodedColumn(names=("m-1", "m-2"), codes=(np.arange(n) >= n // 2).astype(np.int32)),
        groups=CodedColumn(names=("x", "y", "z"), codes=groups.astype(np.int32)),
        clusters=CodedColumn(names=names, codes=clusters),
        predicted=CodedColumn(names=LABELS, codes=guess.astype(np.int32)),
        true=CodedColumn(names=LABELS, codes=np.where(known, truth, NONE).astype(np.int32)),
        true_probability=np.where(known, np.where(right == 1, confidence, (1 - confidence) / 9), np.nan),
        quality=np.where(known, right, np.nan),
        sources=CodedColumn(names=("review",), codes=np.where(known, 0, NONE).astype(np.int32)),
        confidence=confidence,
        top_probability=1 / (1 + np.exp(-1.8 * z)),
        scores={"softmax_response": 1 - confidence, "entropy": rng.normal(0, 0.1, n) - confidence},
        set_size=np.where(answered, 1.0, 2.0),
        covered=np.where(known, np.maximum(right, np.where(answered, 0, rng.random(n) < 0.5)), np.nan),
        right_labels=np.where(known, 1.0, np.nan),
        label_probability=probability,
        drawn=drawn,
        reviewed=reviewed,
        top=None,
        mentions=None,
    )
    return Simulated(ledger=ledger, right=right, true=truth.astype(np.intp))
