"""Rows that belong together are split together, and one of each cluster certifies."""

import numpy as np
import pytest
from scipy.stats import binom

from demur.audit.held_out import calibration_report, held_out_report
from demur.calibration_store.clusters import input_digests
from demur.calibration_store.fitting import Fit, fit_selectors
from demur.calibration_store.rows_apart import RowsApart, TooFewRows, rows_apart
from demur.policies.conformal_sets import GroupConditionalSets, SplitSets
from demur.policies.promise import Promise, of_clusters
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES

MAX_RISK, DELTA = 0.10, 0.1
LIMITS = [0.5, 0.6, 0.7, 0.8, 0.85, 0.88, 0.9, 0.92]


def recipe(policy: SelectiveRisk | None = None, **changes: object) -> SelectorRecipe:
    rule = policy or SelectiveRisk(max_risk=MAX_RISK, delta=DELTA, method="ltt_fixed_sequence", limits=LIMITS)
    settings = {
        "scores": {"softmax_response": SCORES["softmax_response"]()},
        "confidence_score": "softmax_response",
        "calibrator": CALIBRATORS["platt"](),
        "policy": rule,
    }
    return SelectorRecipe(**{**settings, **changes})


def labelled(n: int, copies: int, rng: np.random.Generator, risk: float, *, told: bool = True) -> LabelledOutput:
    """Return `n` rows, `copies` of each, whose confidence says nothing of being right. `told`: with their clusters."""
    own = np.arange(n) // copies
    sure, wrong = rng.uniform(0.5, 1, n)[own], (rng.random(n) < risk)[own]
    p = np.stack([sure, 1 - sure], axis=1)
    return LabelledOutput(
        output=Output.from_logits(np.log(p), link="softmax"),
        truth=wrong.astype(int)[:, None] == np.arange(2),
        exclusive=True,
        clusters=own if told else None,
    )


def fitted(rows: LabelledOutput, seed: int, of: SelectorRecipe | None = None) -> Fit:
    return fit_selectors(
        {"m": of or recipe()},
        {"m": rows},
        report=held_out_report,
        cross_report=calibration_report,
        report_share=0.1,
        rng=np.random.default_rng(seed),
    )


def parts(apart: RowsApart) -> dict[str, set[int]]:
    return {name: set(getattr(apart, name).tolist()) for name in ("calibration", "counted", "rule", "reported")}


def test_a_cluster_is_in_one_part_and_counts_once() -> None:
    rng = np.random.default_rng(0)
    clusters = rng.integers(0, 120, 600)
    apart = rows_apart(600, [recipe()], report_share=0.3, rng=np.random.default_rng(1), clusters=clusters)
    of = parts(apart)
    owners = {name: [clusters[row] for row in rows] for name, rows in of.items()}
    for name in ("counted", "rule", "reported"):
        assert len(owners[name]) == len(set(owners[name])), name
    for one, other in (("calibration", "rule"), ("calibration", "reported"), ("rule", "reported")):
        assert not set(owners[one]) & set(owners[other])
    assert len(of["calibration"]) > 2 * len(of["counted"])  # a calibrator learns from all rows
    assert of["counted"] <= of["calibration"]
    there = set(clusters.tolist())
    assert set(owners["calibration"]) | set(owners["rule"]) | set(owners["reported"]) == there
    assert apart.n_plain == len(there)


def test_rows_that_stand_alone_are_split_as_ever() -> None:
    asked = {"report_share": 0.3, "rng": np.random.default_rng(1)}
    plain = rows_apart(200, [recipe()], **asked)
    asked = {"report_share": 0.3, "rng": np.random.default_rng(1)}
    alone = rows_apart(200, [recipe()], clusters=np.arange(200)[::-1].copy(), **asked)
    assert parts(plain) == parts(alone)
    assert not alone.clustered


def test_weights_and_clusters_together() -> None:
    rng = np.random.default_rng(3)
    clusters, weights = rng.integers(0, 200, 800), rng.choice([1.0, 4.0], 800)
    apart = rows_apart(800, [recipe()], report_share=0.3, rng=rng, weights=weights, clusters=clusters)
    for rows in (apart.counted, apart.rule, apart.reported):
        assert len(set(clusters[rows].tolist())) == len(rows)
    assert set(weights[apart.rule].tolist()) == {1.0, 4.0}
    assert (weights[np.concatenate([apart.counted, apart.rule])] == 4).mean() > 0.7  # thinned to a plain sample


def test_too_few_clusters_are_too_few_rows() -> None:
    with pytest.raises(TooFewRows, match="900 labelled rows of 20 clusters leave 14 to fit on"):
        rows_apart(
            900,
            [recipe()],
            report_share=0.3,
            rng=np.random.default_rng(0),
            clusters=np.arange(900) // 45,
        )


def test_the_promise_says_that_it_counts_clusters() -> None:
    found = fitted(labelled(2_000, 2, np.random.default_rng(0), 0.01), 0)
    ((_, promise),) = found.promises
    assert promise.feasible
    assert "later clusters, such as patients or inputs" in promise.statement
    assert promise.n == 600  # of a thousand clusters those of the rule
    assert found.clustered
    assert not fitted(labelled(500, 1, np.random.default_rng(0), 0.01), 0).clustered
    of_group = Promise(share="s", target=0.1, delta=None, n=9, assumption="inputs of each group are like these")
    assert of_clusters(of_group).assumption.endswith("one row of each cluster at random")


def test_sets_count_clusters() -> None:
    rows = labelled(1_200, 3, np.random.default_rng(2), 0.05)
    found = fitted(rows, 0, recipe(sets=SplitSets(alpha=0.1, delta=0.1)))
    (sets,) = [promise for _, promise in found.promises if "sets" in promise.share]
    assert sets.n == 120  # a third of the 360 clusters that were not kept for the report
    assert GroupConditionalSets(alpha=0.1).alpha == 0.1


def test_equal_inputs_have_equal_digests() -> None:
    rows = [
        {"a": 1, "b": [1.0, "x"]},
        {"b": [1.0, "x"], "a": 1},
        {"a": "1", "b": [1.0, "x"]},
        "text",
        "text",
        b"x",
        b"x",
    ]
    found = input_digests(rows)
    assert found[0] == found[1] != found[2]
    assert found[3] == found[4] != found[5]
    assert found[5] == found[6]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("copies", [3, 10])
def test_copies_of_rows_do_not_make_a_promise_easy(copies: int) -> None:
    """The risk is a hair above the target, so the promise may be made in as many fits as it may be wrong in."""
    runs, rng = 300, np.random.default_rng(copies)
    made = sum(bool(fitted(labelled(1_000, copies, rng, 0.101), seed).promises[0][1].feasible) for seed in range(runs))
    assert made <= binom.ppf(0.999, runs, DELTA)


@pytest.mark.long
@pytest.mark.slow
def test_copies_of_rows_told_and_not_told() -> None:
    """With many copies of few rows the difference is plain to see."""
    made = {True: 0, False: 0}
    for told in made:
        rng = np.random.default_rng(5)
        for seed in range(30):
            rows = labelled(1_000, 20, rng, 0.101, told=told)
            made[told] += bool(fitted(rows, seed).promises[0][1].feasible)
    assert made[False] >= 6
    assert made[True] <= 5
