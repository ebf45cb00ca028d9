"""The tables of docs/evidence/sums.md."""

from collections.abc import Sequence

import numpy as np

from benchmarks.language.comparison import LEVEL, Line
from benchmarks.language.early_stops import Stopped
from benchmarks.language.findings import Findings, within
from benchmarks.real.spread import Spread
from benchmarks.real.tables import table
from deploy.models.sums.exercises import LEVELS


def sums_tables(found: Findings) -> dict[str, str]:
    """By name, Markdown."""
    tables = {
        "right": _right(found),
        "levels": _levels(found),
        "costs": _costs(found),
        "budgets": _budgets(found),
        "cascades": _cascades(found),
        "stops": _stops(found.stopped),
        "sets": _sets(found),
        "risk": _risk(found),
        "self-report": _self_reports(found),
    }
    for name in found.collected:
        tables[f"scores of {name}"] = _scores([line for line in found.lines if line.task == name])
    return tables


def _scores(lines: Sequence[Line]) -> str:
    """The best PRR in bold, of those that can be had."""
    best = max(
        (line for line in lines if line.score != LEVEL and np.isfinite(line.metrics["PRR"].mean)),
        key=lambda line: line.metrics["PRR"].mean,
        default=None,  # nothing was wrong
    )
    many = np.isfinite(lines[0].metrics["PRR Jaccard"].mean)
    header = ["score", "PRR", *(["PRR, Jaccard"] if many else []), "AUROC", "ECE after isotonic", "floor"]
    rows = []
    for line in lines:
        cells = [_pm(line.metrics["PRR"])]
        if line is best:
            cells = [f"**{cells[0]}**"]
        if many:
            cells.append(_mean(line.metrics["PRR Jaccard"]))
        cells += [_pm(line.metrics["AUROC"]), _pm(line.metrics["ECE after"]), _mean(line.metrics["floor"])]
        cost = [f"{line.cost.calls:.1f}", f"{line.cost.prompt_tokens:.0f} + {line.cost.completion_tokens:.0f}"]
        missing = f"; {line.missing:.1%} missing" if line.missing else ""
        rows.append([line.score + missing, *cells, *(cost if line.asks else ["", ""])])
    return table([*header, "calls", "tokens, in + out"], rows)


def _right(found: Findings) -> str:
    rows = []
    for one in found.answers:
        told = "; ".join(f"{by} {share:.1%} ({same:.1%} the same)" for by, (share, same) in one.told.items())
        levels = [level for level in found.levels if level.task == one.task]
        rows.append(
            [
                one.task,
                f"{one.n:,}",
                *(f"{level.right:.1%} of {level.n}" for level in levels),
                f"{one.first:.1%}",
                f"{one.majority:.1%}",
                f"{one.samples:.1%}",
                told or "not for this task",
            ]
        )
    header = ["task", "n", *(f"level {level}" for level in LEVELS), "first reply", "majority", "a sample"]
    return table([*header, "most probable label"], rows)


def _levels(found: Findings) -> str:
    rows = []
    for task in found.collected:
        whole = {line.score: line.metrics["AUROC"].mean for line in found.lines if line.task == task}
        for score in within(found.collected[task]):
            own = [level for level in found.levels if level.task == task]
            rows.append(
                [
                    task,
                    score,
                    *(_or_few(level.aurocs[score]) for level in own),
                    f"{whole[score]:.3f}",
                    f"{whole[LEVEL]:.3f}",
                ]
            )
    return table(["task", "score", *(f"level {level}" for level in LEVELS), "all", "all, by the level alone"], rows)


def _costs(found: Findings) -> str:
    rows = []
    for name, about in found.collected.items():
        for asked, cost in about.costs.items():
            rows.append(
                [
                    name,
                    asked,
                    f"{cost.calls:.2f}",
                    f"{cost.prompt_tokens:.1f}",
                    f"{cost.completion_tokens:.1f}",
                    f"{cost.cpu_seconds * 1e3:.1f}",
                    f"{cost.seconds * 1e3:.0f}",
                ]
            )
    header = ["task", "asked for", "calls", "prompt tokens", "completion tokens", "ms of processor (noisy)"]
    return table([*header, "ms by the clock (noisier)"], rows)


def _budgets(found: Findings) -> str:
    rows = []
    for task in found.collected:
        name = found.collected[task].task.cheap
        cheap = next(line for line in found.lines if line.task == task and line.score == name)
        rows.append([task, f"{name}, no sample", f"{cheap.cost.tokens:.0f}", _pm(cheap.metrics["PRR"]), "", ""])
        rows += [
            [
                task,
                str(one.samples),
                f"{one.tokens:.0f}",
                _pm(one.metrics["semantic_entropy"]),
                _pm(one.metrics["sample_disagreement"]),
                _pm(one.metrics["combined"]),
            ]
            for one in found.budgets
            if one.task == task
        ]
    return table(["task", "samples", "tokens", "PRR", "sample_disagreement", "token_entropy x semantic_entropy"], rows)


def _cascades(found: Findings) -> str:
    rows = []
    for one in found.gated:
        cheap = found.collected[one.task].task.cheap
        alone = {0.0: f"{cheap}, alone", 1.0: "semantic_entropy, alone"}.get(one.ask_share)
        m = one.metrics
        asked = f"{m['asked'].mean:.1%}"
        name = alone or f"cascade, {one.ask_share:.0%}"
        rows.append([one.task, name, asked, f"{m['tokens'].mean:.0f}", _pm(m["PRR"]), _pm(m["AUROC"])])
    return table(["task", "score", "asked further", "tokens", "PRR", "AUROC"], rows)


def _stops(stopped: Sequence[Stopped]) -> str:
    rows = [
        [
            one.task,
            one.probabilities,
            str(one.n),
            f"{one.answered:.0%}",
            f"{one.drawn:.2f} of {one.most}",
            f"{one.early:.0%}",
            f"{one.same} of {one.n}",
            f"{one.stopping.tokens:.0f} / {one.drawing_all.tokens:.0f}",
            f"{one.stopping.calls:.1f} / {one.drawing_all.calls:.1f}",
            f"{one.stopping.cpu_seconds * 1e3:.0f} / {one.drawing_all.cpu_seconds * 1e3:.0f}",
        ]
        for one in stopped
    ]
    header = ["task", "probabilities", "n", "answered", "drawn", "stopped early", "decided alike"]
    return table([*header, "tokens, stopping / all", "calls", "ms of processor (noisy)"], rows)


def _sets(found: Findings) -> str:
    rows = [
        [
            one.task,
            one.sets,
            f"{1 - one.alpha:g}",
            _pm(one.metrics["coverage"]),
            f"{one.metrics['size'].mean:.2f}",
            f"{one.metrics['empty'].mean:.0%}",
            f"{one.metrics['full'].mean:.0%}",
        ]
        for one in found.covered
    ]
    return table(["task", "sets", "promised", "coverage", "options in a set", "empty", "full"], rows)


def _risk(found: Findings) -> str:
    rows = [
        [
            one.task,
            one.score,
            f"{one.wrong:.1%}",
            f"{one.max_risk:.0%}",
            f"{one.feasible:.0%}",
            _share(one.metrics["answered"]),
            _share(one.metrics["risk"]),
            f"{one.above:.0%}",
        ]
        for one in found.kept
    ]
    header = ["task", "score", "wrong in all", "promised", "splits with a limit", "answered there", "wrong there"]
    return table([*header, "splits above the promise"], rows)


def _self_reports(found: Findings) -> str:
    rows = [
        [
            one.task,
            one.need,
            str(one.n),
            f"{one.understood:.0%}",
            ", ".join(one.examples),
            "too few" if np.isnan(one.auroc) else f"{one.auroc:.2f}",
            one.outcome,
            f"{one.cost.calls:.0f}",
            f"{one.cost.prompt_tokens:.0f} + {one.cost.completion_tokens:.0f}",
        ]
        for one in found.self_reports
    ]
    header = [
        "task",
        "asked for",
        "n",
        "taken for a number",
        "most frequent",
        "AUROC of those",
        "what the service does",
    ]
    return table([*header, "calls", "tokens, in + out"], rows)


def _pm(value: Spread) -> str:
    return "" if np.isnan(value.mean) else f"{round(value.mean, 3) + 0:.3f} ± {value.sd:.3f}"


def _mean(value: Spread) -> str:
    return "" if np.isnan(value.mean) else f"{value.mean:.3f}"


def _share(value: Spread) -> str:
    return "" if np.isnan(value.mean) else f"{value.mean:.1%} ± {value.sd:.1%}"


def _or_few(value: float) -> str:
    return "too few errors" if np.isnan(value) else f"{value:.3f}"
