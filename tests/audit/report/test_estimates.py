"""Every number of a report is the one that METHODS 9.2 defines, however the records were cut into parts."""

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from demur.audit.ledger.ledger import CodedColumn, Ledger
from demur.audit.metrics.resampling import bootstrap
from demur.audit.metrics.sampling import completion_weights, label_weights
from demur.audit.metrics.weighted_calibration import (
    weighted_ace,
    weighted_brier,
    weighted_c_slope,
    weighted_citl,
    weighted_ece,
    weighted_nll,
)
from demur.audit.metrics.weighted_discrimination import weighted_error_au_prc, weighted_error_roc_auc
from demur.audit.metrics.weighted_quality import weighted_macro_f1
from demur.audit.metrics.weighted_rows import weighted_mean
from demur.audit.metrics.weighted_selective import weighted_prr, weighted_rc_auc
from demur.audit.report import survey as surveys
from demur.audit.report import tally as tallies
from demur.audit.report.audit import AuditSettings, FittedLabels, NothingToAudit, audit, concluded, frame_after, plan_of
from demur.audit.report.plan import Settings
from demur.uncertainty.checks import Array
from tests.audit.report.simulated import simulated

pytestmark = pytest.mark.slow  # each draws thousands of resamples

FEW = Settings(replicates=199)


def rows(ledger: Ledger, chosen: Any) -> Ledger:
    """Some rows of a ledger."""
    values = {}
    for field in fields(Ledger):
        value = getattr(ledger, field.name)
        if isinstance(value, np.ndarray | CodedColumn):
            value = value[chosen]
        elif field.name == "ids":
            value = value.take(np.flatnonzero(chosen) if chosen.dtype == bool else chosen)
        elif field.name == "scores":
            value = {name: u[chosen] for name, u in value.items()}
        values[field.name] = value
    return Ledger(**values)


def numbers(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(line["name"], line["of"]): line for line in document["estimates"]}


@pytest.fixture(scope="module")
def traffic() -> Ledger:
    return simulated(3_000, np.random.default_rng(5), spot_check=0.2).ledger


@pytest.fixture(scope="module")
def weights(traffic: Ledger) -> Array:
    return label_weights(traffic.reviewed.astype(float), traffic.label_probability)


@pytest.fixture(scope="module")
def found(traffic: Ledger) -> dict[tuple[str, str], dict[str, Any]]:
    return numbers(audit(traffic, AuditSettings(settings=FEW)).document)


def test_estimates_are_those_of_the_definitions(
    traffic: Ledger, weights: Array, found: dict[tuple[str, str], dict[str, Any]]
) -> None:
    y = [None if np.isnan(q) else q for q in traffic.quality.tolist()]
    errors = [None if q is None else 1 - q for q in y]
    a = traffic.answered
    c, u = traffic.confidence, -traffic.confidence
    truth = [None if code < 0 else traffic.true.names[code] for code in traffic.true.codes.tolist()]
    guess = [traffic.predicted.names[code] for code in traffic.predicted.codes.tolist()]
    expected = {
        ("risk", ""): weighted_mean(errors, weights),
        ("selective_risk", ""): weighted_mean([e for e, yes in zip(errors, a, strict=True) if yes], weights[a]),
        ("ece", ""): weighted_ece(c, y, weights),
        ("ace", ""): weighted_ace(c, y, weights),
        ("brier", ""): weighted_brier(c, y, weights),
        ("nll", ""): weighted_nll(c, y, weights),
        ("citl", ""): weighted_citl(c, y, weights),
        ("c_slope", ""): weighted_c_slope(c, y, weights),
        ("brier_before", ""): weighted_brier(traffic.top_probability, y, weights),
        ("auroc", "confidence"): weighted_error_roc_auc(y, u, weights),
        ("au_prc", "confidence"): weighted_error_au_prc(y, u, weights),
        ("rc_auc", "confidence"): weighted_rc_auc(errors, u, weights),
        ("prr", "confidence"): weighted_prr(y, u, weights),
        ("prr_50", "entropy"): weighted_prr(y, traffic.scores["entropy"], weights, max_rejection=0.5),
        ("macro_f1", ""): weighted_macro_f1(truth, guess, weights),
        ("coverage", ""): a.mean(),
    }
    for key, value in expected.items():
        assert found[key]["value"] == pytest.approx(value, rel=1e-8), key


def test_naive_numbers_are_those_of_the_labelled_rows_as_they_stand(
    traffic: Ledger, found: dict[tuple[str, str], dict[str, Any]]
) -> None:
    known = traffic.known
    y, c = traffic.quality[known], traffic.confidence[known]
    one = np.ones(len(y))
    assert found["risk", ""]["naive"] == pytest.approx(1 - y.mean())
    assert found["ece", ""]["naive"] == pytest.approx(weighted_ece(c, y, one))
    assert found["prr", "confidence"]["naive"] == pytest.approx(weighted_prr(y, -c, one))
    assert found["risk", ""]["naive"] > 1.5 * found["risk", ""]["value"]


def test_intervals_are_those_of_the_bootstrap_over_rows() -> None:
    """Of few rows each is resampled by itself; of scores with few values nothing is rounded."""
    traffic = simulated(400, np.random.default_rng(3), spot_check=0.5).ledger
    c = traffic.confidence.round(1).clip(0.05, 0.95)
    traffic = replace(traffic, confidence=c)
    w = label_weights(traffic.reviewed.astype(float), traffic.label_probability)
    settings = Settings(replicates=1_999, seed=7)
    found = numbers(audit(traffic, AuditSettings(settings=settings)).document)
    rng = np.random.default_rng(11)
    samples = rng.integers(len(traffic), size=(1_999, len(traffic)))
    y = np.nan_to_num(traffic.quality)
    for metric, key, inputs in (
        ("weighted_mean", ("risk", ""), {"values": 1 - y, "weights": w}),
        ("weighted_ece", ("ece", ""), {"confidence": c, "outcome": y, "weights": w}),
        ("weighted_prr", ("prr", "confidence"), {"quality": y, "u": -c, "weights": w}),
        ("weighted_rc_auc", ("rc_auc", "confidence"), {"risks": 1 - y, "u": -c, "weights": w}),
        ("weighted_ace", ("ace", ""), {"confidence": c, "outcome": y, "weights": w}),
        ("weighted_error_roc_auc", ("auroc", "confidence"), {"correct": y, "u": -c, "weights": w}),
    ):
        expected = bootstrap(metric, inputs, samples)
        line = found[key]
        width, lower = expected.upper - expected.lower, expected.lower
        if metric in ("weighted_ece", "weighted_ace"):  # which noise raises, and resampling once more
            lower = max(0.0, min(lower, 2 * expected.estimate - expected.upper))
        assert line["value"] == pytest.approx(expected.estimate, rel=1e-6)
        assert line["lower"] == pytest.approx(lower, abs=0.12 * width), metric
        assert line["upper"] == pytest.approx(expected.upper, abs=0.12 * width), metric


def test_parts_add_up_to_the_whole(traffic: Ledger) -> None:
    asked = AuditSettings(settings=FEW, max_risk=0.05)
    third = np.arange(len(traffic)) % 3
    parts = [rows(traffic, third == part) for part in range(3)]
    found = surveys.together([surveys.survey(part) for part in parts])
    whole = surveys.survey(traffic)
    by = plan_of(found, asked, frame_after(found, FEW), 0.2, together=False)
    joined = tallies.together([tallies.tally(part, by) for part in parts])
    same = plan_of(whole, asked, None, 0.2, together=False)
    a = concluded(traffic.extent, found, by, joined, asked).document
    b = concluded(traffic.extent, whole, same, tallies.tally(traffic, same), asked).document
    assert json.loads(json.dumps(a), parse_float=lambda t: f"{float(t):.8g}") == json.loads(
        json.dumps(b), parse_float=lambda t: f"{float(t):.8g}"
    )


def test_the_same_rows_make_the_same_bytes(traffic: Ledger) -> None:
    asked = AuditSettings(settings=FEW, max_risk=0.05)
    assert audit(traffic, asked).as_json() == audit(traffic, asked).as_json()


def test_rows_of_one_cluster_are_drawn_together() -> None:
    once = simulated(1_000, np.random.default_rng(2), spot_check=0.5).ledger
    many = np.repeat(np.arange(1_000), 9)
    ids = pa.Array.from_buffers(
        pa.binary(16), len(many), [None, pa.py_buffer(np.random.default_rng(3).bytes(16 * 9_000))]
    )
    again = replace(rows(once, many), ids=ids)
    clusters = CodedColumn(names=tuple(f"c{at:04}" for at in range(1_000)), codes=many.astype(np.int32))
    apart = numbers(audit(again, AuditSettings(settings=FEW)).document)["risk", ""]
    together = numbers(audit(replace(again, clusters=clusters), AuditSettings(settings=FEW)).document)["risk", ""]
    assert together["value"] == pytest.approx(apart["value"])
    # nine copies of each row tell no more than one; taken for nine rows the interval would be a third as wide
    assert together["upper"] - together["lower"] > 2 * (apart["upper"] - apart["lower"])


def test_missing_reviews_are_stood_for_by_those_of_their_group() -> None:
    traffic = simulated(4_000, np.random.default_rng(8), spot_check=0.5).ledger
    late = (traffic.groups.codes == 0) & (np.arange(len(traffic)) % 4 > 0)
    traffic = replace(traffic, reviewed=traffic.reviewed & ~late)
    document = audit(traffic, AuditSettings(settings=FEW)).document
    strata = [
        f"{'held' if a == 1 else 'checked'} {g}"
        for a, g in zip(traffic.actions.codes, traffic.groups.codes, strict=True)
    ]
    expected = completion_weights(
        traffic.drawn.astype(float), traffic.reviewed.astype(float), traffic.label_probability, strata
    )
    errors = np.where(traffic.reviewed, 1 - np.nan_to_num(traffic.quality), 0.0)
    assert numbers(document)["risk", ""]["value"] == pytest.approx(weighted_mean(errors, expected.weights))
    assert document["labels"]["share_missing"] == pytest.approx(expected.share_missing)


def test_what_nobody_reviewed_is_refused_and_the_rest_is_not() -> None:
    traffic = simulated(3_000, np.random.default_rng(1), spot_check=0.3).ledger
    traffic = replace(traffic, reviewed=traffic.reviewed & traffic.answered)
    document = audit(traffic, AuditSettings(settings=FEW, max_risk=0.2)).document
    found = numbers(document)
    assert document["labels"]["refused"] == ["held"]
    assert (found["risk", ""]["value"], found["risk", ""]["evidence"]) == (None, "refused")
    assert found["selective_risk", ""]["value"] is not None
    assert document["headline"]["verdict"] == "kept"


def test_labels_speak_of_records_since_every_one_could_get_one() -> None:
    traffic = simulated(3_000, np.random.default_rng(4), spot_check=0.3).ledger
    early = np.arange(len(traffic)) < 1_000
    never = early & traffic.answered
    traffic = replace(
        traffic,
        label_probability=np.where(never, 0.0, traffic.label_probability),
        drawn=traffic.drawn & ~never,
        reviewed=traffic.reviewed & ~never,
        quality=np.where(never, np.nan, traffic.quality),
    )
    document = audit(traffic, AuditSettings(settings=FEW)).document
    later = traffic.times > traffic.times[np.flatnonzero(never)[-1]]
    w = label_weights(traffic.reviewed[later].astype(float), traffic.label_probability[later])
    wrong = [None if np.isnan(q) else 1 - q for q in traffic.quality[later].tolist()]
    assert document["labels"]["never"] == int(never.sum())
    assert numbers(document)["risk", ""]["value"] == pytest.approx(weighted_mean(wrong, w))


@pytest.mark.parametrize(
    ("max_risk", "verdict"),
    [(0.5, "kept"), (0.001, "broken"), (0.07, "not enough evidence"), (None, "nothing was promised")],
)
def test_verdict(traffic: Ledger, max_risk: float | None, verdict: str) -> None:
    assert audit(traffic, AuditSettings(settings=FEW, max_risk=max_risk)).document["headline"]["verdict"] == verdict


def test_few_labels_are_no_number() -> None:
    traffic = simulated(300, np.random.default_rng(6), spot_check=0.02).ledger
    document = audit(traffic, AuditSettings(settings=FEW, max_risk=0.5)).document
    line = numbers(document)["selective_risk", ""]
    assert line["value"] is None
    assert line["lower"] is None
    assert line["evidence"] in ("insufficient", "none")
    assert document["headline"]["verdict"] == "not enough evidence"
    groups = next(part for part in document["breakdowns"] if part["by"] == "group")["cells"]
    assert {cell["name"] for cell in groups} == {"x", "y", "z"}


def test_promises_of_artifacts_are_judged_on_what_they_decided(traffic: Ledger) -> None:
    def promise(target: float) -> dict[str, Any]:
        return {
            "share": "of the answers are wrong",
            "target": target,
            "statement": f"at most {target}",
            "feasible": True,
        }

    asked = AuditSettings(settings=FEW, promises={"m-1": [promise(0.5)], "m-2": [promise(0.001)]})
    headline = audit(traffic, asked).document["headline"]
    assert {tuple(one["artifacts"]): one["verdict"] for one in headline["judgements"]} == {
        ("m-1",): "kept",
        ("m-2",): "broken",
    }
    assert headline["verdict"] == "broken"
    same = AuditSettings(settings=FEW, promises={"m-1": [promise(0.5)], "m-2": [promise(0.5)], "m-3": [promise(0.5)]})
    (only,) = audit(traffic, same).document["headline"]["judgements"]
    assert only["artifacts"] == ["m-1", "m-2"]
    assert only["estimate"]["n"] == int(traffic.answered.sum())


def test_what_nobody_judges_is_not_kept(traffic: Ledger) -> None:
    kept = {"share": "of the answers are wrong", "target": 0.5, "statement": "at most half", "feasible": True}
    other = {"share": "of the replies make a wrong claim", "target": 0.1, "statement": "few", "feasible": True}
    lost = audit(traffic, AuditSettings(settings=FEW, promises={"m-1": [kept]}, unread=["m-2"]))
    headline = lost.document["headline"]
    assert headline["verdict"] == "not enough evidence"
    assert [one["verdict"] for one in headline["judgements"]] == ["kept", "not enough evidence"]
    assert headline["judgements"][1]["statement"] == "what m-2 promised is not known"
    assert "put it back, or say with --max-risk" in lost.as_html()
    unmeasured = audit(traffic, AuditSettings(settings=FEW, promises={"m-1": [kept, other], "m-2": [kept]}))
    assert unmeasured.document["headline"]["verdict"] == "not enough evidence"
    assert "promises of this kind are not measured by an audit" in unmeasured.as_html()
    named = audit(traffic, AuditSettings(settings=FEW, promises={"m-1": [kept]}, unread=["m-2"], max_risk=0.5))
    assert named.document["headline"]["verdict"] == "kept"


def test_a_limit_that_is_named_stands_for_promises_about_answers_and_for_no_others(traffic: Ledger) -> None:
    """Whoever asks about wrong answers is still told that a promise about sets was broken."""
    strict = {"share": "of the answers are wrong", "target": 0.001, "statement": "hardly any", "feasible": True}
    promises = {name: [strict, sets_lack(0.0001)] for name in ("m-1", "m-2")}
    led = replace(traffic, covered=np.where(traffic.known, 0.0, np.nan))
    headline = audit(led, AuditSettings(settings=FEW, promises=promises, max_risk=0.5)).document["headline"]
    assert [(one["share"], one["target"], one["verdict"]) for one in headline["judgements"]] == [
        ("of the answers are wrong", 0.5, "kept"),
        ("of the sets lack the right label", 0.0001, "broken"),
    ]
    assert headline["verdict"] == "broken"


def test_buckets_of_labels_need_the_counts_of_the_fit(traffic: Ledger) -> None:
    fitted = FittedLabels(counts={str(digit): 1 + 40 * digit for digit in range(10)}, n=2_000)
    document = audit(traffic, AuditSettings(settings=FEW, fitted=fitted)).document
    buckets = next(part for part in document["breakdowns"] if part["by"] == "label frequency")
    assert [cell["name"] for cell in buckets["cells"]] == ["head", "tail"] or len(buckets["cells"]) > 1


def test_nothing_to_audit(traffic: Ledger) -> None:
    with pytest.raises(NothingToAudit, match="no records of 'm'"):
        audit(rows(traffic, np.zeros(len(traffic), dtype=bool)), AuditSettings())


def sets_lack(target: float) -> dict[str, Any]:
    return {"share": "of the sets lack the right label", "target": target, "statement": "x", "feasible": True}


def test_sets_that_lack_nothing_are_no_proof_that_hardly_any_does() -> None:
    traffic = simulated(3_000, np.random.default_rng(1), spot_check=0.01).ledger
    traffic = replace(traffic, covered=np.where(traffic.known, 1.0, np.nan))
    asked = AuditSettings(settings=FEW, promises={name: [sets_lack(0.001)] for name in ("m-1", "m-2")})
    document = audit(traffic, asked).document
    (one,) = document["headline"]["judgements"]
    assert one["verdict"] == "not enough evidence"
    assert (one["estimate"]["events"], one["estimate"]["evidence"]) == (0, "exact_only")
    line = numbers(document)["set_coverage", ""]
    assert (line["value"], line["upper"]) == (1.0, 1.0)
    assert line["lower"] == pytest.approx(1 - one["estimate"]["upper"])
    assert line["lower"] < 0.95  # 21 labels of answers, each standing for a hundred


def test_held_records_do_not_speak_for_answers_of_which_by_chance_none_was_drawn() -> None:
    traffic = simulated(300, np.random.default_rng(6), spot_check=0.02).ledger
    silent = traffic.answered
    traffic = replace(
        traffic,
        drawn=traffic.drawn & ~silent,
        reviewed=traffic.reviewed & ~silent,
        quality=np.where(silent, np.nan, traffic.quality),
        covered=np.where(silent, np.nan, traffic.covered),
    )
    asked = AuditSettings(settings=FEW, promises={name: [sets_lack(0.9)] for name in ("m-1", "m-2")})
    document = audit(traffic, asked).document
    found = numbers(document)
    for name in ("risk", "ece", "caught_errors", "set_coverage"):
        assert (found[name, ""]["value"], found[name, ""]["lower"]) == (None, None), name
    assert found["risk", ""]["labelled"] > 30
    assert document["headline"]["verdict"] == "not enough evidence"


def test_that_all_errors_were_caught_is_only_said_where_answers_were_looked_at() -> None:
    traffic = simulated(3_000, np.random.default_rng(2), spot_check=0.05).ledger
    traffic = replace(traffic, quality=np.where(traffic.answered & traffic.known, 1.0, traffic.quality))
    line = numbers(audit(traffic, AuditSettings(settings=FEW)).document)["caught_errors", ""]
    assert (line["value"], line["lower"], line["upper"]) == (1.0, None, None)


def test_outcomes_that_have_not_come_yet_are_not_taken_to_be_as_foreseen() -> None:
    traffic = simulated(2_000, np.random.default_rng(3), all_known=True).ledger
    late = np.arange(2_000) % 4 > 0
    traffic = replace(traffic, quality=np.where(late, np.nan, traffic.quality))
    found = numbers(audit(traffic, AuditSettings(settings=replace(FEW, every_outcome_known=True))).document)
    assert found["risk_assisted", ""]["value"] == pytest.approx(found["risk", ""]["value"])
    assert found["selective_risk_assisted", ""]["value"] == pytest.approx(found["selective_risk", ""]["value"])


def in_groups(traffic: Ledger, names: tuple[str, ...], of: Any) -> Ledger:
    return replace(traffic, groups=CodedColumn(names=names, codes=np.asarray(of, dtype=np.int32)))


def test_many_small_groups_together_do_not_show_that_a_promise_to_each_was_kept() -> None:
    traffic = simulated(3_000, np.random.default_rng(1), all_known=True).ledger
    groups = tuple(f"g{at:03}" for at in range(300))
    traffic = in_groups(traffic, groups, np.arange(3_000) % 300)
    lack = traffic.groups.codes == 299  # of the smallest there is one whose every set lacks the right label
    traffic = replace(traffic, covered=np.where(lack, 0.0, 1.0))
    promise = {
        "share": "of the inputs of each group have a set without the right label",
        "target": 0.1,
        "statement": "x",
        "feasible": True,
    }
    document = audit(traffic, AuditSettings(settings=FEW, promises={"m-1": [promise], "m-2": [promise]})).document
    judged = {one["part"]: one for one in document["headline"]["judgements"]}
    assert len(judged) == 61
    together = judged["(240 others)"]
    assert together["estimate"]["upper"] < 0.1
    assert together["verdict"] == "not enough evidence"
    assert together["why"].startswith("240 small groups taken together are between")


def test_a_group_that_is_called_as_we_call_none_is_told_apart() -> None:
    traffic = simulated(600, np.random.default_rng(1), all_known=True).ledger
    traffic = in_groups(traffic, ("(no group)", "x"), np.arange(600) % 3 - 1)
    (cells,) = (part["cells"] for part in audit(traffic, AuditSettings(settings=FEW)).document["breakdowns"][:1])
    assert sorted(cell["name"] for cell in cells) == ["((no group))", "(no group)", "x"]


def test_a_few_clusters_say_nothing_of_how_much_clusters_vary() -> None:
    traffic = simulated(3_000, np.random.default_rng(1), spot_check=0.5, per_cluster=500, dependence=0.5).ledger
    document = audit(traffic, AuditSettings(settings=FEW, max_risk=0.2)).document
    (one,) = document["headline"]["judgements"]
    assert (one["estimate"]["labelled"], one["estimate"]["evidence"]) == (973, "sufficient")
    assert one["verdict"] == "not enough evidence"
    assert all(line["lower"] is None for line in document["estimates"])


def test_nor_do_they_of_a_group_of_a_few() -> None:
    traffic = simulated(3_000, np.random.default_rng(1), spot_check=0.5, per_cluster=10).ledger
    patients = traffic.clusters.codes.copy()
    patients[:600] = np.arange(600) // 60
    traffic = replace(traffic, clusters=replace(traffic.clusters, codes=patients))
    traffic = in_groups(traffic, ("a", "b"), np.arange(3_000) < 600)
    (cells,) = (part["cells"] for part in audit(traffic, AuditSettings(settings=FEW)).document["breakdowns"][:1])
    assert {cell["name"]: cell["selective_risk"]["lower"] is None for cell in cells} == {"a": False, "b": True}
    assert {cell["name"]: cell["citl"]["upper"] is None for cell in cells} == {"a": False, "b": True}


def test_errors_that_were_caught_are_counted_alike_with_weights_and_without() -> None:
    """Of label sets, too, which are wrong in part."""
    traffic = simulated(1_000, np.random.default_rng(1), all_known=True).ledger
    traffic = replace(traffic, quality=np.where(traffic.answered, 0.9 * traffic.quality, traffic.quality))
    line = numbers(audit(traffic, AuditSettings(settings=FEW)).document)["caught_errors", ""]
    assert line["naive"] == pytest.approx(line["value"])
