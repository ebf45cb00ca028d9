"""What audits say of real predictions from the labels that a service would have, beside the truth: tables for
docs/evidence/audits.md.

python benchmarks/real/audits.py [--data FOLDER] [--draws 200] [--write docs/evidence/audits.md]
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file, it finds the rooms that it lies beside

import numpy as np
from rich.console import Console
from rich.progress import Progress

from benchmarks import monitor_delays
from benchmarks.monitor_delays import markdown
from benchmarks.real.audit_cases import CASES, AuditCase, labelled_traffic
from benchmarks.real.document import with_tables
from benchmarks.real.splits import SEED
from demur.audit.metrics.calibration import brier, ece, nll
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.selective import prr, rc_auc
from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.judgement import PromiseVerdict
from demur.audit.report.plan import Settings
from demur.uncertainty.checks import Array
from tests.audit.report import simulated_audits
from tests.audit.report.simulated import simulated

SPOT_CHECKS = (0.02, 0.05, 0.2)
SHOWN = 0.05
"""The spot check of which every metric is shown."""

BY_GROUP = "readability"
STREAMS = 1_000
"""Of the monitors' false alarms."""

METRICS: Mapping[str, Callable[[AuditCase], float]] = {
    "selective_risk": lambda c: 1 - float(c.quality[c.confidence >= c.limit].mean()),
    "risk": lambda c: 1 - float(c.quality.mean()),
    "ece": lambda c: ece(c.confidence, c.quality),
    "brier": lambda c: brier(c.confidence, c.quality),
    "nll": lambda c: nll(c.confidence, c.quality),
    "auroc": lambda c: error_roc_auc(c.quality, -c.confidence),
    "prr": lambda c: prr(c.quality, -c.confidence),
    "rc_auc": lambda c: rc_auc(1 - c.quality, -c.confidence),
}
"""What everybody finds who has all the labels."""

WORDS = {
    "selective_risk": "selective risk",
    "risk": "risk",
    "ece": "ECE",
    "ace": "ACE",
    "brier": "Brier",
    "nll": "NLL",
    "citl": "CITL",
    "c_slope": "C-slope",
    "auroc": "AUROC of errors",
    "prr": "PRR",
    "rc_auc": "RC-AUC",
    "macro_f1": "macro F1",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """Many audits of one case at one spot check."""

    numbers: Mapping[str, Array]
    """By metric: [draws, 4], the value, both ends, and the naive value; NaN for what is not said."""

    labelled: Array
    """[draws], labels among the answers."""

    errors: Array
    verdicts: Counter[str]


def document_of(case: AuditCase, rows: Any, spot_check: float, rng: Any, *, replicates: int) -> Mapping[str, Any]:
    asked = AuditSettings(settings=Settings(replicates=replicates), max_risk=case.max_risk)
    return audit(labelled_traffic(case, rows, spot_check, rng), asked).document


def drawn(case: AuditCase, spot_check: float, *, draws: int, replicates: int, step: Callable[[], None]) -> Drawn:
    """Each time other traffic, drawn from the rows with replacement, and other labels."""
    rng = np.random.default_rng(SEED)
    numbers: dict[str, list[list[float]]] = {name: [] for name in METRICS}
    labelled, errors, verdicts = [], [], Counter[str]()
    for _ in range(draws):
        document = document_of(case, rng.integers(len(case), size=len(case)), spot_check, rng, replicates=replicates)
        found = {one["name"]: one for one in document["estimates"] if one["of"] in ("", "confidence")}
        for name, values in numbers.items():
            values.append([_number(found[name][key]) for key in ("value", "lower", "upper", "naive")])
        labelled.append(found["selective_risk"]["labelled"])
        errors.append(found["selective_risk"]["events"])
        verdicts[document["headline"]["verdict"]] += 1
        step()
    return Drawn(
        numbers={name: np.array(values) for name, values in numbers.items()},
        labelled=np.array(labelled),
        errors=np.array(errors),
        verdicts=verdicts,
    )


def tables(cases: Sequence[AuditCase], *, draws: int, replicates: int, step: Callable[[], None]) -> dict[str, str]:
    """By name, as Markdown."""
    every, by_rate = [], []
    for case in cases:
        for spot_check in SPOT_CHECKS:
            found = drawn(case, spot_check, draws=draws, replicates=replicates, step=step)
            by_rate.append(_rate_row(case, spot_check, found))
            if spot_check == SHOWN:
                every += _metric_rows(case, found)
    return {
        "data": markdown(
            ["data", "rows", "what", "answered from", "answered"],
            [
                [c.name, f"{len(c):,}", c.about, f"{c.limit:.3f}", f"{(c.confidence >= c.limit).mean():.1%}"]
                for c in cases
            ],
        ),
        "metrics": markdown(
            [
                "data", "metric", "all labels", "one audit", "mean of the audits", "covered",
                "labelled rows as they stand",
            ],
            every,
        ),
        "spot checks": markdown(
            [
                "data", "spot check", "labels, errors among the answers", "risk of the answers: all labels",
                "mean of the audits", "covered", "mean width", "PRR covered", "no interval", "promised",
                "kept / undecided / broken",
            ],
            by_rate,
        ),
        "groups": _groups([case for case in cases if case.name == BY_GROUP]),
    }  # fmt: skip


def simulation(*, runs: int, step: Callable[[], None]) -> str:
    def draw(rng: np.random.Generator) -> Any:
        step()
        return simulated(simulated_audits.N, rng, threshold=simulated_audits.THRESHOLD)

    found = simulated_audits.audited(draw, runs=runs, replicates=simulated_audits.REPLICATES)
    rows = []
    for name, one in found.items():
        truth = float(one.full.mean())
        rows.append(
            [
                WORDS[name],
                f"{truth:.3f}",
                f"{one.value.mean():.3f} ({one.value.std(ddof=1):.3f})",
                f"{one.bias:+.4f} ± {one.standard_error:.4f}",
                f"{one.covered(truth) / runs:.1%}",
                f"{one.naive.mean():.3f}",
            ]
        )
    head = ["metric", "all labels", "corrected: mean (sd)", "bias ± standard error", "covered"]
    return markdown([*head, "labelled rows as they stand"], rows)


def _metric_rows(case: AuditCase, found: Drawn) -> list[list[str]]:
    whole = np.arange(len(case))
    document = document_of(case, whole, SHOWN, np.random.default_rng(SEED), replicates=Settings().replicates)
    once = {one["name"]: one for one in document["estimates"] if one["of"] in ("", "confidence")}
    rows = []
    for name, metric in METRICS.items():
        truth = metric(case)
        value, _, _, naive = found.numbers[name].T
        rows.append(
            [
                case.name,
                WORDS[name],
                f"{truth:.3f}",
                _with_interval(once[name]),
                _mean(value),
                _covered(found, name, truth),
                _mean(naive),
            ]
        )
    return rows


def _rate_row(case: AuditCase, spot_check: float, found: Drawn) -> list[str]:
    truth, draws = METRICS["selective_risk"](case), len(found.labelled)
    value, lower, upper, _ = found.numbers["selective_risk"].T
    told = ~np.isnan(lower)
    verdicts = (
        found.verdicts[one.value] / draws
        for one in (PromiseVerdict.KEPT, PromiseVerdict.UNDECIDED, PromiseVerdict.BROKEN)
    )
    return [
        case.name,
        f"{spot_check:.0%}",
        f"{found.labelled.mean():.0f}, {found.errors.mean():.1f}",
        f"{truth:.3f}",
        _mean(value),
        _covered(found, "selective_risk", truth),
        _mean(upper - lower),
        _covered(found, "prr", METRICS["prr"](case)),
        f"{1 - told.mean():.0%}",
        f"{case.max_risk:.0%}",
        " / ".join(f"{share:.0%}" for share in verdicts),
    ]


def _groups(cases: Sequence[AuditCase]) -> str:
    """One audit of all rows at the least and the greatest spot check: the numbers of a forest plot."""
    rows = []
    for case in cases:
        documents = [
            document_of(case, np.arange(len(case)), rate, np.random.default_rng(SEED), replicates=Settings().replicates)
            for rate in (SPOT_CHECKS[0], SPOT_CHECKS[-1])
        ]
        cells = [
            {cell["name"]: cell for cell in part["cells"]}
            for document in documents
            for part in document["breakdowns"]
            if part["by"] == "group"
        ]
        for at, group in enumerate(case.groups.names):
            answered = (case.groups.codes == at) & (case.confidence >= case.limit)
            row = [group, f"{answered.sum():,}", f"{1 - case.quality[answered].mean():.3f}"]
            for each in cells:
                risk = each[group]["selective_risk"]
                row += [f"{risk['labelled']}, {risk['errors']}", _with_interval(risk)]
            rows.append(row)
    few, many = (f"{rate:.0%}" for rate in (SPOT_CHECKS[0], SPOT_CHECKS[-1]))
    return markdown(
        [
            "language", "answered", "risk: all labels", f"labels, errors at {few}", f"audit at {few}",
            f"labels, errors at {many}", f"audit at {many}",
        ],
        rows,
    )  # fmt: skip


def _covered(found: Drawn, name: str, truth: float) -> str:
    """The share of the audits with an interval whose interval covers."""
    _, lower, upper, _ = found.numbers[name].T
    told = ~np.isnan(lower)
    if not told.any():
        return "-"
    return f"{((lower <= truth) & (truth <= upper))[told].mean():.1%}"


def _mean(values: Array) -> str:
    """Of those that are said."""
    said = values[~np.isnan(values)]
    return f"{said.mean():.3f}" if len(said) else "-"


def _with_interval(one: Mapping[str, Any]) -> str:
    if one["value"] is None:
        return "insufficient evidence"
    if one["lower"] is None:
        return f"{one['value']:.3f}, no interval"
    return f"{one['value']:.3f} ({one['lower']:.3f} to {one['upper']:.3f})"


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of stored model outputs")
    parser.add_argument("--draws", type=int, default=200, help="audits of each data set at each spot check")
    parser.add_argument("--replicates", type=int, default=199, help="of the bootstrap, in each of them")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced")
    options = parser.parse_args(arguments)
    there = {name: each for name, each in CASES.items() if options.data.joinpath(*each.path).is_file()}
    missing = [name for name in CASES if name not in there]
    if not there:
        print(f"There are no stored model outputs in {options.data}, so there is nothing to audit.")
        return 0
    if missing:
        print(f"Left out, since their files are not in {options.data}: {', '.join(missing)}.")
        if options.write:
            print(f"{options.write} is left as it is: it describes all of the data.")
            return 1
    with Progress(console=Console(stderr=True), transient=True) as bar:
        cases = []
        for name, each in bar.track(there.items(), description="reading and fitting"):
            bar.console.print(f"reading and fitting {name}")
            cases.append(each.read(options.data))
        task = bar.add_task("auditing", total=len(cases) * len(SPOT_CHECKS) * options.draws)
        made = tables(cases, draws=options.draws, replicates=options.replicates, step=lambda: bar.advance(task))
        task = bar.add_task("auditing simulated services", total=simulated_audits.RUNS)
        made["simulation"] = simulation(runs=simulated_audits.RUNS, step=lambda: bar.advance(task))
        task = bar.add_task("monitoring streams", total=monitor_delays.steps(STREAMS))
        made |= monitor_delays.tables(streams=STREAMS, step=lambda: bar.advance(task))
    if options.write:
        document = options.write.read_text(encoding="utf-8")
        options.write.write_text(with_tables(document, made, partly=True), encoding="utf-8")
        print(f"{options.write} is written.")
    else:
        print("\n\n".join(f"## {name}\n\n{table}" for name, table in made.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
