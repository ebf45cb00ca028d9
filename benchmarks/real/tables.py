"""The tables of docs/evidence/models.md, as Markdown."""

from collections.abc import Iterable, Sequence

from benchmarks.real.confidence import BEFORE, CALIBRATORS
from benchmarks.real.label_confidence import KS
from benchmarks.real.measurement import Measurement
from benchmarks.real.predictions import Source
from benchmarks.real.spread import Spread
from benchmarks.real.verdicts import best_by, verdicts

IN_FULL = (
    "mBERT, fold against the others",
    "mBERT, fold 4 alone",
    "gemma-2-9b-it, MMLU",
    "mistral-7b, HellaSwag",
    "Qwen-14B, mean of 4 prompts",
    "qwen25_32b",
)
"""Models that are shown with every metric and every score: the extremes of the longer tables, and the ensemble."""

SHORT = {"softmax response": "SR", "entropy": "ENT", "refusal mass": "refusal"}

WITH_REFUSALS = ("softmax response", "refusal mass")

METRICS = ("ECE", "floor", "ACE", "Brier", "NLL", "PRR", "AUROC", "accuracy")


def tables(sources: Sequence[Source], measured: Sequence[Measurement]) -> dict[str, str]:
    """By name: see the markers in the document."""
    one_label = [m for m in measured if m.exclusive]
    scored = [m for m in one_label if m.scores]
    return {
        "data": _data(sources, measured),
        "verdicts": table(("asked", "of", "found"), verdicts(measured)),
        "calibration": _calibration(one_label),
        "in full": _in_full([m for m in one_label if m.model in IN_FULL]),
        "labels": _labels([m for m in measured if not m.exclusive]),
        "other metrics of labels": _other_metrics([m for m in measured if not m.exclusive]),
        "ranking": _ranking([m for m in scored if "SMP" not in m.scores]),
        "scores": _scores([m for m in measured if m.model in IN_FULL or "SMP" in m.scores or not m.exclusive]),
    }


def _data(sources: Sequence[Source], measured: Sequence[Measurement]) -> str:
    rows = []
    for source in sources:
        own = [m for m in measured if m.data == source.name]
        if not own:
            continue
        sizes = sorted({m.n for m in own})
        count = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        left_out = sum(m.left_out for m in own)
        treated = source.treatment + (f" ({left_out} in all)" if left_out else "")
        rows.append((source.name, str(len(own)), count, source.group, treated, source.origin, source.licence))
    return table(("data", "models", "rows of each", "kept together", "what the reader does", "from", "licence"), rows)


def _calibration(measured: Sequence[Measurement]) -> str:
    header = ("data", "model", "accuracy", *(f"ECE {name}" for name in CALIBRATORS), "floor", "PRR", "PRR isotonic")
    rows = []
    for m in measured:
        errors = [_with_sd(m.calibrators[name]["ECE"]) for name in CALIBRATORS]
        before, isotonic = m.calibrators[BEFORE], m.calibrators["isotonic"]
        ends = (_plain(isotonic["floor"]), _plain(before["PRR"]), _plain(isotonic["PRR"]))
        rows.append((m.data, m.model, _plain(before["accuracy"]), *errors, *ends))
    return table(header, rows)


def _in_full(measured: Sequence[Measurement]) -> str:
    rows = [
        (m.model, name, *(_with_sd(values[metric]) for metric in METRICS))
        for m in measured
        for name, values in m.calibrators.items()
    ]
    return table(("model", "calibrator", *METRICS), rows)


def _labels(measured: Sequence[Measurement]) -> str:
    rows = []
    for m in measured:
        for name, values in m.calibrators.items():
            cells = [
                (_with_sd(values[f"ECE@{k}"], 4), _plain(values[f"floor@{k}"], 4), _plain(values[f"P@{k}"], 5))
                for k in KS
            ]
            rows.append((name, *(text for cell in cells for text in cell)))
    return table(("calibrator", *(f"{metric}@{k}" for k in KS for metric in ("ECE", "floor", "P"))), rows)


def _other_metrics(measured: Sequence[Measurement]) -> str:
    columns = [*(f"{metric}@{k}" for metric in ("ACE", "Brier", "NLL") for k in KS), "PRR", "AUROC"]
    rows = [
        (name, *(_plain(values[column]) for column in columns))
        for m in measured
        for name, values in m.calibrators.items()
    ]
    return table(("calibrator", *columns), rows)


def _ranking(measured: Sequence[Measurement]) -> str:
    """The best in bold, but for the ECE after calibration, whose differences are mostly noise."""
    names = list(dict.fromkeys(name for m in measured for name in m.scores))
    rows = []
    for m in measured:
        cells = []
        for metric in ("PRR", "ECE before", "ECE after"):
            best = None if metric == "ECE after" else best_by(m, metric, lower=metric != "PRR")
            for name in names:
                text = _plain(m.scores[name][metric]) if name in m.scores else ""
                cells.append(f"**{text}**" if name == best else text)
        refused = [
            _plain(m.scores_with_refusals[name]["PRR"]) if m.scores_with_refusals else "" for name in WITH_REFUSALS
        ]
        rows.append((m.model, *cells, _plain(m.scores["softmax response"]["floor"]), *refused))
    short = [SHORT.get(name, name) for name in names]
    header = [f"{metric} {name}" for metric in ("PRR", "ECE", "ECE iso.") for name in short]
    refused = [f"PRR {SHORT[name]}, refusals wrong" for name in WITH_REFUSALS]
    return table(("model", *header, "floor SR", *refused), rows)


def _scores(measured: Sequence[Measurement]) -> str:
    columns = ("PRR", "AUROC", "ECE before", "ECE after", "floor", "Brier after")
    rows = [
        (m.model, name, *(_with_sd(values[column]) for column in columns))
        for m in measured
        for name, values in m.scores.items()
    ]
    return table(("model", "score", *columns), rows)


def _with_sd(value: Spread, digits: int = 3) -> str:
    return f"{value.mean:.{digits}f} ± {value.sd:.{digits}f}"


def _plain(value: Spread, digits: int = 3) -> str:
    return f"{value.mean:.{digits}f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
