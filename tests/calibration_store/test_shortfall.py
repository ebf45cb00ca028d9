from dataclasses import replace

import numpy as np
import pytest

from demur.calibration_store.rows_apart import rows_apart
from demur.calibration_store.shortfall import PromiseOutOfReach, RanksAtChance, Shortfall, at_chance, refuse, too_few
from demur.policies.all_of import AllOf, InDistribution
from demur.policies.closed_labels import ClosedLabelLimits
from demur.policies.conformal_sets import ClassConditionalSets, GroupConditionalSets, SplitSets
from demur.policies.missed_label_sets import MissedLabelSets
from demur.policies.missed_labels import MissedLabelLimit
from demur.policies.rejection_rate import RejectionRate
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.label_tree import LabelTree
from demur.uncertainty.scores import SCORES


def recipe_for(policy=None, **changes):
    return SelectorRecipe(
        scores={"entropy": SCORES["entropy"]()},
        confidence_score="entropy",
        calibrator=CALIBRATORS["isotonic"](),
        policy=policy or RejectionRate(rate=0.1),
        **changes,
    )


def found(recipe, n, *, classes=None, groups=None, share=0.4, weights=None):
    classes = np.arange(n) % 3 if classes is None else np.asarray(classes)
    truth = classes[:, None] == np.arange(3)
    rng = np.random.default_rng(0)
    apart = rows_apart(len(classes), [recipe], report_share=share, rng=rng, weights=weights)
    return too_few({"m": recipe}, apart, truth, groups, report_share=share)


def gated(*gates):
    return AllOf(gates=gates, rule=RejectionRate(rate=0.1))


TREE = LabelTree(width=3, children=np.array([0.0]), parents=np.array([1.0]))
ROWS_LIMIT = MissedLabelLimit(alpha=0.01, share_of="rows")


@pytest.mark.parametrize(
    ("recipe", "of"),
    [
        (recipe_for(SelectiveRisk(max_risk=0.02, method="ltt", limits=(0.5, 0.9))), "rule"),
        (recipe_for(SelectiveRisk(max_risk=0.05)), "rule"),
        (recipe_for(SelectiveRisk(max_risk=0.05, method="ltt_fixed_sequence")), "rule"),
        (recipe_for(sets=SplitSets(alpha=0.01)), "sets"),
        (recipe_for(sets=MissedLabelSets(alpha=0.01, share_of="rows")), "sets"),
        (recipe_for(predictor=ROWS_LIMIT), "labels"),
        (recipe_for(predictor=ClosedLabelLimits(limits=ROWS_LIMIT, tree=TREE)), "labels"),
        (recipe_for(gated(InDistribution(score="entropy", quantile=0.99))), "gate"),
    ],
)
def test_what_is_said_to_be_enough_is_enough_and_one_row_less_is_not(recipe, of):
    (short,), remarks = found(recipe, 60)
    assert short.of == of
    assert remarks == []
    enough = int(short.why.split("label at least ")[1].split(" rows")[0].replace(",", ""))
    short, remarks = found(recipe, enough)
    assert short == []
    assert all("a single label may decide" in one for one in remarks)
    assert found(recipe, enough - 1)[0] != []


@pytest.mark.parametrize(
    ("recipe", "of"),
    [
        (recipe_for(sets=MissedLabelSets(alpha=0.05)), "sets"),
        (recipe_for(predictor=MissedLabelLimit(alpha=0.05)), "labels"),
        (recipe_for(predictor=ClosedLabelLimits(limits=MissedLabelLimit(alpha=0.05), tree=TREE)), "labels"),
    ],
)
def test_a_share_of_labels_needs_labels_that_hold(recipe, of):
    (short,), remarks = found(recipe, 60)  # one label holds in each row
    assert (short.of, remarks) == (of, [])
    assert "labels hold in the" in short.why
    assert "57 are needed to promise that at most 5% of them are missed: label about " in short.why
    about = int(short.why.split("label about ")[1].split(" rows")[0])
    assert found(recipe, about + 3) == ([], [])
    declared = {"sets": {"sets": MissedLabelSets(alpha=0.05, max_labels=1)}}.get(
        of, {"predictor": MissedLabelLimit(alpha=0.05, max_labels=1)}
    )
    assert found(recipe_for(**declared), 64)[0] == []  # 19 labels would do
    declared = {name: replace(one, alpha=0.02) for name, one in declared.items()}
    (short,), _ = found(recipe_for(**declared), 40)
    assert "49 are needed" in short.why
    assert "max_labels" not in short.why  # it cannot be lower


def test_rows_without_a_label_cannot_promise_a_share_of_labels():
    recipe = recipe_for(sets=MissedLabelSets(alpha=0.05))
    rows = rows_apart(60, [recipe], report_share=0.4, rng=np.random.default_rng(0))
    (short,), _ = too_few({"m": recipe}, rows, np.zeros((60, 3), dtype=bool), None, report_share=0.4)
    assert "0 labels hold in the" in short.why
    assert "label rows in which labels hold" in short.why


def test_the_rule_says_how_many_labels_it_has_and_needs():
    recipe = recipe_for(SelectiveRisk(max_risk=0.01, method="ltt_fixed_sequence"))
    (short,), _ = found(recipe, 600)
    assert short.why == (
        "with 240 labelled rows for the rule no limit can promise at most 1% wrong answers at 95% confidence;"
        " 299 without an error would allow it: label at least 746 rows, or write `method: sgr`, or"
        " write `calibration: {report_share: 0.2}`, or write `max_risk: 0.02`"
    )


def test_rows_that_thinning_takes_away_do_not_count():
    recipe = recipe_for(SelectiveRisk(max_risk=0.05, method="ltt_fixed_sequence"))
    assert found(recipe, 400) == ([], [])
    weights = np.where(np.arange(400) % 4 == 0, 10.0, 1.0)
    (short,), _ = found(recipe, 400, weights=weights)
    asked = int(short.why.split("label at least ")[1].split(" rows")[0].replace(",", ""))
    assert 400 < asked < 1000


def test_sets_for_each_label_are_refused_if_no_label_has_enough_and_remarked_on_if_some_lack():
    recipe = recipe_for(sets=ClassConditionalSets(alpha=0.05))
    (short,), _ = found(recipe, 60)
    assert "rows of some label, prediction sets at 5% error rule out no label; 19 would do" in short.why
    short, remarks = found(recipe, 120, classes=[0] * 90 + [1] * 10 + [2] * 20)
    assert short == []
    assert remarks == [
        "2 of 3 labels have fewer than the 19 rows that their prediction sets take at 5% error, and rule nothing out"
    ]


def test_sets_for_each_group():
    recipe = recipe_for(sets=GroupConditionalSets(alpha=0.05))
    (short,), _ = found(recipe, 60, groups=["a", "b", None] * 20)
    assert "of some group" in short.why
    short, remarks = found(recipe, 120, groups=["a"] * 100 + [None] * 20)
    assert short == []
    assert remarks[0].startswith("1 of 2 groups have fewer than the 19 rows")


RANKING = {"n": 100, "errors": 20, "value": 0.55, "lower": 0.42, "upper": 0.6}


@pytest.mark.parametrize(
    ("changes", "refused", "remarked"),
    [
        ({}, True, False),
        ({"lower": 0.5}, True, False),
        ({"lower": 0.5001}, False, False),
        ({"value": 0.1, "lower": 0.0, "upper": 0.3}, True, False),
        ({"errors": 5}, True, False),
        ({"errors": 4}, False, True),
        ({"errors": 95}, True, False),
        ({"errors": 96}, False, True),
        ({"errors": 0, "value": None, "lower": None, "upper": None}, False, True),
    ],
)
def test_a_score_at_chance(changes, refused, remarked):
    short, remarks = at_chance("entropy", {**RANKING, **changes})
    assert (bool(short), bool(remarks)) == (refused, remarked)


def test_the_words():
    (short,), _ = at_chance("entropy", RANKING)
    assert short.why == (
        "entropy ranks errors no better than chance (AUROC 0.55, 0.42 to 0.60):"
        " choose another score, or label more rows"
    )
    _, (remark,) = at_chance("entropy", {**RANKING, "errors": 97})
    assert remark.startswith("too few right answers to tell whether entropy ranks errors: 3 among the 100 rows")


def test_refusals_have_names():
    score, rule = Shortfall(of="score", why="by chance"), Shortfall(of="rule", why="too few")
    refuse([])
    with pytest.raises(RanksAtChance, match=r"^by chance$"):
        refuse([score])
    with pytest.raises(PromiseOutOfReach, match=r"^too few; by chance$"):
        refuse([rule, score])


def test_a_gate_that_would_stop_nothing_is_refused_and_one_with_a_given_limit_needs_no_rows():
    recipe = recipe_for(gated(InDistribution(score="entropy", quantile=0.999)))
    (short,), _ = found(recipe, 600)
    assert short.why.startswith("with 360 labelled rows the gate of entropy at quantile 0.999 stops nothing; 999 would")
    assert found(recipe_for(gated(InDistribution(score="entropy", max=2.0))), 60) == ([], [])
