"""What is said of stored outputs of language models, on made-up data whose answer is known."""

import csv
import gzip
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real import (
    cascade_cases,
    cascades,
    judge_length,
    language_models,
    medical_answers,
    reasoning,
    refusals,
    repeated_answers,
    specialties,
    tournaments,
)
from benchmarks.real.answer_promises import broken_by_chance
from benchmarks.real.document import with_tables
from benchmarks.real.judge_length import Lengths
from benchmarks.real.language_model_findings import MEDICAL, Findings, Step, missing, steps
from benchmarks.real.language_model_tables import language_model_tables
from benchmarks.real.predictions import one_label
from benchmarks.real.set_kinds import SetCase
from benchmarks.real.splits import halves
from demur.policies.mondrian import mondrian_quantiles, mondrian_sets

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
PAGE = ROOT / "docs/evidence/language-models.md"


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        if path.name.endswith(".csv.gz"):
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)


# readers


def answer(qid, predicted, right="A", status="answered", tokens="", **more):
    counts = {"prompt_tokens": tokens, "completion_tokens": tokens}
    return {"qid": qid, "model": "m", "setting": "s", "predicted": predicted, "answer": right, "status": status} | (
        counts | more
    )


def test_a_refusal_is_no_answer_and_a_blank_is_unknown(tmp_path):
    rows = [answer("q0", "A", tokens="7"), answer("q1", "", status="no_option_chosen"), answer("q2", "B")]
    write_rows(tmp_path / "medical_mcq/llm_answers.csv.gz", rows)
    found = medical_answers.answers(tmp_path)["m", "s"]
    assert found.letters.tolist() == [0, -1, 1]
    assert found.right.tolist() == [1, 0, 0]
    assert found.refused.tolist() == [False, True, False]
    assert np.isnan(found.completion_tokens).tolist() == [False, True, True]
    again = found.of(["q2", "q0"])
    assert (again.letters.tolist(), again.qids) == ([1, 0], ("q2", "q0"))
    assert medical_answers.in_common([found, again]) == ["q0", "q2"]


@pytest.mark.parametrize(
    ("output", "thought"),
    [
        ('{"step_by_step_thinking": "a \\"b\\"?", "answer_choice": "A"}', 'a \\"b\\"?'),
        ('{"step_by_step_thinking": "cut short', '{"step_by_step_thinking": "cut short'),
        ("no object at all", "no object at all"),
    ],
)
def test_the_reasoning_is_what_stands_before_the_answer(tmp_path, output, thought):
    row = {"qid": "q", "model": "m", "setting": "s", "predicted": "", "answer": "A", "output": output}
    write_rows(tmp_path / "medical_mcq/reasoning_traces.jsonl.gz", [row])
    (found,) = medical_answers.traces(tmp_path)["m", "s"]
    assert (found.thought, found.chosen, found.right) == (thought, False, False)


# sets by specialty


def grouped(n=600, seed=0, hard=0.0):
    """Nine samples of four options; group 0 is right less often by `hard`."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n) % 3
    classes = rng.integers(4, size=n)
    p = np.full((n, 4), 0.1)
    p[np.arange(n), classes] = np.where(groups == 0, 0.7 - hard, 0.7)
    p /= p.sum(axis=1, keepdims=True)
    votes = np.stack([rng.multinomial(9, row) / 9 for row in p])
    case = SetCase(data="toy", probabilities=votes, classes=classes, together=np.arange(n), groups=groups)
    return specialties.GroupedCase(case=case, grouping="g", names=("0", "1", "2"), kinds=specialties.SAMPLES)


def test_sets_of_samples_by_group_are_those_of_mondrian():
    toy = grouped(hard=0.2).case
    (part,) = halves(toy.together, times=1)
    found = specialties.sampled_sets_of_groups(toy, part, 0.1)
    missed = 1 - toy.probabilities
    own = mondrian_quantiles(missed[part.fit, toy.classes[part.fit]], toy.groups[part.fit].tolist(), 0.1)
    sets = mondrian_sets(missed[part.test], toy.groups[part.test].tolist(), own)
    assert [np.flatnonzero(row).tolist() for row in found] == sets


def test_a_quantile_for_each_group_mends_the_hard_one():
    one, each = specialties.measure(grouped(n=1500, hard=0.4), times=30, alphas=(0.1,))
    assert (one.kind, each.kind) == ("sampled", "sampled, by group")
    assert one.coverage.mean() >= 0.9
    assert one.group_means[0] < 0.88
    assert one.by_chance < 0.01
    assert each.group_means.min() >= 0.89
    assert each.size.mean() > one.size.mean()
    assert one.rows.tolist() == [500, 500, 500]


@pytest.mark.parametrize(("gap", "low", "high"), [(0.0, 0.05, 1.0), (0.3, 0.0, 0.002)])
def test_groups_that_differ_by_chance_are_told_from_others(gap, low, high):
    rng = np.random.default_rng(1)
    groups = np.arange(300) % 5
    covered = (rng.random(300) < 0.9 - gap * (groups == 0)).astype(float)
    assert low <= specialties.chance_of_spread(covered, groups) <= high


def test_where_nothing_differs_chance_is_undefined():
    assert np.isnan(specialties.chance_of_spread(np.ones(6), np.arange(6) % 2))


def test_rows_of_no_group_and_small_groups_are_left_out():
    names = ["large"] * specialties.LEAST + ["small"] * (specialties.LEAST - 1) + [""] * 30
    qids = [f"q{at}" for at in range(len(names))]
    known = {
        qid: medical_answers.Question(source="medqa_test", n_options=4, answer=0, subject=name)
        for qid, name in zip(qids, names, strict=True)
    }
    shares, classes = np.full((len(qids), 4), 0.25), np.zeros(len(qids), dtype=np.intp)
    found = specialties.grouped_case("toy", shares, classes, qids, known, specialties.SAMPLES)
    assert (found.names, len(found.case.classes), found.grouping) == (("large",), specialties.LEAST, "specialty")


# sampled answers


def test_of_single_options_u_cons_counts_the_different_ones():
    entropy, most, different = repeated_answers.of_samples([["A", "A", "A"], ["B", "A", "B"], ["C", "D", "A"]])
    np.testing.assert_allclose(different, [1, 2, 3])
    np.testing.assert_allclose(entropy[[0, 2]], [0, np.log(3)])
    assert most == ["A", "B", "A"]  # of equally frequent ones the first listed


def test_a_score_that_knows_and_one_that_does_not():
    rng = np.random.default_rng(2)
    right = (rng.random(400) < 0.7).astype(float)
    judged = repeated_answers.Judged(
        model="toy",
        answer="a",
        right=right,
        scores={"knows": 1 - right + 0.1 * rng.random(400), "guesses": rng.random(400)},
        passes={"knows": 1, "guesses": 9},
        together=np.arange(400),
    )
    knows, guesses = repeated_answers.measure(judged, times=8)
    assert knows.metrics["PRR"].mean == pytest.approx(1)
    assert knows.metrics["AUROC"].mean == pytest.approx(1)
    assert abs(guesses.metrics["PRR"].mean) < 0.15
    assert (knows.passes, guesses.passes) == (1, 9)
    assert knows.accuracy == right.mean()


# reasoning


def test_two_fifths_of_each_stratum_are_fitted():
    strata = np.repeat([0, 1, 2], [10, 55, 5])
    for part in reasoning.stratified(strata, times=5):
        assert Counter(strata[part.fit].tolist()) == {0: 4, 1: 22, 2: 2}
        assert sorted([*part.fit, *part.test]) == list(range(70))
    first, second = reasoning.stratified(strata, times=2)
    assert not np.array_equal(first.fit, second.fit)


def reasoned(features, right, sources):
    return reasoning.Reasoned(
        model="toy",
        features=np.asarray(features, dtype=float),
        right=np.asarray(right, dtype=float),
        sources=np.asarray(sources),
        source_names=("x", "y"),
    )


def test_long_traces_that_are_wrong_are_found():
    rng = np.random.default_rng(3)
    right = rng.random(500) < 0.7
    tokens = np.where(right, rng.integers(10, 60, 500), rng.integers(40, 90, 500))
    rare = rng.random((500, 2)) < 0.02
    found = reasoning.measure(reasoned(np.column_stack([tokens, rare]), right, np.arange(500) % 2), times=6)
    assert [m.score for m in found] == ["length alone", *reasoning.RECIPES]
    for m in found:
        assert 0.8 < m.metrics["AUROC"].mean < 1
        assert m.metrics["AUROC within"].mean == pytest.approx(m.metrics["AUROC"].mean, abs=0.03)
    length, wrong = reasoning.wrong_by_length(reasoned(tokens[:, None], right, np.zeros(500, dtype=int)))
    assert (np.diff(length) >= 0).all()
    assert wrong[0] < 0.1 < 0.9 < wrong[-1]


def test_a_length_that_only_tells_the_examination_is_worth_nothing_within():
    """The second examination is harder, and all of its traces are long."""
    rng = np.random.default_rng(4)
    sources = np.arange(2000) % 2
    right = rng.random(2000) < np.where(sources == 0, 0.9, 0.4)
    tokens = 10 + 1000 * sources + rng.integers(0, 100, 2000)
    (found,) = reasoning.measure(reasoned(tokens[:, None], right, sources), times=6)
    assert found.metrics["AUROC"].mean > 0.7
    assert found.metrics["AUROC within"].mean == pytest.approx(0.5, abs=0.05)


# cascades


def stage(model, sure, right, tokens):
    """Two options; the model gives its answer the probability `sure`, and is right where it says so."""
    p = np.column_stack([sure, 1 - sure])
    return cascades.Stage(
        model=model,
        rows=one_label(p, np.where(right, 0, 1).astype(np.intp)),
        score=cascade_cases.PROBABILITY,
        tokens=np.full(len(sure), float(tokens)),
        written=np.full(len(sure), float(tokens) / 2),
    )


def cascade(n=1200, risk=0.15):
    """Half of the questions are easy for the small model, and it knows which; the large one is right in 19 of 20."""
    rng = np.random.default_rng(5)
    easy = np.arange(n) % 2 == 0
    truth = np.zeros(n, dtype=np.intp)
    sure = np.where(easy, 0.95, 0.6)
    small_right = rng.random(n) < np.where(easy, 0.98, 0.6)
    large_right = rng.random(n) < 0.95
    small = stage("small", np.where(small_right, sure, 1 - sure).clip(0.01, 0.99), np.ones(n, bool), 10)
    large = stage("large", np.where(large_right, 0.9, 0.1), np.ones(n, bool), 100)
    assert (small.rows.classes == truth).all()
    return cascades.CascadeCase(data="toy", stages=(small, large), risks=(risk,))


def test_a_cascade_asks_the_large_model_about_what_the_small_one_leaves():
    both, small, large = cascades.measure(cascade(), times=12)
    assert (both.road, small.road, large.road) == ("small -> large", "small", "large")
    np.testing.assert_allclose(both.by.sum(axis=1), both.answered)
    assert both.by[:, 0].mean() == pytest.approx(0.5, abs=0.05)
    assert both.answered.mean() > 0.95 > 0.6 > small.answered.mean()
    np.testing.assert_allclose(both.asked[:, 0], 1)
    np.testing.assert_allclose(both.asked[:, 1], 1 - both.by[:, 0])
    np.testing.assert_allclose(both.tokens, 10 + 100 * both.asked[:, 1])
    np.testing.assert_allclose(both.written, both.tokens / 2)
    assert both.tokens.mean() < large.tokens.mean() == 100
    assert both.broken <= broken_by_chance(12, cascades.DELTA)
    assert both.wrong.mean() < 0.15


def test_what_cannot_be_promised_is_left_to_a_person():
    both, small, _ = cascades.measure(cascade(risk=0.001), times=4)
    assert both.silent == small.silent == 4
    assert np.isnan(both.wrong).all()
    assert both.broken == 0


def test_votes_and_letters_become_outputs():
    three = cascade_cases.votes(np.array([[0, 0, 2], [1, 1, 1]]), np.array([0, 2]), 3)
    np.testing.assert_allclose(three.output.probabilities, [[2 / 3, 0, 1 / 3], [0, 1, 0]])
    one = cascade_cases.chosen_option(np.array([2, 0]), np.array([2, 1]), 3, np.array([7.0, 90.0]))
    assert one.output.probabilities.argmax(axis=1).tolist() == [2, 0]
    assert cascade_cases.FirstFeature().of(one.output).tolist() == [7, 90]
    assert one.output.usable().all()
    assert three.output.usable().all()


# refusals


def refusing(u, refused, right=None, sources=None):
    n = len(refused)
    return refusals.Refusing(
        model="toy",
        refused=refused,
        chosen=~refused,
        right=np.zeros(n, bool) if right is None else right,
        sources=np.zeros(n, dtype=np.intp) if sources is None else sources,
        scores={"u": u},
        others_right=np.where(refused, 0.0, 1.0),
    )


def test_a_score_is_not_paid_for_knowing_the_examination():
    sources = np.repeat([0, 1], 100)
    refused = np.arange(200) % np.where(sources == 0, 4, 20) == 0
    everything = np.ones(200, dtype=bool)
    assert refusals.within(refused, 1.0 - sources, sources, everything) == 0.5
    assert refusals.within(refused, refused.astype(float), sources, everything) == 1
    assert np.isnan(refusals.within(np.zeros(200, bool), 1.0 - sources, sources, everything))


def test_refusals_are_told_from_answers_and_from_wrong_answers():
    rng = np.random.default_rng(6)
    refused = rng.random(600) < 0.1
    right = (rng.random(600) < 0.6) & ~refused
    u = np.where(right, 0.0, 1.0) + 0.01 * rng.random(600)  # what is wrong and what is refused look alike
    case = refusing(u, refused, right)
    (found,) = refusals.measure(case, times=8)
    assert found.errors.mean == pytest.approx(1)
    assert 0.7 < found.refusals.mean < 0.9
    assert found.against_errors.mean == pytest.approx(0.5, abs=0.1)
    (counted,) = refusals.counted(case, {0: "exam"})
    assert (counted.refused, counted.n) == (int(refused.sum()), 600)
    assert (counted.other_on_refused, counted.other_on_answered) == (0, 1)
    assert counted.right == right.sum() / (~refused).sum()


def test_a_score_that_knows_too_few_refusals_says_nothing():
    refused = np.arange(100) < refusals.LEAST - 1
    assert refusals.measure(refusing(np.arange(100.0), refused), times=4) == []


# tournaments


def contest(n=16, judge=None):
    strength = np.random.default_rng(7).permutation(n).astype(float)
    return tournaments.Contest(
        name="toy",
        judge=judge or (lambda i, j, rng: float(strength[i] > strength[j])),
        published=strength,
        all_pairs=strength,
    )


def test_ratings_come_near_to_a_ranking_that_the_judge_knows():
    found = tournaments.measure([contest()], name="toy", judge="sure", times=4, rounds=(2, 15))
    assert [m.schedule for m in found] == list(tournaments.SCHEDULES)
    for m in found:
        assert m.spearman.shape == (4, 2)
        assert m.spearman[:, 1].mean() > 0.75 > 0.65 > m.spearman[:, 0].mean()
        assert m.auroc[:, 1].mean() > 0.8
        assert (m.best, m.best_kendall, m.comparisons(15)) == (pytest.approx(1), pytest.approx(1), 15)


def test_a_judge_who_knows_nothing_leaves_nothing():
    coin = contest(judge=lambda i, j, rng: float(rng.integers(2)))
    for m in tournaments.measure([coin], name="toy", judge="coin", times=20, rounds=(10,)):
        assert abs(m.spearman.mean()) < 0.25


@pytest.mark.parametrize(
    ("votes", "verdict"),
    [((1, 1, 0), 1), ((0, 0, 0.5), 0), ((1, 0), 0.5), ((0.5, 0.5, 1), 0.5), ((1, 1, 0.5, 0.5), 0.5), ((1,), 1)],
)
def test_what_most_people_say(votes, verdict):
    assert tournaments.majority(votes) == verdict


def test_votes_are_read_from_both_sides(tmp_path):
    ranks = {"x": 0.1, "y": 0.5, "z": 0.9}  # lower is more convincing
    rows = [{"arg_id": name, "topic_side": "side", "text": "", "rank_score": rank} for name, rank in ranks.items()]
    write_rows(tmp_path.joinpath(*tournaments.ARGUMENTS), rows)
    pairs = [
        {"topic_side": "side", "a1": "x", "a2": "y", "votes": "w0:a1;w1:a1;w2:a1"},
        {"topic_side": "side", "a1": "z", "a2": "y", "votes": "w0:a2;w1:a2;w2:a2"},
        {"topic_side": "side", "a1": "z", "a2": "x", "votes": "w0:equal;w1:equal;w2:equal"},
    ]
    write_rows(tmp_path.joinpath(*tournaments.PAIRS), pairs)
    rng = np.random.default_rng(8)
    by_judge = tournaments.arguments(tmp_path)
    (sure,) = by_judge.pop("never wrong")
    assert [sure.judge(*pair, rng) for pair in ((0, 1), (2, 0), (2, 1))] == [1, 0, 0]
    assert len(by_judge) == 2
    for (found,) in by_judge.values():
        assert [found.judge(*pair, rng) for pair in ((0, 1), (1, 0), (1, 2), (2, 1), (2, 0))] == [1, 0, 1, 0, 0.5]
        assert found.published.argmax() == 0
        np.testing.assert_allclose(found.all_pairs, [0.75, 0.5, 0.25])


def test_two_models_meet_on_one_instruction(tmp_path):
    rows = [{"id": f"i{at}", "good": 1.9, "bad": 1.1, "same": 1.9} for at in range(3)]
    write_rows(tmp_path.joinpath(*tournaments.PREFERENCES), rows)
    (found,) = tournaments.models(tmp_path)
    rng = np.random.default_rng(9)
    assert [found.judge(*pair, rng) for pair in ((0, 1), (1, 0), (0, 2))] == [1, 0, 0.5]
    np.testing.assert_allclose(found.all_pairs, [0.75, 0, 0.75])
    np.testing.assert_allclose(found.published, [0.9, 0.1, 0.9])


# length


def lengths(values, ratio):
    return Lengths(
        models=tuple(f"m{at}" for at in range(values.shape[1])), values=values, characters=1000 * ratio, ratio=ratio
    )


def test_a_judge_of_lengths_is_found_out():
    rng = np.random.default_rng(10)
    ratio = rng.uniform(0.1, 2, (80, 6))
    found = lengths(ratio / 2, ratio)
    assert found.left_over.mean(axis=0) == pytest.approx(0)
    assert found.left_over.mean(axis=1) == pytest.approx(0)
    of_model, *_ = judge_length.related(found)
    assert (of_model.mean, of_model.above, of_model.of) == (pytest.approx(1), 6, 6)
    shown = judge_length.bins(found)
    assert sum(each.n for each in shown) == ratio.size
    assert [each.preferred for each in shown] == sorted(each.preferred for each in shown)
    assert shown[-1].name == "1.50 and more"


def test_what_a_model_gains_by_writing_more():
    rng = np.random.default_rng(11)
    less = rng.uniform(0, 0.5, 200)
    more = less + rng.normal(0.1, 0.1, 200)
    found = lengths(np.column_stack([less, more]), np.column_stack([np.full(200, 0.5), np.ones(200)]))
    (told,) = judge_length.told(found, [("m0", "m1")])
    assert told.gain == pytest.approx((more - less).mean())
    assert 0.05 < told.low < told.gain < told.high < 0.15
    assert told.characters == (500, 1000)


# the page


def test_the_document_shows_every_table_and_picture():
    page = PAGE.read_text(encoding="utf-8")
    with_tables(page, language_model_tables(Findings()))
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", page)
    assert len(pictures) == 6
    assert all((PAGE.parent / name).is_file() for name in pictures)


@pytest.mark.slow
def test_without_data_nothing_is_measured(tmp_path):
    script = ROOT / "benchmarks/real/language_models.py"
    command = [sys.executable, script, "--data", tmp_path / "none", "--write", tmp_path / "page.md"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("There are no stored outputs of language models in")
    assert not (tmp_path / "page.md").exists()


def test_with_some_data_no_page_is_written(tmp_path, capsys, monkeypatch):
    there = [Step(name="nothing", measure=dict)]
    monkeypatch.setattr(language_models, "steps", lambda data: there)
    page = tmp_path / "page.md"
    page.write_text("as it was")
    assert MEDICAL in missing(tmp_path)
    assert language_models.main(["--data", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Left out, since their files are not in")
    assert "## cascades" in printed
    assert language_models.main(["--data", str(tmp_path), "--write", str(page)]) == 1
    assert page.read_text() == "as it was"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(bool(missing(DATA)), reason="the stored model outputs are not here")
def test_the_real_thing():
    """All of it with few repetitions: what the page says most loudly must come out again."""
    found = {}
    for step in steps(DATA, times=12, repetitions=3):
        found |= step.measure()
    measured = Findings(**found)
    for name, made in language_model_tables(measured).items():
        assert made.count("\n") > 2, name
        assert "nan" not in made, name
    assert all(o.coverage.mean() > 1 - o.alpha - 0.03 for o in measured.groups)
    scores = {(m.model, m.score): m for m in measured.scores if m.answer == "most probable option"}
    entropy = scores["qwen25_32b", "semantic entropy, 9 samples"].metrics["PRR"].mean
    assert scores["qwen25_32b", "softmax response"].metrics["PRR"].mean > entropy + 0.1
    lengths = {m.model: m.metrics["AUROC"].mean for m in measured.traces if m.score == "length alone"}
    assert lengths["o3-mini"] > 0.7 > 0.65 > lengths["gpt-4-32k, cot"]
    assert max(m.broken for m in measured.roads) <= broken_by_chance(12, cascades.DELTA)
    assert {m.model: m.refused for m in measured.refused if m.source == "medmcqa_dev"}["gpt-4-32k, rag32"] == 370
    assert all(m.spearman[:, -1].mean() > 0.8 for m in measured.played)
