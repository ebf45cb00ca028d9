"""The pictures of docs/evidence/language-models.md, as SVG."""

import io
from collections.abc import Callable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, ScalarFormatter

from benchmarks.real.language_model_findings import Findings
from benchmarks.real.pictures import COLOURS
from benchmarks.real.reasoning import wrong_by_length
from benchmarks.real.tournaments import Played
from demur.audit.drawing import BLUE, GREEN, GREY, ORANGE, STYLE

SHOWN_SCORES = (
    "softmax response",
    "semantic entropy, 3 samples",
    "semantic entropy, 6 samples",
    "semantic entropy, 9 samples",
    "entropy x U_cons",
)


def language_model_pictures(found: Findings) -> dict[str, str]:
    """By name of the file."""
    return {
        "evidence-lm-groups.svg": _drawn((9.2, 4.8), lambda figure: _groups(figure, found)),
        "evidence-lm-scores.svg": _drawn((7.2, 3.4), lambda figure: _scores(figure.subplots(), found)),
        "evidence-lm-traces.svg": _drawn((9.2, 3.6), lambda figure: _traces(figure, found)),
        "evidence-lm-cascades.svg": _drawn((9.2, 5.4), lambda figure: _cascades(figure.subplots(), found)),
        "evidence-lm-refusals.svg": _drawn((7.2, 3.4), lambda figure: _refusals(figure.subplots(), found)),
        "evidence-lm-tournaments.svg": _drawn((9.2, 3.8), lambda figure: _tournaments(figure, found.played)),
    }


def _drawn(size: tuple[float, float], draw: Callable[[Figure], None]) -> str:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
        return buffer.getvalue()[buffer.getvalue().index("<svg") :]


def _groups(figure: Figure, found: Findings, alpha: float = 0.1) -> None:
    """Coverage of each specialty and subject, with one quantile and with one for each."""
    own = [o for o in found.groups if o.data.startswith("ten models") and o.alpha == alpha]
    for axes, grouping in zip(figure.subplots(1, 2), ("specialty", "subject"), strict=True):
        outcomes = [o for o in own if o.grouping == grouping]
        order = np.argsort(outcomes[0].group_means, kind="stable")
        places = np.arange(len(order))
        for outcome, colour, name in zip(outcomes, (ORANGE, BLUE), ("one quantile", "one for each"), strict=True):
            size = 3 + outcome.rows[order] / 12
            axes.scatter(outcome.group_means[order], places, s=size, color=colour, label=name)
        axes.axvline(1 - alpha, color=GREY, linestyle=":", linewidth=1)
        names = [outcomes[0].names[at].replace("_", " ").removeprefix("ori mmlu-") for at in order]
        axes.set_yticks(places, names, fontsize=7)
        axes.set(xlabel=f"coverage, promised {1 - alpha:.0%} on average", xlim=(0.78, 1.01))
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        title = {"specialty": "MedQA: differences as chance makes them", "subject": "MedMCQA and MMLU: real ones"}
        axes.set_title(title[grouping], loc="left", fontsize=9)
    figure.axes[0].legend(frameon=False, fontsize=8, loc="lower right")


def _scores(axes: Axes, found: Findings) -> None:
    own = [m for m in found.scores if m.answer == "most probable option"]
    models = list(dict.fromkeys(m.model for m in own))
    for colour, score in zip(COLOURS, SHOWN_SCORES, strict=False):
        values = [next(m.metrics["PRR"] for m in own if m.model == model and m.score == score) for model in models]
        shift = 0.13 * (SHOWN_SCORES.index(score) - 2)
        axes.errorbar(
            np.arange(len(models)) + shift,
            [value.mean for value in values],
            yerr=[value.sd for value in values],
            fmt="o",
            markersize=4,
            linewidth=1,
            color=colour,
            label=score,
        )
    axes.set_xticks(np.arange(len(models)), models)
    axes.set(ylabel="PRR", ylim=(0, 0.8))
    axes.legend(frameon=False, fontsize=7, ncols=2, loc="lower right")


def _traces(figure: Figure, found: Findings) -> None:
    """Share of wrong answers by tenths of the length."""
    for axes, columns in zip(figure.subplots(1, 2, sharey=True), (3, 1), strict=True):
        own = [r for r in found.reasoned if (r.features.shape[1] == 1) == (columns == 1)]
        for colour, reasoned in zip(COLOURS, own, strict=False):
            length, wrong = wrong_by_length(reasoned)
            axes.plot(length, wrong, marker="o", markersize=3, color=colour, label=reasoned.model, linewidth=1.2)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter("")
        axes.set_xticks([3, 30, 100, 300, 1000, 3000] if columns == 1 else [30, 50, 100, 200])
        axes.set(xlabel="tokens of the answer and the reasoning" if columns == 1 else "words of the reasoning")
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.legend(frameon=False, fontsize=7, loc="upper left")
        axes.set_ylim(0, 0.62)
    figure.axes[0].set_ylabel("share of answers wrong")


def _cascades(axes: Axes, found: Findings) -> None:
    """Who answers, and what is left to a person, under the promise."""
    rows = list({(m.data, m.road, m.risk): m for m in found.roads}.values())
    rows = [m for m in rows if m.risk == (0.1 if m.data.endswith("test part") else 0.2)]
    for place, m in enumerate(reversed(rows)):
        left = 0.0
        for colour, share in zip((BLUE, GREEN) if m.by.shape[1] == 2 else (GREY,), m.by.mean(axis=0), strict=True):
            axes.barh(place, share, left=left, color=colour, height=0.7)
            left += share
        axes.barh(place, 1 - left, left=left, color=ORANGE, height=0.7, alpha=0.35)
        tokens = "" if np.isnan(m.written.mean()) else f"{m.written.mean():.0f} tokens written"
        axes.text(1.01, place, tokens, va="center", fontsize=7)
    axes.set_yticks(range(len(rows)), [f"{m.road}\n{m.data}, {m.risk:g}" for m in reversed(rows)], fontsize=7)
    axes.set(
        xlabel="share of the questions: small model (blue), large (green), alone (grey), left to a person (orange)"
    )
    axes.set_xlim(0, 1.2)
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.xaxis.set_major_formatter(PercentFormatter(1))


def _refusals(axes: Axes, found: Findings) -> None:
    models = list(dict.fromkeys(m.model for m in found.refusal_scores))
    scores = list(dict.fromkeys(m.score for m in found.refusal_scores))
    for colour, score in zip(COLOURS, scores, strict=False):
        own = [m for m in found.refusal_scores if m.score == score]
        places = [models.index(m.model) + 0.12 * (scores.index(score) - 2) for m in own]
        means, spreads = [m.refusals.mean for m in own], [m.refusals.sd for m in own]
        axes.errorbar(places, means, yerr=spreads, fmt="o", color=colour, markersize=4, linewidth=1, label=score)
    axes.axhline(0.5, color=GREY, linestyle=":", linewidth=1)
    axes.set_xticks(range(len(models)), models, fontsize=8)
    axes.set(ylabel="AUROC for refusals", ylim=(0.2, 1))
    axes.legend(frameon=False, fontsize=7, ncols=2, loc="lower right")


def _tournaments(figure: Figure, played: Sequence[Played]) -> None:
    panels = (
        ("arguments, by a judge who is never wrong", "arguments", ("never wrong",)),
        ("arguments, by people", "arguments", ("most of five people", "one person")),
        ("language models", "models", ("gpt4_turbo",)),
    )
    for axes, (title, contests, judges) in zip(figure.subplots(1, 3, sharey=True), panels, strict=True):
        own = [m for m in played if m.contests == contests and m.judge in judges]
        styles = dict(zip(judges, ("-", "--"), strict=False))
        for m in own:
            colour = {"random": GREY, "graph": BLUE, "swiss": ORANGE}[m.schedule]
            at = [m.comparisons(rounds) for rounds in m.rounds]
            label = f"{m.schedule}, {m.judge}" if len(styles) > 1 else m.schedule
            axes.plot(at, m.spearman.mean(axis=0), styles[m.judge], color=colour, label=label, linewidth=1.3)
        axes.axhline(own[0].best, color=GREY, linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter("")
        axes.set_xticks([1, 3, 10, 30] if contests == "arguments" else [1, 3, 10, 30, 100])
        axes.set(xlabel="matches of each player", ylim=(0, 1.02))
        axes.set_title(title, loc="left", fontsize=9)
        axes.legend(frameon=False, fontsize=7, loc="lower right")
    figure.axes[0].set_ylabel("Spearman with the published ranking")
