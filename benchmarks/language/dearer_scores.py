"""What more samples buy, and what a cheap score saves that says for which rows they are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.language.collected import Collected
from benchmarks.language.comparison import TIMES, fixed_scores, quality_of, splits, with_samples
from benchmarks.real.spread import Spread, over_splits
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.selective import prr
from demur.uncertainty.combination import Combined
from demur.uncertainty.sampled_scores import SampleDisagreement, SpreadOfMeanings
from demur.uncertainty.score_cascade import Cascade

DEAR = "semantic_entropy"
SHARES = (0.1, 0.25, 0.5)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Scores of the first `samples` samples."""

    task: str
    samples: int
    tokens: float
    """Of an exercise, prompt and completion, the first reply included."""

    metrics: dict[str, Spread]
    """PRR by score."""


@dataclass(frozen=True, kw_only=True)
class Gated:
    """Samples for those rows alone of which a cheap score is not sure."""

    task: str
    ask_share: float
    """As configured: 0 for the cheap score alone, 1 for the dear one."""

    metrics: dict[str, Spread]
    """PRR, AUROC, the share of rows that was `asked` further, and `tokens` of an exercise."""


def budgets(about: Collected, *, times: int = TIMES) -> list[Budget]:
    right = quality_of(about.task.model().recipe, about.rows)
    info = fixed_scores(about)["token_entropy"]
    parts = splits(len(about), times=times)
    most = about.task.model().samples.max
    first, all_of_them = about.costs["first"].tokens, about.costs["samples"].tokens
    found = []
    for n in [k for k in (1, 2, 3, 5, 7, 10) if k <= most]:
        rows = with_samples(about.rows, n)
        entropy = SpreadOfMeanings().of(rows.output)
        scores = {
            "semantic_entropy": entropy,
            "sample_disagreement": SampleDisagreement().of(rows.output),
            "combined": Combined(info="info", consistency="entropy").of({"info": info, "entropy": entropy}),
        }
        found.append(
            Budget(
                task=about.task.name,
                samples=n,
                tokens=first + n / most * (all_of_them - first),
                metrics=over_splits(
                    [{name: _prr(right[part.test], u[part.test]) for name, u in scores.items()} for part in parts]
                ),
            )
        )
    return found


def gated(about: Collected, *, shares: Sequence[float] = SHARES, times: int = TIMES) -> list[Gated]:
    right = quality_of(about.task.model().recipe, about.rows)
    cheap = about.task.cheap
    values = {name: u for name, u in fixed_scores(about).items() if name in (cheap, DEAR)}
    first, all_of_them = about.costs["first"].tokens, about.costs["samples"].tokens
    found = []
    for share in (0.0, *shares, 1.0):
        measured = []
        for part in splits(len(about), times=times):
            test = {name: u[part.test] for name, u in values.items()}
            if share in (0.0, 1.0):
                u, asked = test[DEAR if share else cheap], share
            else:
                recipe = Cascade(first=cheap, then=DEAR, ask_share=share)
                cascade = recipe.fit({name: u[part.learn] for name, u in values.items()}, right[part.learn])
                u, asked = cascade.of(test), float(cascade.asks(test[cheap]).mean())
            here = right[part.test]
            tokens = first + asked * (all_of_them - first)
            measured.append({"PRR": _prr(here, u), "AUROC": _auroc(here, u), "asked": asked, "tokens": tokens})
        found.append(Gated(task=about.task.name, ask_share=share, metrics=over_splits(measured)))
    return found


def _prr(right: np.ndarray, u: np.ndarray) -> float:
    known = np.isfinite(u)
    return prr(right[known], u[known])


def _auroc(right: np.ndarray, u: np.ndarray) -> float:
    known = np.isfinite(u)
    return error_roc_auc(right[known], u[known])
