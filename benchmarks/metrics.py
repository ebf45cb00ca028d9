"""How fast the audit's metrics are beside those of other libraries, and how much memory they take: `make bench`.

Ours and the peer's run in turn, so that a noisy machine disturbs both; times are medians, and a ratio below 1 means
that ours is faster. Both get arrays that are in memory already, in the type that each works with.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.peers import Absent, Peers
from demur.audit.metrics import (
    calibration,
    correlation,
    discrimination,
    groups,
    optimal_coverage,
    prediction_sets,
    predictive_quality,
    selective,
)
from demur.audit.metrics.ranking import Ranking
from demur.audit.metrics.top_k import TopK
from demur.policies.conformal import conformal_quantile
from demur.uncertainty.top_k import fit_top_k

CLASSES, LABELS, EXTREME_LABELS, TOP, TOP_ROWS = 10, 20, 670_000, 5, 100_000


@dataclass(frozen=True, kw_only=True)
class Line:
    name: str
    ours: Callable[[], Any]
    peer_name: str
    peer: Callable[[], Callable[[], Any]]
    """Returns what is timed, with its library imported and its input in place."""

    remark: str = ""


def arrays(n: int) -> dict[str, np.ndarray]:
    """Over-confident predictions, a second score, classes, groups, label matrices and option sets of `n` rows."""
    rng = np.random.default_rng(0)
    confidence = rng.beta(4, 1.5, n)
    outcome = (rng.random(n) < confidence**1.3).astype(np.float64)
    y_true = rng.integers(0, CLASSES, n)
    present = rng.random((n, LABELS), dtype=np.float32) < 0.1
    return {
        "confidence": confidence,
        "outcome": outcome,
        "error": 1 - outcome,
        "u": 1 - confidence,
        "second": 1 - confidence + rng.normal(0, 0.1, n),
        "y_true": y_true,
        "y_pred": np.where(outcome == 1, y_true, (y_true + rng.integers(1, CLASSES, n)) % CLASSES),
        "group": rng.integers(0, 8, n),
        "present": present,
        "predicted": present ^ (rng.random((n, LABELS), dtype=np.float32) < 0.02),
        "probabilities": rng.random((n, LABELS)),
    }


def lines(a: SimpleNamespace, p: Peers) -> list[Line]:
    """Every metric that another library has, next to it."""
    c, y, u, t = a.confidence, a.outcome, a.u, p.t
    edges = "its edges are linspace's"
    one = "its confidence 1 has a bin of its own"
    single = "it works in float32"
    clip = "clips at 2.2e-16, ours at 1e-15"
    return [
        Line(
            name="ECE, 15 bins",
            ours=lambda: calibration.ece(c, y),
            peer_name="torchmetrics",
            peer=lambda: _call(p.torch_classes.binary_calibration_error, t.confidence, t.outcome, n_bins=15),
            remark=f"{edges}; {one}",
        ),
        Line(
            name="ECE, 15 bins",
            ours=lambda: calibration.ece(c, y),
            peer_name="netcal",
            peer=lambda: _call(p.netcal.ECE(15, detection=True).measure, c, y),
            remark=edges,
        ),
        Line(
            name="ECE, 15 bins",
            ours=lambda: calibration.ece(c, y),
            peer_name="mapie",
            peer=lambda: _call(p.mapie_calibration.expected_calibration_error, y, c, num_bins=15),
            remark=edges,
        ),
        Line(
            name="MCE, 15 bins",
            ours=lambda: calibration.mce(c, y),
            peer_name="torchmetrics",
            peer=lambda: _call(
                p.torch_classes.binary_calibration_error, t.confidence, t.outcome, n_bins=15, norm="max"
            ),
            remark=f"{edges}; {one}",
        ),
        Line(
            name="ACE, 10 bins",
            ours=lambda: calibration.ace(c, y),
            peer_name="netcal",
            peer=lambda: _call(p.netcal.ACE(10, equal_intervals=False, detection=True).measure, c, y),
            remark="bins of equal mass as well, counted alike; ours by size",
        ),
        Line(
            name="Brier",
            ours=lambda: calibration.brier(c, y),
            peer_name="scikit-learn",
            peer=lambda: _call(p.sklearn.brier_score_loss, y, c),
        ),
        Line(
            name="NLL",
            ours=lambda: calibration.nll(c, y),
            peer_name="scikit-learn",
            peer=lambda: _call(p.sklearn.log_loss, y, c),
            remark=clip,
        ),
        Line(
            name="C-slope",
            ours=lambda: calibration.c_slope(c, y),
            peer_name="scipy",
            peer=lambda: lambda: p.scipy.linregress(c, y).slope,
        ),
        Line(
            name="PRR",
            ours=lambda: selective.prr(y, u),
            peer_name="lm-polygraph",
            peer=p.prr,
            remark="its area code for score and oracle; ties in the order of its sort",
        ),
        Line(name="RC-AUC", ours=lambda: selective.rc_auc(a.error, u), peer_name="lm-polygraph", peer=p.rc_auc),
        Line(
            name="error ROC-AUC",
            ours=lambda: discrimination.error_roc_auc(y, u),
            peer_name="scikit-learn",
            peer=lambda: _call(p.sklearn.roc_auc_score, a.error, u),
        ),
        Line(
            name="error ROC-AUC",
            ours=lambda: discrimination.error_roc_auc(y, u),
            peer_name="torchmetrics",
            peer=lambda: _call(p.torch_classes.binary_auroc, t.u, t.error),
            remark=single,
        ),
        Line(
            name="error AU-PRC",
            ours=lambda: discrimination.error_au_prc(y, u),
            peer_name="scikit-learn",
            peer=lambda: _call(p.sklearn.average_precision_score, a.error, u),
        ),
        Line(
            name="error AU-PRC",
            ours=lambda: discrimination.error_au_prc(y, u),
            peer_name="torchmetrics",
            peer=lambda: _call(p.torch_classes.binary_average_precision, t.u, t.error),
            remark=single,
        ),
        Line(
            name="Spearman",
            ours=lambda: correlation.spearman(u, a.second),
            peer_name="scipy",
            peer=lambda: lambda: p.scipy.spearmanr(u, a.second).statistic,
        ),
        Line(
            name="Spearman",
            ours=lambda: correlation.spearman(u, a.second),
            peer_name="torchmetrics",
            peer=lambda: _call(p.torchmetrics.spearman_corrcoef, t.u, t.second),
            remark=single,
        ),
        Line(
            name="Kendall tau-b",
            ours=lambda: correlation.kendall_tau_b(u, a.second).tau,
            peer_name="scipy",
            peer=lambda: lambda: p.scipy.kendalltau(u, a.second, method="asymptotic").statistic,
            remark="ours calls it, after its checks",
        ),
        Line(
            name="Kendall tau-b with 0/1",
            ours=lambda: correlation.kendall_tau_b(u, y).tau,
            peer_name="scipy",
            peer=lambda: lambda: p.scipy.kendalltau(u, y, method="asymptotic").statistic,
        ),
        Line(
            name=f"macro F1, {CLASSES} classes",
            ours=lambda: predictive_quality.macro_f1(a.y_true, a.y_pred),
            peer_name="scikit-learn",
            peer=lambda: _call(p.sklearn.f1_score, a.y_true, a.y_pred, average="macro"),
        ),
        Line(
            name=f"macro F1, {CLASSES} classes",
            ours=lambda: predictive_quality.macro_f1(a.y_true, a.y_pred),
            peer_name="torchmetrics",
            peer=lambda: _call(p.torch_classes.multiclass_f1_score, t.y_pred, t.y_true, num_classes=CLASSES),
            remark=single,
        ),
        Line(
            name=f"macro F1, {LABELS} labels",
            ours=lambda: predictive_quality.macro_f1_multilabel(a.present, a.predicted),
            peer_name="scikit-learn",
            peer=lambda: _call(p.sklearn.f1_score, a.present, a.predicted, average="macro"),
        ),
        Line(
            name=f"macro F1, {LABELS} labels",
            ours=lambda: predictive_quality.macro_f1_multilabel(a.present, a.predicted),
            peer_name="torchmetrics",
            peer=lambda: _call(p.torch_classes.multilabel_f1_score, t.predicted, t.present, num_labels=LABELS),
            remark=single,
        ),
        Line(
            name=f"Jaccard, {LABELS} labels",
            ours=lambda: predictive_quality.jaccard(a.present, a.predicted).mean,
            peer_name="scikit-learn",
            peer=lambda: _call(p.sklearn.jaccard_score, a.present, a.predicted, average="samples", zero_division=1.0),
        ),
        Line(
            name=f"sets, {LABELS} options",
            ours=lambda: prediction_sets.set_metrics(a.predicted, a.y_true).overall.coverage,
            peer_name="mapie",
            peer=lambda: _mapie_sets(p, a),
            remark="its coverage and mean width; ours has the empty and singleton rates too",
        ),
        Line(
            name="conformal quantile",
            ours=lambda: conformal_quantile(u, 0.1),
            peer_name="mapie",
            peer=lambda: _mapie_quantile(p, u),
            remark="the function inside; +inf for few rows is left to its callers",
        ),
        Line(
            name="conformal quantile",
            ours=lambda: conformal_quantile(u, 0.1),
            peer_name="crepes",
            peer=lambda: _crepes_quantile(p, u),
            remark="fit, and the half-width of one interval",
        ),
    ]


def _call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[], Any]:
    return lambda: function(*arguments, **options)


def _mapie_sets(p: Peers, a: SimpleNamespace) -> Callable[[], float]:
    coverage, width = p.mapie.classification_coverage_score, p.mapie.classification_mean_width_score

    def both() -> float:
        width(a.predicted)
        return float(np.ravel(coverage(a.y_true, a.predicted))[0])

    return both


def _mapie_quantile(p: Peers, u: np.ndarray) -> Callable[[], float]:
    quantile, column, level = p.mapie_utils._compute_classification_quantile, u[:, None], np.array([0.1])
    return lambda: float(np.ravel(quantile(column, level))[0])


def _crepes_quantile(p: Peers, u: np.ndarray) -> Callable[[], float]:
    regressor, point = p.crepes.ConformalRegressor, np.zeros(1)
    return lambda: float(regressor().fit(u).predict_int(point, confidence=0.9)[0, 1])


def compare(line: Line, repeats: int) -> tuple[str, ...]:
    """One row of the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers
        value, _ = _timed(line.ours)  # the first run warms up
        try:
            peer = line.peer()
            other, _ = _timed(peer)
        except Exception as error:  # a missing peer, or one that has changed: a gap in the table, not the end of it
            what, why = ("absent", error) if isinstance(error, Absent) else ("failed", repr(error))
            own = statistics.median(_timed(line.ours)[1] for _ in range(repeats))
            return (line.name, f"{own * 1e3:.1f}", line.peer_name, what, "", "", str(why)[:80])
        pairs = [(_timed(line.ours)[1], _timed(peer)[1]) for _ in range(repeats)]
    own, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = own / theirs
    colour = "green" if ratio <= 1.02 else "red"
    difference = f"{abs(float(value) - float(other)):.1e}"
    return (
        line.name,
        f"{own * 1e3:.1f}",
        line.peer_name,
        f"{theirs * 1e3:.1f}",
        f"[{colour}]{ratio:.2f}[/]",
        difference,
        line.remark,
    )


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    value = function()
    return value, time.perf_counter() - start


def full_set(a: SimpleNamespace) -> int:
    """Every metric of the catalogue that has one entry a row, once; returns how many."""
    c, y, u = a.confidence, a.outcome, Ranking.by("u", a.u)
    rows = (a.y_true, a.y_pred, u)
    top = TopK.of_matrix(a.probabilities, a.present, TOP)
    metrics: list[Callable[[], Any]] = [
        *(
            lambda f=f: f(c, y)
            for f in (
                calibration.calibration_bins,
                calibration.ece,
                calibration.mce,
                calibration.ace,
                calibration.brier,
                calibration.nll,
                calibration.ece_brier_mean,
                calibration.citl,
                calibration.c_slope,
            )
        ),
        *(lambda f=f: f(y, u) for f in (selective.prr, selective.prr_areas, selective.prr_grid)),
        *(
            lambda f=f: f(a.error, u)
            for f in (selective.rc_curve, selective.rc_auc, selective.n_rc_auc, selective.e_aurc)
        ),
        *(lambda f=f: f(y, u) for f in (discrimination.error_roc_auc, discrimination.error_au_prc)),
        *(lambda f=f: f(a.error, u) for f in (discrimination.roc_auc, discrimination.au_prc)),
        lambda: correlation.spearman(u, a.second),
        lambda: correlation.spearman_pooled(u, y),
        lambda: correlation.spearman_per_label(a.probabilities, a.present),
        lambda: correlation.kendall_tau_b(a.u, a.second),
        *(
            lambda f=f: f(*rows)
            for f in (
                optimal_coverage.e_auopt_rc,
                optimal_coverage.excess_auopt_rc,
                optimal_coverage.trust_index,
                optimal_coverage.rejection_report,
            )
        ),
        lambda: optimal_coverage.e_auopt_rc(*rows, risk="macro_f1", rule="trapezoid"),
        lambda: predictive_quality.macro_f1(a.y_true, a.y_pred),
        lambda: predictive_quality.macro_f1_multilabel(a.present, a.predicted),
        lambda: predictive_quality.macro_f1_by_bucket(a.present, a.predicted, ["head", "tail"] * (LABELS // 2)),
        lambda: predictive_quality.jaccard(a.present, a.predicted),
        lambda: calibration.ece_plus(a.probabilities, a.present),
        lambda: prediction_sets.set_metrics(a.predicted, a.y_true, groups=a.group),
        lambda: groups.groupwise("error_roc_auc", a.group, {"correct": y, "u": a.u}),
        *(lambda f=f: f(top) for f in (TopK.ece, TopK.ace, TopK.brier, TopK.nll, TopK.precision)),
    ]
    for metric in metrics:
        metric()
    return len(metrics)


def extreme(rows: int) -> tuple[Callable[[], TopK], float]:
    """The top 5 of 670,000 labels for each row, as a ranker gives them; and the gigabytes of the matrix avoided."""
    rng = np.random.default_rng(0)
    steps = rng.integers(1, EXTREME_LABELS // TOP, (rows, TOP))
    labels = np.cumsum(steps, axis=1) % EXTREME_LABELS
    scores = -np.sort(-rng.random((rows, TOP)), axis=1)
    hit = rng.random((rows, TOP)) < scores
    missed = rng.integers(0, EXTREME_LABELS, rows)  # a true label that was not among the five, or so
    true_rows = np.concatenate([np.nonzero(hit)[0], np.arange(rows)])
    true_labels = np.concatenate([labels[hit], missed])
    return lambda: TopK.of_candidates(scores, labels, true_rows, true_labels, TOP), rows * EXTREME_LABELS * 4 / 1e9


def child(rows: int, what: str) -> None:
    """Measure in a process of its own, whose peak memory is that of the metrics."""
    if what == "full":
        a = SimpleNamespace(**arrays(rows))
        size = sum(array.nbytes for array in vars(a).values())
        before = _peak()
        count, seconds = _timed(lambda: full_set(a))
    else:
        make, _ = extreme(rows)
        size, before = 0, _peak()

        def measure() -> int:
            top = make()
            return len([top.ece(), top.ace(), top.brier(), top.nll(), top.precision()])

        count, seconds = _timed(measure)
    print(json.dumps({"seconds": seconds, "metrics": count, "inputs": size, "before": before, "peak": _peak()}))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _in_child(rows: int, what: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.metrics", "--rows", str(rows), "--child", what]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))  # noqa: S603


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", choices=("full", "top"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.rows, options.child)
        return
    console = Console()
    alone = alone_table(options.rows)  # first: a child's peak memory starts from that of its parent
    data = arrays(options.rows)
    peers = Peers(data)
    table = Table(title=f"{options.rows:,} rows, median of {options.repeats}")
    for column in ("metric", "ours ms", "peer", "peer ms", "ratio", "difference", "remark"):
        table.add_column(column, justify="right" if column in ("ours ms", "peer ms", "ratio", "difference") else "left")
    for line in track(lines(SimpleNamespace(**data), peers), "measuring", console=console, transient=True):
        table.add_row(*compare(line, options.repeats))
    for part in (table, alone, top_table(peers, options.repeats)):
        console.print(part)


def alone_table(rows: int) -> Table:
    table = Table(title="in a process of its own, every metric once, cold")
    for column in ("what", "metrics", "seconds", "peak MB", "inputs MB", "peak before MB"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for what, n, name in (
        ("full", rows, f"the full set, {rows:,} rows"),
        ("top", TOP_ROWS, f"top-k, {TOP_ROWS:,} rows x {TOP} of {EXTREME_LABELS:,} labels"),
    ):
        found = _in_child(n, what)
        sizes = (f"{found[key] / 1e6:,.0f}" for key in ("peak", "inputs", "before"))
        table.add_row(name, str(found["metrics"]), f"{found['seconds']:.2f}", *sizes)
    return table


def top_table(peers: Peers, repeats: int) -> Table:
    make, gigabytes = extreme(TOP_ROWS)
    top = make()
    joint = fit_top_k(top.scores, top.hits)
    table = Table(
        title=f"{TOP_ROWS:,} rows x {TOP} of {EXTREME_LABELS:,} labels; the dense matrix would take {gigabytes:,.0f} GB"
    )
    for column in ("step", "ms", "value"):
        table.add_column(column, justify="left" if column == "step" else "right")
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("candidates and true pairs to top k", make),
        (f"ECE@{TOP}", top.ece),
        (f"ACE@{TOP}", top.ace),
        (f"Brier@{TOP}", top.brier),
        (f"NLL@{TOP}", top.nll),
        (f"P@{TOP}", top.precision),
        ("joint isotonic map: fit", lambda: fit_top_k(top.scores, top.hits)),
        ("joint isotonic map: calibrate", lambda: joint.of(top.scores)),
        (f"separate isotonic maps, {TOP} ranks: fit", lambda: fit_top_k(top.scores, top.hits, mode="separate")),
        (f"ECE@{TOP} after the joint map", lambda: TopK(scores=joint.of(top.scores), hits=top.hits).ece()),
    ]
    try:
        error, torch = peers.torch_classes.binary_calibration_error, sys.modules["torch"]
        scores, hits = torch.from_numpy(top.scores.ravel()), torch.from_numpy(top.hits.ravel()).long()
        steps.append((f"torchmetrics' ECE of the same {scores.numel():,} pairs", _call(error, scores, hits, n_bins=10)))
    except Absent as absent:
        table.caption = str(absent)
    for name, step in steps:
        value = step()
        seconds = statistics.median(_timed(step)[1] for _ in range(repeats))
        table.add_row(
            name,
            f"{seconds * 1e3:.1f}",
            f"{float(value):.6f}" if hasattr(value, "__float__") and np.ndim(value) == 0 else "",
        )
    return table


if __name__ == "__main__":
    main()
