"""The tables of docs/evidence/language-models.md, as Markdown."""

from collections.abc import Sequence

import numpy as np

from benchmarks.real.language_model_findings import Findings
from benchmarks.real.reasoning import LENGTH
from benchmarks.real.set_promises import below, standard_error
from benchmarks.real.specialties import GroupedOutcome
from benchmarks.real.spread import Spread
from benchmarks.real.tables import table
from benchmarks.real.tournaments import Played
from demur.uncertainty.checks import Array

BY_GROUP = ", by group"
MOSTLY_FULL = 0.99


def language_model_tables(found: Findings) -> dict[str, str]:
    """By name: see the markers in the document."""
    return {
        "groups": _groups(found.groups),
        "groups of one case": _one_case(found.groups),
        "semantic entropy": _scores(found),
        "own answers": _own_answers(found),
        "traces": _traces(found),
        "lengths": _lengths(found),
        "alone": _alone(found),
        "cascades": _cascades(found),
        "refused": _refused(found),
        "refusals": _refusals(found),
        "tournaments": _tournaments(found.played),
        "same model": _told(found),
        "length of answers": _bins(found),
        "length and preference": _related(found),
    }


def _groups(outcomes: Sequence[GroupedOutcome]) -> str:
    """One quantile for all, beside one for each group; what rules out nothing with one quantile is only counted."""
    rows, full = [], 0
    by_group = {(o.data, o.kind.removesuffix(BY_GROUP), o.alpha): o for o in outcomes if o.kind.endswith(BY_GROUP)}
    for one in outcomes:
        if one.kind.endswith(BY_GROUP):
            continue
        if one.full.mean() > MOSTLY_FULL:
            full += 1
            continue
        other = by_group[one.data, one.kind, one.alpha]
        chance = "" if np.isnan(one.by_chance) else f"{one.by_chance:.3f}"
        head = (one.data, f"{len(one.names)}, of {one.rows.min()} to {one.rows.max()}", one.kind, f"{1 - one.alpha:g}")
        rows.append((*head, *_coverage(one), chance, *_coverage(other), f"{other.full.mean():.0%}"))
    of_each = ("coverage", "s.e.", "size", "worst and best group", "groups below")
    header = ("data", "groups", "sets", "1 - alpha", *of_each, "by chance", *(f"by group: {name}" for name in of_each))
    shown = table((*header, "by group: full sets"), rows)
    return f"{shown}\n\nLeft out: {full} kinds of sets that, with one quantile, have every option in every set."


def _coverage(one: GroupedOutcome) -> tuple[str, ...]:
    means = one.group_means
    count, of, _ = below(one.by_group, one.alpha)
    return (
        _of(one.coverage),
        f"{standard_error(one.coverage):.4f}",
        f"{one.size.mean():.2f}",
        f"{means.min():.2f}, {means.max():.2f}",
        f"{count} of {of}",
    )


def _one_case(outcomes: Sequence[GroupedOutcome], *, start: str = "ten models", alpha: float = 0.1) -> str:
    """Coverage of every subject, where they differ by more than chance."""
    largest = [o for o in outcomes if o.data.startswith(start) and o.alpha == alpha and o.grouping == "subject"]
    rows: list[Sequence[str]] = []
    if len(largest) == 2:
        one, other = largest
        for at in np.argsort(one.group_means, kind="stable"):
            coverage = (_of(each.by_group[:, at]) for each in (one, other))
            rows.append((one.names[at].replace("_", " "), str(one.rows[at]), *coverage))
    return table(("subject", "rows", "one quantile", "one for each subject"), rows)


def _scores(found: Findings) -> str:
    """Of one answer, the most probable option."""
    rows = []
    own = [m for m in found.scores if m.answer == "most probable option"]
    for model in dict.fromkeys(m.model for m in own):
        of = [m for m in own if m.model == model]
        best = max(of, key=lambda m: m.metrics["PRR"].mean)
        for m in of:
            first = (f"{model} ({m.accuracy:.3f} right)", m.score, str(m.passes))
            prr = _with_sd(m.metrics["PRR"])
            rest = (_with_sd(m.metrics[name]) for name in ("AUROC", "ECE after"))
            rows.append((*first, f"**{prr}**" if m is best else prr, *rest, f"{m.metrics['floor'].mean:.3f}"))
    return table(("model", "score", "asked so often", "PRR", "AUROC", "ECE after isotonic", "floor"), rows)


def _own_answers(found: Findings) -> str:
    """Each way with the answer that it gives itself, of which accuracy is a part."""
    rows = []
    for model in dict.fromkeys(m.model for m in found.scores):
        for m in found.scores:
            single = m.answer == "most probable option" and m.score == "softmax response"
            if m.model != model or not (single or m.answer.startswith("most frequent")):
                continue
            tokens = ""
            if single and model in found.tokens:
                tokens = f"{found.tokens[model][0]:.0f}"
            first = (model, m.answer, m.score, str(m.passes), tokens, f"{m.accuracy:.3f}")
            rows.append((*first, *(_with_sd(m.metrics[name]) for name in ("RC-AUC", "PRR", "AUROC"))))
    header = ("model", "answer", "score", "asked so often", "tokens of one pass", "accuracy")
    return table((*header, "RC-AUC (lower is better)", "PRR", "AUROC"), rows)


def _traces(found: Findings) -> str:
    counted = {r.model: (r.features > 0).mean(axis=0) for r in found.reasoned if r.features.shape[1] > 1}
    rows = []
    for m in found.traces:
        if m.model not in counted:
            continue
        _, questions, waits = counted[m.model]
        shares = (f"{questions:.1%}", f"{waits:.2%}") if m.score == LENGTH else ("", "")
        metrics = (_with_sd(m.metrics[name]) for name in ("AUROC", "AUROC within", "PRR", "ECE after"))
        rows.append((m.model, str(m.n), *shares, f"{m.accuracy:.3f}", m.score, *metrics))
    header = ("model", "traces", "with a question", 'with "wait"', "accuracy", "score", "AUROC")
    return table((*header, "AUROC within an examination", "PRR", "ECE after isotonic"), rows)


def _lengths(found: Findings) -> str:
    """Of models of whose reasoning the tokens were counted."""
    counted = {r.model: r for r in found.reasoned if r.features.shape[1] == 1}
    own = [m for m in found.traces if m.model in counted]
    sources = list(dict.fromkeys(name for m in own for name in m.by_source))
    rows = []
    for m in own:
        tokens = counted[m.model].features[:, 0]
        first = (m.model, str(m.n), f"{m.accuracy:.3f}", f"{np.median(tokens):.0f}")
        metrics = (_with_sd(m.metrics[name]) for name in ("AUROC", "AUROC within", "PRR", "ECE after"))
        rows.append((*first, *metrics, *(f"{m.by_source[source].mean:.2f}" for source in sources)))
    header = ("model", "answers", "accuracy", "median tokens", "AUROC", "AUROC within", "PRR", "ECE after isotonic")
    return table((*header, *(f"AUROC {source}" for source in sources)), rows)


def _alone(found: Findings) -> str:
    rows = [
        (each.data, each.model, f"{each.accuracy:.3f}", _known(each.written, ".0f"), _known(each.tokens, ".0f"))
        for each in found.alone
    ]
    return table(("questions", "model", "accuracy", "tokens written", "tokens in all"), rows)


def _cascades(found: Findings) -> str:
    rows = []
    shown: set[tuple[str, float, str]] = set()
    for m in found.roads:
        if (m.data, m.risk, m.road) in shown:  # a model that is in two cascades is alone only once
            continue
        shown.add((m.data, m.risk, m.road))
        draws = len(m.answered)
        answered = m.answered > 0
        wrong = f"{np.nanmean(m.wrong):.3f}" if answered.any() else ""
        rows.append(
            (
                m.data,
                f"{m.risk:g}",
                m.road,
                _of(m.answered),
                " + ".join(f"{share:.2f}" for share in m.by.mean(axis=0)),
                f"{1 - m.answered.mean():.2f}",
                wrong,
                f"{m.broken} of {draws}",
                str(m.silent),
                _known(float(m.written.mean()), ".0f"),
                _known(float(m.tokens.mean()), ".0f"),
            )
        )
    header = ("questions", "wrong at most", "road", "answered", "by each", "to a person", "wrong", "promise broken")
    return table((*header, "nothing answered", "tokens written for a question", "tokens in all"), rows)


def _refused(found: Findings) -> str:
    rows = [
        (
            each.model,
            each.source,
            str(each.n),
            f"{each.refused} ({each.refused / each.n:.1%})",
            f"{each.right:.3f}",
            f"{each.other_on_refused:.3f}",
            f"{each.other_on_answered:.3f}",
        )
        for each in found.refused
    ]
    header = ("model", "examination", "questions", "refused", "right where it answers")
    return table((*header, "o3-mini right where it refused", "o3-mini right where it answers"), rows)


def _refusals(found: Findings) -> str:
    rows = [
        (m.model, m.score, f"{m.refused} of {m.n}", *map(_with_sd, (m.refusals, m.errors, m.against_errors)))
        for m in found.refusal_scores
    ]
    header = ("model that refuses", "score", "refusals it knows", "AUROC: refusals", "AUROC: wrong answers")
    return table((*header, "AUROC: refusals against wrong answers"), rows)


def _tournaments(played: Sequence[Played]) -> str:
    rows = []
    for m in played:
        for at, rounds in enumerate(m.rounds):
            if rounds not in (3, 5, 10, 20, 30, 40, 100, 200):
                continue
            curves = (_of(values[:, at]) for values in (m.spearman, m.kendall, m.auroc))
            comparisons = f"{m.comparisons(rounds):.0f}"
            first = (m.contests, m.judge, m.schedule, str(rounds), comparisons)
            rows.append((*first, *curves, f"{m.settled[:, at].mean():.3f}", f"{m.best:.3f}, {m.best_kendall:.3f}"))
    header = ("players", "judge", "schedule", "rounds", "matches of each", "Spearman", "Kendall", "AUROC of upper half")
    return table((*header, "Spearman with the round before", "all pairs: Spearman, Kendall"), rows)


def _told(found: Findings) -> str:
    rows = [
        (
            each.less,
            each.more,
            *(f"{value:.0f}" for value in each.characters),
            *(f"{value:.3f}" for value in each.preferred),
            f"{each.gain:+.3f} ({each.low:+.3f} to {each.high:+.3f})",
        )
        for each in found.told
    ]
    header = ("writes less", "writes more", "characters, less", "more", "preferred, less", "more")
    return table((*header, "gained by writing more (95%)"), rows)


def _bins(found: Findings) -> str:
    rows = [(b.name, f"{b.n:,}", f"{b.preferred:.3f}", f"{b.left_over:+.3f}") for b in found.bins]
    return table(("length against the baseline's", "answers", "preferred", "left of it"), rows)


def _related(found: Findings) -> str:
    rows = [
        (r.what, r.over, f"{r.mean:+.2f}", f"{r.smallest:+.2f} to {r.largest:+.2f}", f"{r.above} of {r.of}")
        for r in found.related
    ]
    return table(("Spearman of", "over", "mean", "range", "above 0"), rows)


def _with_sd(value: Spread) -> str:
    return f"{value.mean:.3f} ± {value.sd:.3f}"


def _of(values: Array) -> str:
    there = values[np.isfinite(values)]
    return f"{there.mean():.3f} ± {there.std(ddof=1):.3f}" if len(there) > 1 else ""


def _known(value: float, how: str) -> str:
    return "" if np.isnan(value) else format(value, how)
