"""How often repeated rows break a promise if each counts as a row, and if all copies of one count once.

python -m benchmarks.repeated_rows [--fits 400] [--write docs/evidence/repeated-rows.md]

The score says nothing of errors, and one answer in ten and a hair is wrong: every limit that is found breaks the
promise of at most one in ten. It may be found in as many fits as `delta` says. Each fit is that of `demur fit`: rows
for the report, the calibrator and the rule are set apart, and the rule is chosen on its own.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.real.document import with_tables
from benchmarks.real.tables import table
from demur.calibration_store.fitting import fit_selectors
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.platt import Platt
from demur.uncertainty.scores import SCORES

SEED = 20261126
RISK, MAX_RISK, DELTA = 0.101, 0.1, 0.1
ROWS = 1_000
COPIES = (1, 3, 5, 10)
SCORE = "softmax_response"
Method = Literal["sgr", "ltt_fixed_sequence"]
METHODS: tuple[Method, ...] = ("sgr", "ltt_fixed_sequence")
LIMITS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.88, 0.9, 0.92)
REPORT_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Frequency:
    """How many of the fits made a promise, and so broke it."""

    broken: int
    fits: int

    def __str__(self) -> str:
        return f"{self.broken / self.fits:.1%}"


def labelled(copies: int, rng: np.random.Generator, *, told: bool) -> LabelledOutput:
    """Return rows, each `copies` times, with equal labels. `told`: with what belongs together."""
    own = np.arange(ROWS) // copies
    sure, wrong = rng.uniform(0.5, 1, ROWS)[own], (rng.random(ROWS) < RISK)[own]
    return LabelledOutput(
        output=Output.from_logits(np.log(np.stack([sure, 1 - sure], axis=1)), link="softmax"),
        truth=wrong.astype(int)[:, None] == np.arange(2),
        exclusive=True,
        clusters=own if told else None,
    )


def frequency(copies: int, method: Method, *, told: bool, fits: int) -> Frequency:
    recipe = SelectorRecipe(
        scores={SCORE: SCORES[SCORE]()},
        confidence_score=SCORE,
        calibrator=Platt(),
        policy=SelectiveRisk(max_risk=MAX_RISK, delta=DELTA, method=method, limits=LIMITS),
    )
    rng, broken = np.random.default_rng([SEED, copies]), 0
    for seed in range(fits):
        fit = fit_selectors(
            {"m": recipe},
            {"m": labelled(copies, rng, told=told)},
            report=lambda *_: {},
            cross_report=lambda *_: {},
            report_share=REPORT_SHARE,
            rng=np.random.default_rng([SEED, seed]),
        )
        broken += bool(fit.promises[0][1].feasible)
    return Frequency(broken=broken, fits=fits)


def by_copies(fits: int, console: Console) -> str:
    """The table: copies of each row, and for each method how many fits break their promise."""
    rows = []
    for copies in track(COPIES, "fitting", console=console, transient=True):
        cells = [str(frequency(copies, method, told=told, fits=fits)) for method in METHODS for told in (False, True)]
        rows.append((f"{copies}", f"{ROWS // copies:,}", *cells))
    words = [f"`{method}`, {what}" for method in METHODS for what in ("by rows", "by clusters")]
    return table(("copies of each row", "different rows", *words), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--fits", type=int, default=400)
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    options = parser.parse_args(arguments)
    made = {"copies": by_copies(options.fits, Console(stderr=True))}
    if options.write:
        options.write.write_text(with_tables(options.write.read_text(encoding="utf-8"), made), encoding="utf-8")
        print(f"{options.write} is written.")
    else:
        print(made["copies"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
