"""Whether prediction sets cover each medical specialty, with one quantile for all of them and with one for each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.real import medical_answers, medical_questions
from benchmarks.real.medical_answers import FOLDER, TEMPERATURES, ZERO_SHOT, Question
from benchmarks.real.predictions import Index, numbered
from benchmarks.real.set_kinds import SetCase, group_conditional_sets, sampled_sets, split_sets
from benchmarks.real.splits import SEED, Split, halves
from demur.audit.metrics.prediction_sets import set_metrics
from demur.policies.mondrian import mondrian_quantiles
from demur.policies.set_scores import UnnamedShare
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.options import sample_frequency_scores

TIMES = 200
ALPHAS = (0.1, 0.2)
DRAWS = 1000
LEAST = 20
"""Groups of fewer rows are left out: half of them is too few to fit a set."""

Kind = Callable[[SetCase, Split, float], Mask]


def sampled_sets_of_groups(case: SetCase, part: Split, alpha: float) -> Mask:
    """One quantile of the share of samples that did not name the right option, for each group."""
    assert case.groups is not None
    missed = 1 - case.probabilities
    fit, test = part.fit, part.test
    found = mondrian_quantiles(missed[fit, case.classes[fit]], case.groups[fit].tolist(), alpha)
    limits = np.array([found.get(group, np.inf) for group in case.groups[test].tolist()])
    return np.asarray(missed[test] <= limits[:, None] + UnnamedShare.slack)


PROBABILITIES: Mapping[str, Kind] = {"split": split_sets, "split, by group": group_conditional_sets}
SAMPLES: Mapping[str, Kind] = {"sampled": sampled_sets, "sampled, by group": sampled_sets_of_groups}


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedCase:
    """Rows of one model whose groups are known without the label."""

    case: SetCase
    grouping: str
    """What a group is."""

    names: tuple[str, ...]
    """Of the groups."""

    kinds: Mapping[str, Kind]


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedOutcome:
    """What one kind of sets did at one error rate, over S splits."""

    data: str
    grouping: str
    kind: str
    alpha: float
    names: tuple[str, ...]
    rows: Index
    """[G], of each group."""

    coverage: Array
    """[S], share of the test rows whose set has the right label."""

    size: Array
    """[S]"""

    full: Array
    """[S], share of the sets that rule out nothing."""

    by_group: Array
    """[S, G]"""

    by_chance: float
    """The share of shufflings of the rows among groups of the same size that differ as much or more."""

    @property
    def group_means(self) -> Array:
        """[G], over the splits."""
        return np.asarray(np.nanmean(self.by_group, axis=0))


def measure(grouped: GroupedCase, *, times: int = TIMES, alphas: Sequence[float] = ALPHAS) -> list[GroupedOutcome]:
    parts = halves(grouped.case.together, times=times)
    return [_outcome(grouped, name, kind, alpha, parts) for alpha in alphas for name, kind in grouped.kinds.items()]


def _outcome(grouped: GroupedCase, name: str, kind: Kind, alpha: float, parts: Sequence[Split]) -> GroupedOutcome:
    case = grouped.case
    assert case.groups is not None
    n, n_groups = len(case.classes), len(grouped.names)
    caught, tested = np.zeros(n), np.zeros(n)
    coverage, size, full, by_group = [], [], [], []
    for part in parts:
        members, truth = kind(case, part, alpha), case.classes[part.test]
        found = set_metrics(members, truth, groups=case.groups[part.test])
        assert found.groups is not None
        coverage.append(found.overall.coverage)
        size.append(found.overall.average_set_size)
        full.append(float(members.all(axis=1).mean()))
        by_group.append([found.groups[g].coverage if g in found.groups else np.nan for g in range(n_groups)])
        caught[part.test] += members[np.arange(len(truth)), truth]
        tested[part.test] += 1
    return GroupedOutcome(
        data=case.data,
        grouping=grouped.grouping,
        kind=name,
        alpha=alpha,
        names=grouped.names,
        rows=np.bincount(case.groups, minlength=n_groups),
        coverage=np.array(coverage),
        size=np.array(size),
        full=np.array(full),
        by_group=np.array(by_group),
        by_chance=chance_of_spread(caught / np.maximum(tested, 1), case.groups),
    )


def chance_of_spread(covered: Array, groups: Index, *, draws: int = DRAWS, seed: int = SEED) -> float:
    """How often groups of these sizes, filled at random, differ as much in their mean of `covered` [n] as these do.

    The difference is the sum over groups of rows times squared distance from the mean of all. A permutation test: the
    share of `draws` shufflings, and the order at hand, whose difference is as large. NaN where nothing differs.
    """
    if covered.max() == covered.min():
        return float("nan")
    rng = np.random.default_rng(seed)
    seen = _between(covered, groups)
    least = sum(_between(covered[rng.permutation(len(covered))], groups) >= seen - 1e-12 for _ in range(draws))
    return float((1 + least) / (1 + draws))


def _between(values: Array, groups: Index) -> float:
    sizes = np.bincount(groups)
    sums = np.bincount(groups, weights=values)
    there = sizes > 0
    return float((sizes[there] * (sums[there] / sizes[there] - values.mean()) ** 2).sum())


def cases(data: Path) -> Iterator[GroupedCase]:
    """Option probabilities, sampled answers, and one answer each of ten models."""
    known = medical_answers.questions(data)
    for predictions, qids in medical_questions.read_named(data / medical_questions.SOURCE.folder):
        yield grouped_case(
            predictions.model,
            predictions.rows.output.probabilities,
            predictions.rows.classes,
            qids,
            known,
            PROBABILITIES,
        )
    for model, runs in medical_answers.samples(data).items():
        sampled = list(runs)
        letters = [[letter for drawn in runs[qid] for letter in drawn] for qid in sampled]
        yield grouped_case(
            f"{model}, {3 * len(TEMPERATURES)} samples", *_shares(letters, sampled, known), known, SAMPLES
        )
    by_model = medical_answers.answers(data)
    panel = [by_model[model, "zero_shot"] for model in ZERO_SHOT]
    for sources in (("medqa_test",), ("medmcqa_dev", "mmlu_med")):
        shared = [q for q in medical_answers.in_common(panel) if known[q].source in sources and known[q].n_options == 4]
        votes = np.stack([each.of(shared).letters for each in panel], axis=1)
        letters = [[medical_answers.LETTERS[letter] for letter in row] for row in votes.tolist()]
        yield grouped_case(f"ten models, {' and '.join(sources)}", *_shares(letters, shared, known), known, SAMPLES)


def _shares(
    letters: Sequence[Sequence[str]], qids: Sequence[str], known: Mapping[str, Question]
) -> tuple[Array, Index, Sequence[str]]:
    shares = 1 - np.stack([sample_frequency_scores(row, tuple("ABCD")) for row in letters])
    return shares, np.array([known[qid].answer for qid in qids], dtype=np.intp), qids


def grouped_case(
    name: str,
    shares: Array,
    classes: Index,
    qids: Sequence[str],
    known: Mapping[str, Question],
    kinds: Mapping[str, Kind],
) -> GroupedCase:
    """The rows whose group is known and has at least LEAST of them."""
    subjects = np.array([known[qid].subject for qid in qids])
    counts = {subject: int((subjects == subject).sum()) for subject in dict.fromkeys(subjects.tolist()) if subject}
    large = [subject for subject, count in counts.items() if count >= LEAST]
    here = np.isin(subjects, large)
    names, groups = np.unique(subjects[here], return_inverse=True)
    case = SetCase(
        data=name,
        probabilities=shares[here],
        classes=classes[here],
        together=numbered(np.array(qids)[here]),
        groups=np.asarray(groups, dtype=np.intp),
    )
    sources = {known[qid].source for qid, yes in zip(qids, here, strict=True) if yes}
    grouping = {"medqa_test": "specialty", "medqa_train_focused": "kind of question"}
    return GroupedCase(
        case=case, grouping=grouping.get("".join(sources), "subject"), names=tuple(names.tolist()), kinds=kinds
    )


def is_in(data: Path) -> bool:
    return all((data / FOLDER / file).is_file() for file in (*medical_answers.FILES, *medical_questions.FILES))
