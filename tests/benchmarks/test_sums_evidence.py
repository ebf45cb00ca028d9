"""What is said of the scores of the sums model, on replies that were written by hand; and a short run of the model."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.language import sums
from benchmarks.language.answers import answers, by_level, self_reports
from benchmarks.language.collected import Collected, Cost, collected, labelled, n_rows
from benchmarks.language.comparison import LEVEL, compared, quality_of, splits
from benchmarks.language.dearer_scores import budgets, gated
from benchmarks.language.early_stops import stopped
from benchmarks.language.findings import Findings, within
from benchmarks.language.kept_promises import coverage, kept
from benchmarks.language.stored_replies import as_json, from_json
from benchmarks.language.sums_pictures import sums_pictures
from benchmarks.language.sums_tables import sums_tables
from benchmarks.language.tasks import TASKS, label_of
from benchmarks.real.document import with_tables
from demur.serve.config.task import LETTERS
from demur.uncertainty.generation import Generation, Replies, Usage, as_column
from demur.uncertainty.output import Output
from tests.conftest import ROOT

EACH = 40
PAGE = ROOT / "docs/evidence/sums.md"
FIRST = Cost(calls=1, prompt_tokens=10, completion_tokens=2, seconds=0.1, cpu_seconds=0.1)
SAMPLED = Cost(calls=2, prompt_tokens=10, completion_tokens=22, seconds=0.2, cpu_seconds=0.2)


@pytest.fixture
def one_thread():
    """More threads than are free wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def reply(said, samples, logprobs=(-0.1,), *, reasoning=None, **more):
    """A reply with these log-probabilities; a trace is one token before them for each of its words."""
    words = [] if reasoning is None else reasoning.split()
    logprobs = [*[-0.1] * len(words), *logprobs]
    first = Generation(
        text=str(said),
        tokens=(*words, *["x"] * (len(logprobs) - len(words))),
        logprobs=np.array(logprobs, dtype=float),
        top_logprobs=tuple(np.log([np.exp(value), 1 - np.exp(value)]) for value in logprobs),
        reasoning=reasoning,
        answer_start=len(words),
    )
    return Replies(first=first, said=said, samples=tuple(samples), usage=Usage(calls=1), **more)


def made_up(name, replies_about, *, costs=None, told=(), **more):
    """Replies about real exercises. `replies_about(exercise, right, rng)` writes each."""
    task = replace(TASKS[name], told=told)
    rng = np.random.default_rng(0)
    exercises = task.exercises(EACH)
    rows = [replies_about(exercise, rng) for exercise in exercises]
    width = len(task.model().task.labels)
    if name in ("total", "think"):
        shares = np.tile([1.0, 0.0], (len(rows), 1))
    else:
        shares = np.array([[float(at == one.said) for at in range(width)] for one in rows])
    output = Output(logits=np.log(shares + 1e-12), probabilities=shares, replies=as_column(rows))
    return Collected(
        task=task,
        levels=np.array([exercise.level for exercise in exercises]),
        labels=[label_of(exercise) for exercise in exercises],
        rows=labelled(task, exercises, output),
        costs=costs or {"first": FIRST, "samples": SAMPLED},
        **more,
    )


def sure_when_right(exercise, rng):
    """A claim whose log-probability tells for certain whether it is right, and whose samples tell it less well."""
    right = ["no", "yes"].index(exercise.label)
    hard = rng.random() < exercise.level / 8
    said = 1 - right if hard else right
    logprob = -0.5 - 0.1 * rng.random() if hard else -0.1 * rng.random()
    others = int(rng.integers(0, 6) if hard else rng.integers(0, 3))
    return reply(said, [1 - said] * others + [said] * (10 - others), [logprob], options=(0, 1))


@pytest.fixture(scope="module")
def claims():
    return made_up("claim", sure_when_right)


def by_score(lines):
    return {line.score: line for line in lines}


def test_a_score_that_knows_is_told_from_one_that_guesses(claims):
    lines = by_score(compared(claims, times=4))
    assert lines["g_nll"].metrics["AUROC"].mean == 1
    assert lines["g_nll"].metrics["PRR"].mean == pytest.approx(1)
    assert 0.5 < lines["semantic_entropy"].metrics["AUROC"].mean < 0.95
    assert 0.5 < lines[LEVEL].metrics["AUROC"].mean < 0.9


def test_each_score_costs_what_it_asks_for(claims):
    lines = by_score(compared(claims, times=2))
    assert lines["g_nll"].cost is FIRST
    assert lines["semantic_entropy"].cost is SAMPLED
    assert lines["combined"].cost is SAMPLED  # one of its two parts takes samples
    assert lines[LEVEL].cost.calls == 0


def test_every_configured_score_is_in_the_table(claims):
    recipe = claims.task.model().recipe
    assert {*recipe.scores, *recipe.combinations, LEVEL} == set(by_score(compared(claims, times=2)))


def test_a_score_that_is_missing_is_counted_and_left_out():
    def half(exercise, rng):
        one = sure_when_right(exercise, rng)
        return one if rng.random() < 0.5 else replace(one, first=replace(one.first, logprobs=None, top_logprobs=None))

    lines = by_score(compared(made_up("claim", half), times=2))
    assert 0.3 < lines["g_nll"].missing < 0.7
    assert lines["g_nll"].metrics["AUROC"].mean == 1
    assert lines["semantic_entropy"].missing == 0


def test_no_row_is_on_two_sides():
    for part in splits(101, times=5):
        rows = np.concatenate([part.learn, part.calibrate, part.test])
        assert sorted(rows) == list(range(101))


def test_fitted_scores_learn_from_rows_that_they_are_not_measured_on():
    """Of pure noise, nothing is found in the test rows."""

    def noise(exercise, rng):
        right = rng.random() < 0.5
        waits = " ".join(["Wait?"] * int(rng.integers(1, 9)))
        text = exercise.label if right else str(int(exercise.label) + 1)
        return reply(text, [text] * 10, [-rng.random()], reasoning=waits)

    lines = by_score(compared(made_up("think", noise), times=20))
    for name in ("trace, logistic", "trace, ridge", "logistic of both"):
        assert lines[name].metrics["AUROC"].mean == pytest.approx(0.5, abs=0.12)


def test_a_split_without_mistakes_teaches_nothing_and_stops_nothing():
    about = made_up("think", lambda exercise, rng: reply(exercise.label, [exercise.label] * 10, reasoning="so?"))
    lines = by_score(compared(about, times=2))
    assert lines["trace, logistic"].missing == lines["logistic of both"].missing == 1
    assert np.isnan(lines["trace, logistic"].metrics["PRR"].mean)


def test_more_samples_and_what_they_cost(claims):
    found = budgets(claims, times=2)
    assert [one.samples for one in found] == [1, 2, 3, 5, 7, 10]
    assert found[-1].tokens == SAMPLED.tokens
    assert found[0].tokens == pytest.approx(FIRST.tokens + 2)
    assert found[0].metrics["semantic_entropy"].mean == pytest.approx(0)  # one sample agrees with itself
    assert found[-1].metrics["semantic_entropy"].mean > found[1].metrics["semantic_entropy"].mean


def test_a_cascade_asks_about_the_share_that_was_set(claims):
    none, *between, all_of_them = gated(claims, shares=(0.25,), times=10)
    assert (none.metrics["asked"].mean, all_of_them.metrics["asked"].mean) == (0, 1)
    assert between[0].metrics["asked"].mean == pytest.approx(0.25, abs=0.1)
    tokens = [one.metrics["tokens"].mean for one in (none, between[0], all_of_them)]
    assert tokens[0] == FIRST.tokens < tokens[1] < tokens[2] == SAMPLED.tokens


def test_whose_answer_is_right():
    def stubborn(exercise, rng):
        """The first reply is always wrong, nine of ten samples are right."""
        right = ["no", "yes"].index(exercise.label)
        return reply(1 - right, [right] * 9 + [None], options=(0, 1))

    found = answers(made_up("claim", stubborn))
    assert (found.first, found.majority, found.agree) == (0, 1, 0)
    assert found.samples == pytest.approx(0.9)
    assert found.unread == pytest.approx(0.1)


def test_samples_of_texts_are_judged_by_the_number_that_is_right():
    found = answers(made_up("total", lambda exercise, rng: reply("1", [exercise.label] * 6 + ["1"] * 4)))
    assert (found.first, found.majority) == (0, 1)
    assert found.samples == pytest.approx(0.6)


def test_within_a_level_with_few_errors_nothing_is_told(claims):
    levels = by_level(claims, ["g_nll"])
    right = quality_of(claims.task.model().recipe, claims.rows)
    for level in levels:
        errors = (1 - right[claims.levels == level.level]).sum()
        assert np.isnan(level.aurocs["g_nll"]) == (errors < 15)
        assert level.n == (claims.levels == level.level).sum()
    assert any(np.isfinite(level.aurocs["g_nll"]) for level in levels)


def test_what_the_model_says_of_itself_is_counted_where_it_says_anything():
    rated = [reply(0, [], rating=0.05), reply(0, [], rating=None)] * 10
    about = made_up(
        "claim",
        sure_when_right,
        asked={"rating": rated, "stated": [reply(0, [])] * 20},
        judged=np.arange(20),
        costs={"first": FIRST, "samples": SAMPLED, "rating": SAMPLED, "stated": SAMPLED},
    )
    rating, stated = self_reports(about)
    assert (rating.understood, rating.examples) == (0.5, ["0.05"])
    assert rating.outcome.startswith("holds the unknown")
    assert stated.outcome == "no fit: unknown in all of the rows"
    assert stated.understood == 0
    assert np.isnan(stated.auroc)


def test_sets_cover_what_they_promise(claims):
    (found,) = coverage(claims, alphas=(0.1,), times=40)
    assert found.metrics["coverage"].mean >= 0.9 - 0.01
    assert 1 <= found.metrics["size"].mean <= 2


def test_the_risk_is_kept(claims):
    found = kept(claims, "g_nll", max_risk=0.2, times=6)
    assert found.feasible == 1
    assert found.metrics["risk"].mean <= 0.2
    assert found.above == 0


def test_a_promise_out_of_reach_answers_nothing(claims):
    found = kept(claims, "g_nll", max_risk=0.001, times=3)
    assert (found.feasible, found.above) == (0, 0)


@pytest.mark.parametrize(
    "one",
    [
        reply(2, [2, None, 0], options=(0, 1, 2, 3)),
        reply((0, 3), [(0, 3), (), None], spans={0: (0, 1)}, stated={0: 0.25}),
        reply("132", ["132", "131"], [-0.1, -0.2], reasoning="47 + 85 = 132?", rating=0.4),
    ],
)
def test_stored_replies_come_back(one):
    again = from_json(json.loads(json.dumps(as_json(one))))
    assert (again.said, again.samples, again.spans, again.options) == (one.said, one.samples, one.spans, one.options)
    assert (again.stated, again.rating, again.usage) == (one.stated, one.rating, one.usage)
    assert again.first.reasoning == one.first.reasoning
    np.testing.assert_allclose(again.logprobs(), one.logprobs(), atol=1e-7)
    np.testing.assert_allclose(again.top_logprobs(), one.top_logprobs(), atol=1e-7)


def test_a_choice_is_labelled_with_the_letter_of_its_option():
    for exercise in TASKS["choice"].exercises(3):
        assert exercise.input["options"][LETTERS.index(label_of(exercise))] == exercise.label


def test_the_document_shows_every_table():
    page = PAGE.read_text(encoding="utf-8")
    names = re.findall(r"<!-- table: (.+?) -->", page)
    assert with_tables(page, dict.fromkeys(names, "x")) != page
    assert {f"scores of {name}" for name in TASKS} <= set(names)
    for picture in re.findall(r"\]\((images/.+?)\)", page):
        assert (PAGE.parent / picture).is_file(), picture


def test_a_trial_does_not_write_the_document(capsys, tmp_path):
    assert sums.main(["--share", "0.1", "--write", str(tmp_path / "page.md")]) == 1
    assert "leave out --share" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.long
def test_the_model_is_run_once_and_read_again(tmp_path, one_thread):
    counted: list[int] = []
    task = TASKS["claim"]
    run = collected(task, tmp_path, each=30, advance=counted.append)
    assert sum(counted) == n_rows(task, 30)
    read = collected(task, tmp_path, each=30, advance=counted.append)
    assert read.costs == run.costs
    for one, again in zip(run.rows.output.replies, read.rows.output.replies, strict=True):
        assert (one.first.text, one.samples) == (again.first.text, again.samples)
    np.testing.assert_array_equal(run.rows.truth, read.rows.truth)
    assert run.costs["first"].calls == 1
    assert run.costs["samples"].calls == 2
    assert run.same_reply == 1
    np.testing.assert_allclose(run.told["full_label"].sum(axis=1), 1)
    assert quality_of(task.model().recipe, run.rows).mean() > 0.7


@pytest.mark.slow
@pytest.mark.long
def test_stopping_decides_as_all_samples_do(tmp_path, one_thread):
    about = collected(TASKS["claim"], tmp_path, each=30, advance=lambda n: None)
    for found in stopped(about, tmp_path, each=8, advance=lambda n: None):
        assert found.same == found.n
        assert found.drawn <= found.most
        assert found.stopping.completion_tokens <= found.drawing_all.completion_tokens


@pytest.mark.slow
@pytest.mark.long
def test_tables_and_pictures_of_few_exercises(tmp_path, one_thread):
    about = {name: collected(task, tmp_path, each=10, advance=lambda n: None) for name, task in TASKS.items()}
    every = list(about.values())
    found = Findings(
        collected=about,
        answers=[answers(one) for one in every],
        levels=[level for one in every for level in by_level(one, within(one))],
        lines=[line for one in every for line in compared(one, times=2)],
        self_reports=[report for one in every for report in self_reports(one)],
        budgets=[line for one in every for line in budgets(one, times=2)],
        gated=[line for one in every for line in gated(one, times=2)],
        stopped=[],
        covered=coverage(about["claim"], times=2),
        kept=[kept(about["claim"], "g_nll", max_risk=0.2, times=2)],
    )
    tables = sums_tables(found)
    assert with_tables(PAGE.read_text(encoding="utf-8"), tables)
    for picture in sums_pictures(found).values():
        assert picture.startswith("<svg")
