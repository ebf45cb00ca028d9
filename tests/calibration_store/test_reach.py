"""A refused fit says what its labels could promise, how many would do, and which settings would help."""

import pickle

import numpy as np
import pytest
from scipy.special import logit

from demur.audit.held_out import calibration_report, held_out_report
from demur.calibration_store.fitting import fit_selectors
from demur.calibration_store.rows_apart import rows_apart
from demur.calibration_store.shortfall import PromiseOutOfReach, refuse, too_few
from demur.policies.all_of import AllOf, InDistribution
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.policies.threshold import TargetRisk
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES

SCORE = "softmax_response"


def recipe(policy, calibrator="isotonic"):
    return SelectorRecipe(
        scores={SCORE: SCORES[SCORE]()},
        confidence_score=SCORE,
        calibrator=CALIBRATORS[calibrator](),
        policy=policy,
    )


def overconfident(n, seed=1, a=5):
    rng = np.random.default_rng(seed)
    p = 1 - 0.5 * rng.beta(1, a, size=n)
    first, right = rng.random(n) < 0.5, rng.random(n) < p**2
    output = Output.from_logits(np.where(first, -logit(p), logit(p))[:, None])
    return LabelledOutput.of_classes(output, np.where(first == right, 0, 1))


def fitted(policy, rows, *, report_share=0.4, seed=3):
    return fit_selectors(
        {"m": recipe(policy)},
        {"m": rows},
        report=held_out_report,
        cross_report=calibration_report,
        report_share=report_share,
        rng=np.random.default_rng(seed),
    )


def before(policy, n, share=0.4):
    apart = rows_apart(n, [recipe(policy)], report_share=share, rng=np.random.default_rng(0))
    return too_few({"m": recipe(policy)}, apart, np.ones((n, 2), dtype=bool), None, report_share=share)


def test_too_few_labels_tell_which_target_and_how_many_labels_would_do():
    (short,), remarks = before(SelectiveRisk(max_risk=0.05, delta=0.1), 50)
    assert short.why == (
        "with 30 labelled rows for the rule no limit can promise at most 5% wrong answers at 90% confidence;"
        " 45 without an error would allow it: label at least 75 rows, or write `calibration: {report_share: 0.1}`, or"
        " write `max_risk: 0.08`"
    )
    assert remarks == []
    told = {point.max_risk: point.labels for point in short.reach.curve}
    assert told[0.05] == 75
    assert told[0.08] <= 50 < told[0.06]
    assert all(point.answered is None for point in short.reach.curve)


@pytest.mark.parametrize(
    ("policy", "n", "said"),
    [
        (SelectiveRisk(max_risk=0.05, method="ltt"), 300, "`method: ltt_fixed_sequence`"),
        (SelectiveRisk(max_risk=0.05, delta=0.1), 60, "`calibration: {report_share: 0.2}`"),
        (
            AllOf(gates=(InDistribution(score=SCORE, quantile=0.9),), rule=SelectiveRisk(max_risk=0.1, method="ltt")),
            130,
            "`method: ltt_fixed_sequence`",
        ),
    ],
)
def test_the_setting_that_is_advised_would_do(policy, n, said):
    (short,), _ = before(policy, n)
    assert said in short.why
    share = float(said.split(": ")[2].rstrip("}`")) if "share" in said else 0.4
    rule = policy.rule if isinstance(policy, AllOf) else policy
    method = said.split(": ")[1].rstrip("`") if "method" in said else rule.method
    changed = SelectiveRisk(max_risk=rule.max_risk, delta=rule.delta, method=method)
    again = AllOf(gates=policy.gates, rule=changed) if isinstance(policy, AllOf) else changed
    assert before(again, n, share)[0] == []


def test_too_many_errors_tell_what_could_be_promised_at_which_coverage():
    rows, asked = overconfident(1_000), SelectiveRisk(max_risk=0.05, delta=0.1)
    (short,) = fitted(asked, rows).shortfalls
    reach = short.reach
    assert "label about" in short.why
    assert short.why.endswith(reach.advice)
    answered = {point.max_risk: point.answered for point in reach.curve}
    assert answered[0.05] == 0.0
    assert answered[0.06] <= answered[0.1] <= answered[0.2] <= 1
    lowest = next(target for target, share in answered.items() if share)
    assert f"`max_risk: {lowest:g}`" in short.why
    fit = fitted(SelectiveRisk(max_risk=lowest, delta=0.1), rows)
    assert fit.shortfalls == []
    assert fit.selector.policy.promise.feasible
    assert fitted(SelectiveRisk(max_risk=0.05, delta=0.1), overconfident(3 * reach.labels, seed=2)).shortfalls == []


def test_a_score_that_tells_nothing_is_not_mended_by_labels():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 600)
    output = Output.from_logits(logit(p)[:, None])
    rows = LabelledOutput.of_classes(output, (rng.random(600) > 0.3).astype(int))
    (short,) = fitted(SelectiveRisk(max_risk=0.1), rows).shortfalls
    assert short.reach.labels is None
    assert "choose a score that ranks errors better" in short.why


def test_a_refusal_keeps_the_curve_between_processes():
    found, _ = before(SelectiveRisk(max_risk=0.05, delta=0.1), 50)
    with pytest.raises(PromiseOutOfReach, match=r"or write `max_risk: 0.08`\. Nothing") as caught:
        refuse(found, more=". Nothing was stored")
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.reach == found[0].reach
    assert error.reach.as_json()["curve"][0] == {"max_risk": 0.05, "answered": None, "labels": 75}


@pytest.mark.parametrize(
    ("policy", "n", "warned"),
    [
        (TargetRisk(max_risk=0.002), 500, True),
        (TargetRisk(max_risk=0.01), 499, True),
        (TargetRisk(max_risk=0.01), 500, False),  # three errors are allowed among 300 rows
        (TargetRisk(max_risk=0.0), 500, False),  # none is meant
        (SelectiveRisk(max_risk=0.02, delta=0.5, method="ltt_fixed_sequence"), 150, True),
        (SelectiveRisk(max_risk=0.05, delta=0.1), 400, False),
    ],
)
def test_a_fit_warns_where_so_few_errors_are_allowed_that_one_decides(policy, n, warned):
    short, remarks = before(policy, n)
    assert short == []
    assert bool(remarks) == warned
    if warned:
        assert "so a single label may decide the limit" in remarks[0]


def test_the_warning_in_words():
    (said,) = before(TargetRisk(max_risk=0.002), 500)[1]
    assert said == (
        "0.2% of 300 rows for the rule is 0.6 errors, so a single label may decide the limit: 1,500 rows for it would"
        " allow 3"
    )
