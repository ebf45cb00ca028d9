import json
from dataclasses import fields, is_dataclass, replace
from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logit

from demur.calibration_store.artifact import ArtifactRefused, pack, unpack
from demur.calibration_store.parts import PARTS, put_together, take_apart
from demur.policies.all_of import AllOf, InDistribution, Parsable, SmallSet
from demur.policies.cheapest_label import CostLimit, LeastCost
from demur.policies.closed_labels import ClosedLabelLimits
from demur.policies.conformal_sets import (
    AdaptiveSets,
    ClassConditionalSets,
    GroupConditionalSets,
    RegularisedSets,
    SampleFrequencySets,
    SplitSets,
)
from demur.policies.cost import ChowRule
from demur.policies.label_limits import GivenLabelLimits
from demur.policies.label_thresholds import GivenLabelLimit, MaxF1LabelLimits
from demur.policies.missed_label_sets import MissedLabels, MissedLabelSets
from demur.policies.missed_labels import MissedLabelLimit
from demur.policies.moved_inputs import CurrentTraffic
from demur.policies.one_label_limit import OneLabelLimit
from demur.policies.prediction import MostProbable
from demur.policies.rejection_rate import RejectionRate
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import FitSplit, SelectorRecipe
from demur.policies.set_size import SetSize
from demur.policies.threshold import GivenLimit, TargetRisk, Threshold
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.combination import Combined, Hybrid, Logistic
from demur.uncertainty.given_scores import GivenScore
from demur.uncertainty.histogram_binning import HistogramBinning
from demur.uncertainty.isotonic import Isotonic
from demur.uncertainty.label_confidence import TopKIsotonic
from demur.uncertainty.label_correctness_calibrator import TopKCorrectness
from demur.uncertainty.label_tree import LabelTree
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.platt_top_k import TopKPlatt
from demur.uncertainty.sampled_scores import OF_PASSES, OverSamples
from demur.uncertainty.score_cascade import Cascade
from demur.uncertainty.scores import ONLY_FOR, SCORES
from demur.uncertainty.token_scores import TokenEntropy
from demur.uncertainty.trace_scores import Trace
from demur.uncertainty.venn_abers import VennAbersWidth
from tests.uncertainty.written import drawn_replies


def test_what_is_read_decides_exactly_as_what_was_written(files, selector, rows):
    again = unpack(files).selector
    before, after = selector.decide(rows.output), again.decide(rows.output)
    np.testing.assert_array_equal(after.confidence, before.confidence)
    np.testing.assert_array_equal(after.members, before.members)
    assert after.decisions == before.decisions
    for name in before.scores:
        np.testing.assert_array_equal(after.scores[name], before.scores[name])


def test_the_name_is_that_of_the_content(files, selector, identity):
    facts = {"report": {"accuracy": {"value": 0.8, "n": 10}}}
    assert pack(selector, model="toy", identity=identity, facts=facts).name == files.name
    assert pack(selector, model="toy", identity=identity, facts={}).name != files.name


def test_an_infinite_limit_survives_json(selector, identity):
    held = replace(selector, policy=Threshold(limit=np.inf, meaning="nothing was safe"))
    assert unpack(pack(held, model="toy", identity=identity, facts={})).selector.policy.limit == np.inf


def test_sets_of_before_they_had_settings_are_still_read(selector, identity):
    description, arrays = take_apart(selector)
    del description["sets"]["keep_predicted"]
    assert put_together(description, arrays).sets == selector.sets


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda f: replace(f, manifest=f.manifest.replace(b"0.8", b"0.9")), "was altered: its manifest"),
        (lambda f: replace(f, manifest=f.manifest[:-40]), "is half written: its manifest"),
        (lambda f: replace(f, manifest=b""), "is half written: its manifest"),
        (lambda f: replace(f, arrays=f.arrays[:-8]), "is half written: its arrays"),
        (lambda f: replace(f, arrays=f.arrays[:-1] + b"\xff"), "was altered: its arrays"),
        (lambda f: replace(f, name="toy-0123456789abcdef"), "was altered: its manifest"),
    ],
)
def test_damage_is_refused_in_one_sentence_that_says_which(files, damage, why):
    with pytest.raises(ArtifactRefused, match=why):
        unpack(damage(files))


def renamed(files, change):
    """A manifest that was changed and named anew, as a newer demur might write it."""
    from demur.calibration_store.artifact import digest_of

    manifest = json.loads(files.manifest)
    change(manifest)
    text = json.dumps(manifest).encode()
    return replace(files, name=f"toy-{digest_of(text)}", manifest=text)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m.update(format=2), "has format 2"),
        (lambda m: m["selector"]["calibrator"].update(kind="Spline"), "cannot be read by this demur"),
        (lambda m: m["selector"].pop("policy"), "cannot be read by this demur"),
    ],
)
def test_what_a_newer_demur_wrote_is_refused_and_not_guessed(files, change, why):
    with pytest.raises(ArtifactRefused, match=why):
        unpack(renamed(files, change))


def test_an_old_promise_of_label_sets_is_read_with_the_sentence_that_is_true(files):
    """Before 0.2 the sentence named all labels, and the limit kept the mean over rows."""
    said = "of the labels that hold are missing from the set"
    old = {"model": "toy", "share": said, "target": 0.1, "statement": f"at most 10% {said}, on average, as long as …"}
    other = {"model": "toy", "share": "of the answers are wrong", "target": 0.1, "statement": "at most 10% …"}
    read = unpack(renamed(files, lambda m: m.update(promises=[old, other]))).manifest["promises"]
    assert read[1] == other
    assert read[0]["share"] == "of a row's labels are missing from its set (a row without labels misses nothing)"
    assert read[0]["statement"].startswith("at most 10% of a row's labels are missing from its set (a row without")
    assert "of the labels that hold" not in str(read)


def test_old_limits_of_missed_labels_promise_the_mean_over_rows(identity):
    description, arrays = take_apart(fitted("a limit for each label")[0])
    for name in ("share_of", "max_labels"):
        del description["predictor"][name]
    description["predictor"]["missed_share"] = 0.1
    promise = put_together(description, arrays).predictor.promise
    assert promise.share == "of a row's labels are not predicted (a row without labels misses nothing)"


def test_it_fits_the_model_that_it_was_fitted_for_and_no_other(files, identity):
    artifact = unpack(files)
    artifact.check_fits(identity)
    with pytest.raises(ArtifactRefused, match="another checkpoint"):
        artifact.check_fits(replace(identity, fingerprint="0" * 64))
    with pytest.raises(ArtifactRefused, match="another label set"):
        artifact.check_fits(replace(identity, labels=("yes", "no", "maybe")))  # the order counts
    with pytest.raises(ArtifactRefused, match="another label tree"):
        artifact.check_fits(replace(identity, parents_sha256="0" * 64))


def test_labels_under_a_tree_are_bound_to_it(selector, identity):
    under = replace(identity, parents_sha256="0" * 64)
    artifact = unpack(pack(selector, model="toy", identity=under, facts={}))
    artifact.check_fits(under)
    with pytest.raises(ArtifactRefused, match="another label tree"):
        artifact.check_fits(identity)


@cache
def labelled_rows():
    """Rows of labels that exclude each other, and of labels that do not."""
    rng = np.random.default_rng(3)
    n = 240
    truth = rng.integers(3, size=n)
    logits = rng.normal(size=(n, 3)) + 2 * np.eye(3)[truth]
    classes = LabelledOutput.of_classes(
        Output.from_logits(
            logits,
            embedding=rng.normal(size=(n, 4)) + truth[:, None],
            mc_logits=logits[:, None] + rng.normal(size=(n, 5, 3)),
        ),
        truth,
    )
    given = np.column_stack([logits.max(axis=1), rng.normal(size=n)])
    replies = drawn_replies(rng, logits.argmax(axis=1).tolist(), range(3))
    classes = replace(
        classes,
        groups=np.array(["north", "south", None] * (n // 3), dtype=object),
        output=replace(classes.output, replies=replies, given=given),
    )
    probabilities = expit(rng.normal(size=(n, 6)) * 2)
    sets = [tuple(np.flatnonzero(row > 0.5).tolist()) for row in probabilities]
    labels = LabelledOutput(
        output=replace(
            Output.from_logits(logit(probabilities), link="sigmoid"), replies=drawn_replies(rng, sets, range(6))
        ),
        truth=rng.random(probabilities.shape) < probabilities,
        exclusive=False,
    )
    return classes, labels


SETS = {"exclusive": False, "score": "binary_entropy", "right": "jaccard"}
CASES = {
    **{f"score {name}": {"score": name} for name in SCORES if ONLY_FOR.get(name) != "sigmoid"},
    **{f"calibrator {name}": {"calibrator": CALIBRATORS[name]()} for name in CALIBRATORS},
    "step": {"calibrator": Isotonic(interpolation="step")},
    "equal mass": {"calibrator": HistogramBinning(strategy="quantile")},
    **{f"hybrid {variant}": {"combination": Hybrid(variant=variant)} for variant in ("linear", "step")},
    "hybrid with nothing ordinary": {"combination": Hybrid(variant="step", delta_min=0)},
    "logistic": {"combination": Logistic(of=("entropy", "mahalanobis"))},
    **{
        f"trace {method}": {"scores": {"trace": Trace(method=method, count="words")}, "confidence_score": "trace"}
        for method in ("linear_sum", "logistic", "ridge")
    },
    "entropy of each label's tokens": {**SETS, "scores": {"u": TokenEntropy(reduce="max")}, "confidence_score": "u"},
    "sampled label sets": {**SETS, "score": "eigv_laplacian"},
    **{
        f"{name} over samples": {"scores": {"u": OverSamples(name=name)}, "confidence_score": "u"} for name in OF_PASSES
    },
    "combined": {
        "combination": Combined(info="token_entropy", consistency="eigv_laplacian"),
        "also": ("token_entropy", "eigv_laplacian"),
    },
    **{
        f"cascade of scores, {how}": {
            "combination": Cascade(first="g_nll", then="semantic_entropy", **settings),
            "also": ("g_nll", "semantic_entropy"),
        }
        for how, settings in {"limit": {"limit": 0.5}, "share": {"ask_share": 0.3}}.items()
    },
    "width of Venn-Abers": {"combination": VennAbersWidth()},
    "probabilities of samples": {"sampled": True},
    "sets of sampled replies": {"sets": SampleFrequencySets(alpha=0.1, source="samples")},
    "policy threshold": {"policy": GivenLimit(limit=0.8)},
    "policy rejection_rate": {"policy": RejectionRate(rate=0.2, otherwise="abstain")},
    "policy selective_risk": {"policy": SelectiveRisk(max_risk=0.3)},
    "policy selective_risk, infeasible": {"policy": SelectiveRisk(max_risk=0.001)},
    "policy cost": {"policy": ChowRule(reject_cost=0.3)},
    "policy threshold on a score": {"policy": GivenLimit(score="softmax_response", limit=0.2)},
    "policy threshold with labels": {
        **SETS,
        "label_calibrator": TopKIsotonic(k=3),
        "policy": GivenLabelLimits(limit=0.5, limits=(0.3,) * 6),
    },
    "policy cost with a matrix": {
        "policy": CostLimit(reject_cost=0.3),
        "predictor": LeastCost(costs=((0, 1, 4), (1, 0, 1), (2, 1, 0))),
    },
    "policy risk_control": {**SETS, "policy": MissedLabels(spare=1), "sets": MissedLabelSets(alpha=0.1)},
    "policy all_of": {
        "policy": AllOf(
            gates=(InDistribution(score="softmax_response", quantile=0.9), SmallSet(), Parsable(otherwise="abstain")),
            rule=SelectiveRisk(max_risk=0.3),
        ),
        "sets": SplitSets(alpha=0.2),
    },
    "one limit for the labels of a row": {
        **SETS,
        "predictor": OneLabelLimit(limits=GivenLabelLimit(limit=0.5)),
        "label_calibrator": TopKPlatt(k=3),
    },
    "only observed": {"policy": SelectiveRisk(max_risk=0.3), "observes": True},
    "score of a request": {"score": "entropy", "own_scores": {"vendor": GivenScore(column=0, surer=True)}},
    "policy conformal": {"policy": SetSize(answer_up_to=2, when_full="review"), "sets": SplitSets(alpha=0.1)},
    "sets split": {"sets": SplitSets(alpha=0.1)},
    "sets split, all labels": {"sets": SplitSets(alpha=0.001)},
    "sets split, as they are": {"sets": SplitSets(alpha=0.3, keep_predicted=False)},
    "sets for other traffic": {"sets": SplitSets(alpha=0.1), "moved": "confidence"},
    "sets for other traffic, by embedding": {"sets": SplitSets(alpha=0.1), "moved": "embedding"},
    "sets adaptive": {"sets": AdaptiveSets(alpha=0.1)},
    "sets regularised": {"sets": RegularisedSets(alpha=0.1, penalty=0.2, k_reg=1)},
    "sets class_conditional": {"sets": ClassConditionalSets(alpha=0.1, keep_predicted=False)},
    "sets group_conditional": {"sets": GroupConditionalSets(alpha=0.1)},
    "sets sampled": {"sets": SampleFrequencySets(alpha=0.1)},
    "sets class_conditional, all labels": {"sets": ClassConditionalSets(alpha=0.01)},
    **{
        f"labels {mode}": {**SETS, "label_calibrator": TopKIsotonic(mode=mode, k=3, least=60)}
        for mode in ("joint", "separate", "per_label")
    },
    "labels by the whole row": {**SETS, "label_calibrator": TopKCorrectness(k=3)},
    "a limit for each label": {**SETS, "predictor": MaxF1LabelLimits()},
    "one limit for all labels": {**SETS, "predictor": GivenLabelLimit(limit=0.5)},
    "limits that miss few labels": {**SETS, "predictor": MissedLabelLimit(alpha=0.2)},
    "labels under a tree": {
        **SETS,
        "predictor": ClosedLabelLimits(
            limits=MaxF1LabelLimits(),
            tree=LabelTree(width=6, children=np.array([3.0, 2.0]), parents=np.array([2.0, 0.0])),
        ),
    },
}


@cache
def fitted(case):
    """A fitted selector and rows to judge."""
    settings = dict(CASES[case])
    rows = labelled_rows()[0 if settings.pop("exclusive", True) else 1]
    score, combination = settings.pop("score", "softmax_response"), settings.pop("combination", None)
    moved = settings.pop("moved", None)
    names = (score, *settings.pop("also", () if combination is None else ("entropy", "mahalanobis")))
    recipe = SelectorRecipe(
        **{
            "scores": {name: SCORES[name]() for name in names} | settings.pop("own_scores", {}),
            "combinations": {} if combination is None else {"mix": combination},
            "confidence_score": score if combination is None else "mix",
            "calibrator": Isotonic(),
            "policy": TargetRisk(max_risk=0.2),
            "predictor": MostProbable() if rows.exclusive else GivenLabelLimit(limit=0.5),
            **settings,
        }
    )
    current = None if moved is None else CurrentTraffic(output=rows.output, weigh_by=moved)
    parts = FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows, current=current)
    return recipe.fit(parts), rows.output


@pytest.mark.parametrize("case", CASES)
def test_every_part_decides_after_a_journey_exactly_as_before(case, identity):
    selector, output = fitted(case)
    again = unpack(pack(selector, model="toy", identity=identity, facts={})).selector
    before, after = selector.decide(output), again.decide(output)
    assert after.decisions == before.decisions
    assert after.scores.keys() == before.scores.keys()
    for name, score in before.scores.items():
        np.testing.assert_array_equal(after.scores[name], score, strict=True)
    for name in ("confidence", "predicted", "members", "label_confidence"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert take_apart(again)[0] == take_apart(selector)[0]
    assert again.promises == selector.promises


def test_limits_of_before_they_had_promises_are_still_read():
    description, arrays = take_apart(fitted("a limit for each label")[0])
    del description["predictor"]["missed_share"], description["predictor"]["n"]
    assert put_together(description, arrays).predictor.promise is None


def test_no_part_is_left_at_home():
    def kinds(value):
        if is_dataclass(value):
            yield type(value).__name__
            value = {field.name: getattr(value, field.name) for field in fields(value)}
        if isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                yield from kinds(item)

    travelled = {kind for case in CASES for kind in kinds(fitted(case)[0])}
    assert travelled - {"Selector"} == set(PARTS)
