"""How often a risk monitor alarms for nothing, and how soon after the risk of the answers doubles.

python -m benchmarks.monitor_delays [--streams 1000]

Streams are of labelled answers, since an answer without a label changes nothing. Where label probabilities are mixed,
one label in ten was drawn with ten times the least probability, and weighs a tenth.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from demur.audit.metrics.risk_monitor import STARTS, risk_monitor
from demur.uncertainty.checks import Array

SEED = 20261121
TARGET = 0.02
DELTA = 0.05
DELTA_EACH = 1e-4
"""The start `each` has a rate of alarms in the place of a chance of one."""

FLOOR = 0.02
"""The least label probability: of the answers, 2% are checked."""

CHANCES: Mapping[str, tuple[float, float]] = {"one": (1.0, FLOOR), "mixed": (0.9, 10 * FLOOR)}
"""The share of the labels that were drawn with the least probability, and the probability of the others."""

AT_TARGET = 10_000
"""Labels of a stream whose risk is the target all the time."""

AFTER = 6_000
"""Labels after a change; what is not found within them is not found."""


@dataclass(frozen=True, kw_only=True)
class Change:
    labels_before: int
    risk_before: float
    risk_after: float


CHANGES = (
    Change(labels_before=0, risk_before=TARGET, risk_after=2 * TARGET),
    Change(labels_before=1_000, risk_before=TARGET, risk_after=2 * TARGET),
    Change(labels_before=5_000, risk_before=TARGET, risk_after=2 * TARGET),
    Change(labels_before=1_000, risk_before=TARGET / 2, risk_after=2 * TARGET),
    Change(labels_before=1_000, risk_before=TARGET / 2, risk_after=3 * TARGET),
)

Step = Callable[[], None]


def alarm_of(risks: Array, chances: str, start: str, rng: np.random.Generator) -> int | None:
    """The number of the label at which a monitor alarms; errors have these risks [t], given the past."""
    share, other = CHANCES[chances]
    n = len(risks)
    probability = np.where(rng.random(n) < share, FLOOR, other)
    errors = (rng.random(n) < risks).astype(float)
    delta = DELTA_EACH if start == "each" else DELTA
    return risk_monitor(errors, np.ones(n), probability, TARGET, FLOOR, delta=delta, start=start).alarm_at


def false_alarms(
    start: str, chances: str, *, streams: int, labels: int, rng: np.random.Generator, step: Step = lambda: None
) -> NDArray[np.intp]:
    """The label of the alarm of each stream that alarmed, with the risk at the target all the time."""
    found = []
    for _ in range(streams):
        at = alarm_of(np.full(labels, TARGET), chances, start, rng)
        found += [] if at is None else [at]
        step()
    return np.array(found, dtype=np.intp)


def delays(
    change: Change, start: str, chances: str, *, streams: int, rng: np.random.Generator, step: Step = lambda: None
) -> Array:
    """Labels from the change to the alarm; inf where there is none, and nothing of streams that alarmed before it."""
    risks = np.concatenate([np.full(change.labels_before, change.risk_before), np.full(AFTER, change.risk_after)])
    found = []
    for _ in range(streams):
        at = alarm_of(risks, chances, start, rng)
        if at is None or at > change.labels_before:
            found.append(np.inf if at is None else float(at - change.labels_before))
        step()
    return np.array(found)


def tables(*, streams: int, step: Step = lambda: None) -> dict[str, str]:
    """By name, as Markdown."""
    rng = np.random.default_rng(SEED)
    quiet = []
    for start in STARTS[:2]:
        for chances in CHANCES:
            found = false_alarms(start, chances, streams=streams, labels=AT_TARGET, rng=rng, step=step)
            median = f"{np.median(found):,.0f}" if len(found) else "-"
            quiet.append([start, chances, f"{streams:,}", f"{AT_TARGET:,}", f"{len(found) / streams:.1%}", median])
    late = []
    for change in CHANGES:
        for chances in CHANCES:
            cells = [_delay(delays(change, s, chances, streams=streams // 4, rng=rng, step=step)) for s in STARTS]
            late.append(
                [f"{change.labels_before:,}", f"{change.risk_before:g} to {change.risk_after:g}", chances, *cells]
            )
    return {
        "false alarms": markdown(
            ["start", "label probabilities", "streams", "labels each", "ever alarmed", "median label of the alarm"],
            quiet,
        ),
        "delays": markdown(["labels before", "risk", "label probabilities", *(f"`{s}`" for s in STARTS)], late),
    }


def steps(streams: int) -> int:
    """How often `tables` calls its `step`."""
    return 2 * len(CHANCES) * streams + len(CHANGES) * len(CHANCES) * len(STARTS) * (streams // 4)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _delay(found: Array) -> str:
    """The median; and the ninth decile, where so many alarms came."""
    median, late = np.quantile(found, [0.5, 0.9], method="higher")
    return " / ".join(f"{x:,.0f}" if np.isfinite(x) else f"over {AFTER:,}" for x in (median, late))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--streams", type=int, default=1_000, help="of each kind at the target; a fourth of it changes")
    options = parser.parse_args()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("streams", total=steps(options.streams))
        made = tables(streams=options.streams, step=lambda: bar.advance(task))
    print("\n\n".join(f"## {name}\n\n{table}" for name, table in made.items()))


if __name__ == "__main__":
    main()
