"""What is said of promises on real data, on made-up data whose answer is known."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.real import answer_promises, intents, missed_promises, peers, sampled_answers, set_kinds, set_promises
from benchmarks.real.answer_promises import AnswerCase
from benchmarks.real.missed_promises import MissedCase
from benchmarks.real.promise_tables import promise_tables
from benchmarks.real.set_kinds import ALPHAS, KINDS, SetCase
from benchmarks.real.set_promises import OURS, below, least_by_chance
from benchmarks.real.splits import halves
from demur.policies.missed_labels import LIMITS, MissedLabelLimit
from demur.policies.mondrian import mondrian_quantiles, mondrian_sets
from demur.policies.sampled_sets import sample_conformal

with_peers = pytest.mark.skipif(not peers.are_installed(), reason=f"MAPIE and crepes are missing: {peers.INSTALL}")


def case(n=600, classes=4, kinds=("split",), seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.4), n)
    return SetCase(
        data="toy",
        probabilities=p,
        classes=(p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1),
        together=np.arange(n),
        groups=np.arange(n) % 3,
        kinds=kinds,
    )


def measured(toy, times=60, others=None):
    return {
        (m.kind, m.who, m.alpha): m for m in set_promises.measure(toy, halves(toy.together, times=times), others or {})
    }


def test_every_kind_keeps_its_promise_where_rows_are_exchangeable():
    found = measured(case(n=400, kinds=tuple(kind for kind in KINDS if kind != "sampled")), times=30)
    assert len(found) == (len(KINDS) - 1) * len(ALPHAS)
    assert all(m.kept for m in found.values())
    assert np.mean([found["split", OURS, alpha].low.mean() for alpha in ALPHAS]) < 0.12
    sizes = [found["split", OURS, alpha].size.mean() for alpha in ALPHAS]
    assert sizes == sorted(sizes, reverse=True)


def test_what_is_counted_is_what_the_sets_do():
    toy = case(n=60)
    (part,) = halves(toy.together, times=1)
    found = measured(toy, times=1)["split", OURS, 0.2]
    members = set_kinds.split_sets(toy, part, 0.2)
    caught = [members[i, toy.classes[row]] for i, row in enumerate(part.test)]
    assert found.coverage.tolist() == [np.mean(caught)]
    assert found.size.tolist() == [members.sum() / len(part.test)]
    for label in range(4):
        own = [hit for hit, row in zip(caught, part.test, strict=True) if toy.classes[row] == label]
        assert found.by_label[0, label] == np.mean(own)
    for group in range(3):
        own = [hit for hit, row in zip(caught, part.test, strict=True) if row % 3 == group]
        assert found.by_group[0, group] == np.mean(own)


def test_a_quantile_that_is_too_low_is_noticed(monkeypatch):
    def too_low(toy, part, alpha):
        return set_kinds.split_sets(toy, part, 1.3 * alpha)

    monkeypatch.setattr(set_promises, "KINDS", {**KINDS, "split": too_low})
    found = measured(case())
    assert not any(m.kept for m in found.values())
    assert min(m.low.mean() for m in found.values()) > 0.1


def test_labels_and_groups_that_pay_for_others_are_counted():
    toy = case()
    hard = toy.groups == 0
    said = toy.probabilities.copy()
    said[hard] = said[hard][:, ::-1]  # nothing is known of these
    found = measured(replace(toy, probabilities=said, kinds=("split", "group-conditional")))
    count, of, worst = below(found["split", OURS, 0.2].by_group, 0.2)
    assert (count, of) == (1, 3)
    assert worst < 0.75
    assert below(found["group-conditional", OURS, 0.2].by_group, 0.2)[0] == 0


def test_strata_without_rows_are_left_out():
    assert below(np.array([[0.9, np.nan, 0.5], [0.91, np.nan, 0.51], [0.89, 0.1, 0.49]]), 0.1) == (1, 2, 0.5)


def test_one_split_in_twenty_is_low_by_chance():
    rng = np.random.default_rng(0)
    least = least_by_chance(50, 80, 0.1)
    covered = [(rng.random(80) <= np.sort(rng.random(50))[45]).mean() for _ in range(4000)]  # rank 46 = ceil(51 * 0.9)
    assert 0.03 < np.mean([share < least for share in covered]) < 0.06
    assert least_by_chance(5, 80, 0.1) == 0  # all labels are in every set


def test_the_quick_sets_are_those_of_the_policies():
    toy = case(n=300)
    (part,) = halves(toy.together, times=1)
    p, y, groups = toy.probabilities, toy.classes, toy.groups[part.fit].tolist()
    found = mondrian_quantiles(1 - p[part.fit, y[part.fit]], groups, 0.2)
    expected = mondrian_sets(1 - p[part.test], toy.groups[part.test].tolist(), found)
    assert [np.flatnonzero(row).tolist() for row in set_kinds.group_conditional_sets(toy, part, 0.2)] == expected

    rng = np.random.default_rng(1)
    replies = [rng.choice(4, size=9, p=row).tolist() for row in p]
    shares = np.stack([np.bincount(row, minlength=4) / 9 for row in replies])
    sampled = replace(toy, probabilities=shares)
    fit, test = part.fit.tolist(), part.test.tolist()
    expected = sample_conformal([replies[i] for i in fit], y[fit].tolist(), range(4), 0.2, [replies[i] for i in test])
    assert [np.flatnonzero(row).tolist() for row in set_kinds.sampled_sets(sampled, part, 0.2)] == expected.sets


def answers(n=4000):
    """Wrong with probability 1 - c."""
    rng = np.random.default_rng(0)
    confidence = rng.random(n)
    correct = (rng.random(n) < confidence).astype(float)
    return AnswerCase(data="toy", confidence=confidence, correct=correct, risks=(0.2,))


def test_broken_promises_are_counted_against_all_rows():
    def greedy(confidence, correct, risk):
        return 0.3

    found = {m.rule: m for m in answer_promises.measure(answers(), 60, 0, {"greedy": greedy})}
    for rule in ("sgr", "ltt", "ltt_fixed_sequence, from 0.9"):
        assert found[rule].promises
        assert found[rule].broken <= answer_promises.broken_by_chance(60)
        assert found[rule].silent < 60
    assert not found["target_risk"].promises
    assert 15 < found["target_risk"].broken < 45  # as often above as below
    assert found["greedy"].broken == found["greedy"].above_in_test == 60
    reached = answers().confidence >= 0.3
    assert found["greedy"].coverage[0] == reached.mean()
    assert found["greedy"].true_risk[0] == pytest.approx(1 - answers().correct[reached].mean())


def test_a_rule_that_answers_nothing_breaks_nothing():
    found = {m.rule: m for m in answer_promises.measure(answers(400), 5, 0, {"mute": lambda *_: np.inf})}["mute"]
    assert (found.broken, found.above_in_test, found.silent) == (0, 0, 5)


def labelled(n=500):
    rng = np.random.default_rng(0)
    p = rng.beta(1, 3, (n, 8))
    truth = rng.random((n, 8)) < p
    truth[~truth.any(axis=1), 0] = True
    return MissedCase(data="toy", probabilities=p, truth=truth, together=np.arange(n))


def test_missed_labels_are_those_of_the_policy():
    toy = labelled()
    parts = halves(toy.together, times=30)
    for m in missed_promises.measure(toy, parts, {}):
        fitted = MissedLabelLimit(alpha=m.alpha, share_of="rows").fit(
            toy.probabilities[parts[0].fit], toy.truth[parts[0].fit]
        )
        assert m.limits[0] == fitted.limits[0]
        assert m.kept
        p, truth = toy.probabilities[parts[0].test], toy.truth[parts[0].test]
        assert m.missed[0] == pytest.approx(((truth & ~fitted.of(p)).sum(axis=1) / truth.sum(axis=1)).mean())
        assert m.size[0] == fitted.of(p).sum(axis=1).mean()


def test_a_limit_that_misses_too_much_is_noticed():
    toy = labelled()
    found = missed_promises.measure(toy, halves(toy.together, times=30), {"bold": lambda fit: np.full(3, 0.9)})
    assert not any(m.kept for m in found if m.who == "bold")


def test_the_classifier_is_trained_on_rows_of_its_own(tmp_path):
    words = {"pay": "bank", "save": "bank", "sing": "music"}
    lines = [
        {"text": f"please {word} {i}", "intent": word, "domain": domain, "split": split, "oos": False}
        for word, domain in words.items()
        for split in ("train", "val", "test")
        for i in range(4)
    ]
    lines += [
        {"text": "what is this", "intent": "oos", "domain": "oos", "split": s, "oos": True} for s in ("train", "test")
    ]
    folder = tmp_path / intents.FOLDER
    folder.mkdir()
    with gzip.open(folder / intents.FILE, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    read = intents.read(tmp_path)
    assert read.probabilities.shape == (25, 3)  # the training part is not among them
    assert np.bincount(read.classes + 1).tolist() == [1, 8, 8, 8]
    known = read.classes != intents.OUT_OF_SCOPE
    assert (read.probabilities.argmax(axis=1)[known] == read.classes[known]).all()
    assert (read.domains[read.classes == 0] == read.domains[read.classes == 1][0]).all()
    assert len(set(read.domains[known].tolist())) == 2


def test_sampled_answers_are_counted(tmp_path):
    folder = tmp_path / sampled_answers.FOLDER
    folder.mkdir()
    with gzip.open(folder / sampled_answers.FILE, "wt") as file:
        file.write("qid,model,kind,answer,t0.0_r1,t0.0_r2\nq1,m,base,B,B,\nq2,m,base,D,A,D\nq1,other,base,A,A,A\n")
    scores, classes, questions = sampled_answers.read(tmp_path, "m")
    np.testing.assert_allclose(scores, [[1, 0.5, 1, 1], [0.5, 1, 1, 0.5]])
    assert classes.tolist() == [1, 3]
    assert len(set(questions.tolist())) == 2


def test_tables_say_what_was_found():
    toy = labelled()
    found = [
        *measured(case(kinds=("split", "class-conditional", "group-conditional")), times=6).values(),
        *answer_promises.measure(answers(), 6, 0, {}),
        *missed_promises.measure(toy, halves(toy.together, times=6), {}),
    ]
    made = promise_tables(found)
    assert "| mean coverage is 1 - alpha or more, but for 3 standard errors | sets | 9 of 9 |" in made["promises"]
    assert made["promised sets"].count("| toy |") == 9
    assert made["promised answers"].count("| toy |") == len(answer_promises.RULES)
    assert made["missed labels"].count("| toy |") == 3
    assert "| toy |" not in made["sets of others"]


@with_peers
@pytest.mark.slow
def test_other_libraries_make_the_same_sets_and_no_lower_limits():
    toy = case(n=401)  # 200 rows fitted: no whole number of ranks at any alpha
    found = measured(replace(toy, kinds=tuple(peers.SETS)), times=3, others=peers.SETS)
    for (kind, who, _), m in found.items():
        if who != OURS and kind in ("split", "class-conditional", "group-conditional", "sampled"):
            assert m.only_ours == 0
            assert kind not in ("split", "sampled") or m.only_here == 0
    by_rule = {m.rule: m.limits for m in answer_promises.measure(answers(), 4, 0, peers.RULES)}
    assert (by_rule["ltt"] <= by_rule["MAPIE, bonferroni"]).all()
    assert (by_rule["ltt_fixed_sequence"] <= by_rule["MAPIE, fixed sequence"]).all()
    rows = labelled(120)
    limits = peers.MapieMissed(rows.probabilities, rows.truth).limits
    by_who = {
        (m.who, m.alpha): m.limits
        for m in missed_promises.measure(rows, halves(rows.together, times=3), {"MAPIE": limits})
    }
    for alpha in ALPHAS:
        np.testing.assert_allclose(by_who["MAPIE", alpha], by_who[f"{OURS}, hundredths", alpha])
    assert LIMITS[0] == 1
