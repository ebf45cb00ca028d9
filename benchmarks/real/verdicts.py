"""How often the findings of the papers hold on these data."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.real.confidence import BEFORE, CALIBRATORS
from benchmarks.real.label_confidence import KS
from benchmarks.real.measurement import Measurement

NEAR_FLOOR = 1.5
"""An ECE is called as good as chance allows up to so many times its floor."""

Verdict = tuple[str, str, str]
"""What is asked, of what, and the answer."""


def verdicts(measured: Sequence[Measurement]) -> Iterator[Verdict]:
    one_label = [m for m in measured if m.exclusive]
    many_labels = [m for m in measured if not m.exclusive]
    several_scores = [m for m in measured if m.scores]
    if one_label:
        yield from _of_isotonic("one label, ECE", one_label, "isotonic", [("ECE", "floor")])
        yield from _of_calibrators(one_label)
    if many_labels:
        yield from _of_isotonic(
            "many labels, ECE@1, @3, @5", many_labels, "isotonic, joint", [(f"ECE@{k}", f"floor@{k}") for k in KS]
        )
    if several_scores:
        yield from _of_scores(several_scores)


def _of_isotonic(
    of: str, measured: Sequence[Measurement], isotonic: str, columns: Sequence[tuple[str, str]]
) -> Iterator[Verdict]:
    """Of the means over splits."""
    pairs = [(m.calibrators[BEFORE], m.calibrators[isotonic], *names) for m in measured for names in columns]
    cases = [
        (before[error].mean, before[floor].mean, after[error].mean, after[floor].mean)
        for before, after, error, floor in pairs
    ]
    ratios = sorted(after / before for before, _, after, _ in cases)
    yield "isotonic leaves a tenth of the ECE, or less", of, _count(ratio <= 0.1 for ratio in ratios)
    seen = [(before, after) for before, _, after, floor in cases if before >= 10 * floor]
    if seen:
        tenth = _count(after <= 0.1 * before for before, after in seen)
        yield "... where a tenth of the ECE before is not below the floor after", of, tenth
    middle = ratios[len(ratios) // 2]
    yield (
        "ECE after isotonic / ECE before: smallest, median, largest",
        of,
        f"{ratios[0]:.2f}, {middle:.2f}, {ratios[-1]:.2f}",
    )
    yield (
        f"ECE before is within {NEAR_FLOOR} times its floor",
        of,
        _count(before <= NEAR_FLOOR * floor for before, floor, _, _ in cases),
    )
    yield (
        f"ECE after isotonic is within {NEAR_FLOOR} times its floor",
        of,
        _count(after <= NEAR_FLOOR * floor for _, _, after, floor in cases),
    )


def _of_calibrators(measured: Sequence[Measurement]) -> Iterator[Verdict]:
    for metric in ("ECE", "Brier", "NLL"):
        best = []
        for m in measured:
            means = {name: values[metric].mean for name, values in m.calibrators.items()}
            best.append(min(means, key=means.__getitem__))
        counts = ", ".join(f"{name} {best.count(name)}" for name in CALIBRATORS)
        yield f"which has the smallest {metric}", "one label", counts


def _of_scores(measured: Sequence[Measurement]) -> Iterator[Verdict]:
    of = "models with several scores"
    best = [best_by(m, "PRR", lower=False) for m in measured]
    for metric, when in (
        ("ECE before", "ECE before calibration"),
        ("ECE after", "ECE after its own isotonic"),
        ("Brier after", "Brier score after its own isotonic"),
    ):
        same = (name == best_by(m, metric, lower=True) for m, name in zip(measured, best, strict=True))
        yield f"the best-ranking score (PRR) has the smallest {when}", of, _count(same)
    gaps = sorted(_width(m, "ECE before") for m in measured), sorted(_width(m, "ECE after") for m in measured)
    for name, widths in zip(("before", "after isotonic"), gaps, strict=True):
        yield f"largest less smallest ECE of a model's scores, {name}: median", of, f"{widths[len(widths) // 2]:.3f}"


def best_by(m: Measurement, metric: str, *, lower: bool) -> str:
    """The score of the smallest, or largest, mean over splits."""
    sign = 1 if lower else -1
    return min(m.scores, key=lambda name: sign * m.scores[name][metric].mean)


def _width(m: Measurement, metric: str) -> float:
    means = [values[metric].mean for values in m.scores.values()]
    return max(means) - min(means)


def _count(holds: Iterable[bool]) -> str:
    answers = list(holds)
    return f"{sum(answers)} of {len(answers)}"
