"""How far isotonic brings ECE down by the number of rows it is fitted on: a table for docs/evidence/models.md.

python -m benchmarks.real.isotonic_sizes [--data FOLDER] [--write docs/evidence/models.md]
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.real.confidence import right
from benchmarks.real.noise_floor import noise_floor
from benchmarks.real.one_table import options_of, put
from benchmarks.real.predictions import Predictions
from benchmarks.real.sources import SOURCES
from benchmarks.real.splits import SEED, halves
from benchmarks.real.tables import table
from benchmarks.real.verdicts import NEAR_FLOOR
from demur.audit.metrics.calibration import ece
from demur.uncertainty.class_probability import softmax_response
from demur.uncertainty.isotonic import Isotonic

SIZES = (200, 400, 800, 1_600, 2_000)
"""Rows to fit on, and as many to measure on: the floor of an ECE falls with these."""

TIMES = 4
DRAWS = 25


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """Means over the splits of one model."""

    before: float
    after: float
    floor_before: float
    floor_after: float


def measure(read: Predictions, size: int) -> Calibrated:
    rng = np.random.default_rng(SEED)
    found = []
    for part in halves(read.groups, times=TIMES):
        fit, test = (read.rows.rows(rng.permutation(rows)[:size]) for rows in (part.fit, part.test))
        u, of_test = softmax_response(fit.output.probabilities), softmax_response(test.output.probabilities)
        after = Isotonic().fit(1 - u, right(fit)).confidence(1 - of_test)
        truth = right(test)
        floors = [noise_floor(ece, one, draws=DRAWS, rng=rng) for one in (1 - of_test, after)]
        found.append([ece(1 - of_test, truth), ece(after, truth), *floors])
    before, after_, floor_before, floor_after = np.mean(found, axis=0)
    return Calibrated(before=before, after=after_, floor_before=floor_before, floor_after=floor_after)


def row(size: int, found: Sequence[Calibrated]) -> tuple[str, ...]:
    ratios = [one.after / one.before for one in found]
    reachable = [one for one in found if one.before >= 10 * one.floor_after]
    tenth = sum(one.after <= 0.1 * one.before for one in reachable)
    near = sum(one.after <= NEAR_FLOOR * one.floor_after for one in found)
    return (
        f"{size:,}",
        f"{np.median([one.before for one in found]):.3f}",
        f"{np.median([one.after for one in found]):.3f}",
        f"{np.median([one.floor_after for one in found]):.3f}",
        f"{np.median(ratios):.2f}",
        f"{sum(ratio <= 0.1 for ratio in ratios)} of {len(found)}",
        f"{tenth} of {len(reachable)}",
        f"{near} of {len(found)}",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(__doc__ or "", arguments)
    sources = [source for source in SOURCES if source.is_in(options.data)]
    models = [each for source in sources for each in source.read(options.data / source.folder)]
    enough = [each for each in models if each.rows.exclusive and len(each) >= 2 * SIZES[-1]]
    if not enough:
        print(f"There are no stored model outputs in {options.data}, so there is nothing to measure.")
        return 0
    rows = [
        row(size, [measure(each, size) for each in enough])
        for size in track(SIZES, "fitting", console=Console(stderr=True), transient=True)
    ]
    header = ("rows to fit and to measure on", "ECE before", "ECE after", "its floor", "after / before", "to a tenth")
    made = table((*header, "to a tenth where the floor allows it", f"within {NEAR_FLOOR} floors"), rows)
    put({"isotonic by size": made}, options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
