"""Tournaments: ratings recover the order, go on after a break as if there had been none, and are worth what is said."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import spearmanr

from demur.audit.metrics.calibration import ece
from demur.audit.metrics.ratings import measure_ratings
from demur.serve import cli
from demur.serve.commands.rank.instances import read_instances
from demur.serve.commands.rank.journal import Journal, JournalRefused
from demur.serve.commands.rank.ranking import ModelJudge, NoVerdicts, as_judge, folder_of, rank_file
from demur.serve.commands.rank.rounds import Budget, TournamentPlan, agreement, check_feasible, play
from demur.serve.config.file import BadConfig, Config
from demur.serve.contract.engine import EngineFailed
from demur.serve.contract.inputs import InputLimits
from demur.serve.hosts.language.anchors import read_ratings
from demur.traffic.table_file import BadDataFile
from deploy.models.sums.parts import items
from tests.conftest import ROOT
from tests.serve.comparing import ComparingEngine, configured, drawn, judge_of, labelled, quiet, serve_with, write_rows

SCHEDULES = ("random", "graph", "swiss")
LIMITS = InputLimits(text_characters=1000, image_pixels=1)


@pytest.fixture
def served_by(monkeypatch):
    return partial(serve_with, monkeypatch)


@pytest.fixture
def judged_by(served_by, tmp_path):
    def use(engine):
        served_by(engine)
        return ModelJudge(as_judge(configured(tmp_path).model("judge"), "judge"))

    return use


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ratings_recover_the_order(judged_by, tmp_path, schedule):
    strengths = drawn(41)  # an odd number: somebody always sits out
    judge = judged_by(ComparingEngine(strengths))
    plan = TournamentPlan(schedule=schedule)
    with Journal(tmp_path / "journal.jsonl", {}) as journal:
        done = play(list(strengths), judge, journal, plan=plan, budget=Budget(rounds=20, settled=1), told=quiet)
    assert spearmanr(done.ratings, list(strengths.values())).statistic > 0.85
    assert done.ratings.sum() == pytest.approx(41_000)
    assert (len(done.matches), done.ended) == (20 * 20, "rounds")
    for played in done.rounds:
        players = [player for a, b, _ in played.matches for player in (a, b)]
        assert len(set(players)) == 40
    times = np.bincount([player for a, b, _ in done.matches for player in (a, b)])
    assert times.min() >= 10  # nobody sits out for ever


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n", [2, 3, 5, 8, 9])
def test_a_few_players_are_enough(judged_by, tmp_path, schedule, n):
    strengths = {f"text {i}": float(i) for i in range(n)}
    judge = judged_by(ComparingEngine(strengths, sharpness=50))
    with Journal(tmp_path / "journal.jsonl", {}) as journal:
        done = play(
            list(strengths),
            judge,
            journal,
            plan=TournamentPlan(schedule=schedule),
            budget=Budget(rounds=30),
            told=quiet,
        )
    assert spearmanr(done.ratings, list(strengths.values())).statistic > 0.8


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_broken_tournament_goes_on_as_if_it_had_not_been(judged_by, tmp_path, schedule):
    strengths = drawn(21)
    inputs, plan = list(strengths), TournamentPlan(schedule=schedule, seed=3)
    engine = ComparingEngine(strengths, sharpness=1, silent=0.1)
    judge = judged_by(engine)

    def played(path, rounds, asked=judge):
        with Journal(path, plan.as_facts()) as journal:
            return play(inputs, asked, journal, plan=plan, budget=Budget(rounds=rounds, settled=1), told=quiet)

    whole = played(tmp_path / "whole.jsonl", 12)

    broken = tmp_path / "broken.jsonl"
    played(broken, 4)

    def fails(pairs, advance):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        played(broken, 12, fails)
    with broken.open("a") as file:
        file.write('{"round":5,"matches":[[0,')  # the machine went down while this was written
    before = len(engine.asked)
    again = played(broken, 12)
    assert again.ratings.tolist() == whole.ratings.tolist()
    assert again.matches == whole.matches
    assert broken.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert len(engine.asked) - before == 8 * 10  # what was known was not asked again
    assert played(broken, 12).ratings.tolist() == whole.ratings.tolist()
    assert len(engine.asked) - before == 8 * 10


def test_another_seed_is_another_tournament(judged_by, tmp_path):
    strengths = drawn(20)
    judge = judged_by(ComparingEngine(strengths))
    found = []
    for seed in (0, 1):
        with Journal(tmp_path / f"{seed}.jsonl", {}) as journal:
            plan, budget = TournamentPlan(seed=seed), Budget(rounds=2)
            found.append(play(list(strengths), judge, journal, plan=plan, budget=budget, told=quiet).matches)
    assert found[0] != found[1]


def test_ratings_that_stand_still_end_it(judged_by, tmp_path):
    strengths = drawn(60)
    judge = judged_by(ComparingEngine(strengths, sharpness=20))
    seen = []
    with Journal(tmp_path / "journal.jsonl", {}) as journal:
        budget = Budget(rounds=60, settled=0.95)
        done = play(
            list(strengths),
            judge,
            journal,
            plan=TournamentPlan(),
            budget=budget,
            told=lambda number, n: seen.append((number, n)),
        )
    assert done.ended == "settled"
    assert 10 <= len(done.rounds) < 40
    assert done.agreement is not None
    assert done.agreement >= 0.95
    assert seen[0] == (1, 1)
    assert seen[-1] == (len(done.rounds), len(done.matches))


def test_agreement():
    assert agreement([np.array([1.0, 2.0])] * 9) is None
    assert agreement([np.array([1.0, 2.0, 3.0])] * 10) == pytest.approx(1)
    assert agreement([np.array([1.0, 1.0])] * 10) is None  # nobody has won anything yet
    turned = [np.array([1.0, 2.0])] * 5 + [np.array([2.0, 1.0])] * 5
    assert agreement(turned) == pytest.approx(-1)


def test_a_budget_of_comparisons(judged_by, tmp_path):
    strengths = drawn(20)
    judge = judged_by(ComparingEngine(strengths))
    with Journal(tmp_path / "journal.jsonl", {}) as journal:
        budget = Budget(comparisons=35)
        done = play(list(strengths), judge, journal, plan=TournamentPlan(), budget=budget, told=quiet)
    assert (len(done.rounds), len(done.matches), done.ended) == (3, 30, "comparisons")
    with pytest.raises(BadConfig, match="takes 10"):
        check_feasible(20, TournamentPlan(), Budget(comparisons=9))
    with pytest.raises(BadConfig, match="random or swiss"):
        check_feasible(5000, TournamentPlan(schedule="graph"), Budget())


def test_a_model_that_likes_what_it_reads_first_favours_nobody(served_by, tmp_path):
    strengths = drawn(60)
    served_by(ComparingEngine(strengths, lean=3))
    data = write_rows(tmp_path / "rows.jsonl", labelled(strengths))
    found = rank_file(
        configured(tmp_path), "judge", data, folder=tmp_path / "out", plan=TournamentPlan(), budget=Budget(), told=quiet
    )
    assert found.ratings.share_a is not None
    assert found.ratings.share_a[1] > 0.6
    assert any("leans to the text that it is shown first" in remark for remark in found.remarks)
    ratings = [row.rating for row in found.ratings.rows]
    assert spearmanr(ratings, list(strengths.values())).statistic > 0.8


def test_what_gives_no_verdict_moves_nothing_and_is_counted(served_by, tmp_path):
    strengths = drawn(61)
    served_by(ComparingEngine(strengths, silent=0.2, broken=0.1))
    data = write_rows(tmp_path / "rows.jsonl", labelled(strengths))
    found = rank_file(
        configured(tmp_path),
        "judge",
        data,
        folder=tmp_path,
        plan=TournamentPlan(),
        budget=Budget(rounds=10),
        told=quiet,
    ).ratings
    assert found.comparisons == 300
    assert 0.05 < found.failed / 300 < 0.15
    assert 0.2 < found.no_verdict / 300 < 0.36
    assert found.prompt_tokens == 20 * (300 - found.failed)
    assert sum(row.rating for row in found.rows) == pytest.approx(61_000)


def test_an_endpoint_that_is_gone_ends_it_and_keeps_the_rounds(judged_by, tmp_path):
    strengths = drawn(20)
    engine = ComparingEngine(strengths)
    judge = judged_by(engine)
    path = tmp_path / "journal.jsonl"
    with Journal(path, {}) as journal:
        play(list(strengths), judge, journal, plan=TournamentPlan(), budget=Budget(rounds=2), told=quiet)
        engine.broken = 1.0
        with pytest.raises(EngineFailed, match=r"is tired.*same command goes on"):
            play(list(strengths), judge, journal, plan=TournamentPlan(), budget=Budget(rounds=4), told=quiet)
    assert len(path.read_text().splitlines()) == 3


def test_a_model_that_never_names_a_side_is_told_at_once(judged_by, tmp_path):
    strengths = drawn(20)
    judge = judged_by(ComparingEngine(strengths, silent=1.0))
    with Journal(tmp_path / "j.jsonl", {}) as journal, pytest.raises(NoVerdicts, match="rather not say"):
        play(list(strengths), judge, journal, plan=TournamentPlan(), budget=Budget(), told=quiet)


def test_a_journal_of_something_else_is_refused(tmp_path):
    path, header = tmp_path / "journal.jsonl", {"inputs": "aa", "schedule": "random", "seed": 0}
    Journal(path, header).__exit__(None, None, None)
    with pytest.raises(JournalRefused, match="schedule random, not swiss"):
        Journal(path, {**header, "schedule": "swiss"})
    with pytest.raises(JournalRefused, match="other inputs"):
        Journal(path, {**header, "inputs": "bb"})
    with Journal(path, header), pytest.raises(JournalRefused, match="another `demur rank`"):
        Journal(path, header)
    with path.open("a") as file:
        file.write('{"round": 2, "matches": []}\n')
    with pytest.raises(JournalRefused, match="line 2"):
        Journal(path, header)
    path.write_text("no journal\n")
    with pytest.raises(JournalRefused, match="no journal"):
        Journal(path, header)
    with Journal(path, header, anew=True) as journal:
        assert journal.rounds == []
    with Journal(path, header) as journal:
        assert journal.rounds == []


def test_equal_inputs_are_one_player(served_by, tmp_path):
    strengths = drawn(30)
    engine = served_by(ComparingEngine(strengths))
    rows = labelled(strengths)
    twice = [*rows, *({**row, "label": "weak"} for row in rows[:5])]  # and people do not always agree
    data = write_rows(tmp_path / "rows.jsonl", twice)
    found = rank_file(
        configured(tmp_path), "judge", data, folder=tmp_path, plan=TournamentPlan(), budget=Budget(rounds=5), told=quiet
    ).ratings
    assert len(found.rows) == 35
    assert [row.rating for row in found.rows[30:]] == [row.rating for row in found.rows[:5]]
    assert found.comparisons == 15 * 5
    assert all(a != b for a, b in engine.asked)
    assert found.metrics is not None
    assert found.metrics.n == 35


def test_labels_may_come_later(served_by, tmp_path):
    strengths = drawn(30)
    engine = served_by(ComparingEngine(strengths))
    config, data = configured(tmp_path), tmp_path / "rows.jsonl"

    def rank(rows):
        write_rows(data, rows)
        budget = Budget(rounds=5)
        return rank_file(config, "judge", data, folder=tmp_path, plan=TournamentPlan(), budget=budget, told=quiet)

    bare = rank([{"input": text} for text in strengths])
    assert bare.ratings.metrics is None
    assert any("no labels of both kinds" in remark for remark in bare.remarks)
    asked = len(engine.asked)
    known = rank(labelled(strengths))
    assert len(engine.asked) == asked
    assert known.ratings.metrics is not None
    assert [row.rating for row in known.ratings.rows] == [row.rating for row in bare.ratings.rows]
    assert read_ratings(known.path) == known.ratings
    assert known.picture.read_text().startswith("<svg")


def test_ratings_become_probabilities(judged_by, tmp_path):
    """The map is fitted on the labels of one half, and means what it says on the other."""
    rng = np.random.default_rng(5)
    strengths = drawn(500, seed=5)
    s = np.array(list(strengths.values()))
    positive = rng.random(500) < 1 / (1 + np.exp(-3 * s))
    judge = judged_by(ComparingEngine(strengths, sharpness=2))
    with Journal(tmp_path / "journal.jsonl", {}) as journal:
        budget = Budget(rounds=12, settled=1)
        ratings = play(list(strengths), judge, journal, plan=TournamentPlan(), budget=budget, told=quiet).ratings
    fitted = rng.permutation(500) < 250
    found = measure_ratings(ratings[fitted], positive[fitted], rng=rng)
    assert found.auroc.lower > 0.75
    told = found.to_probability.confidence(ratings[~fitted])
    assert ece(told, positive[~fitted].astype(float), n_bins=10) < 0.1
    plain = 1 / (1 + 10 ** ((1000 - ratings[~fitted]) / 400))
    assert ece(told, positive[~fitted].astype(float)) < ece(plain, positive[~fitted].astype(float))


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ([{"input": "a"}], "two different inputs"),
        ([{"input": "a"}, {"input": "a"}], "two different inputs"),
        ([{"input": "a"}, {"input": "b", "label": "green"}], "line 2: the label is 'green'"),
        ([{"input": "a"}, {"input": ""}], "line 2: input: the text is empty"),
        ([{"input": "a"}, {}], "line 2: there is no 'input'; there are: none"),
        ([{"input": ["a"]}, {"input": "b"}], "line 1: input"),
    ],
)
def test_rows_that_cannot_be_ranked(tmp_path, rows, match):
    data = write_rows(tmp_path / "rows.jsonl", rows)
    with pytest.raises(BadDataFile, match=match):
        read_instances(data, ("weak", "strong"), LIMITS)


def test_an_empty_cell_is_no_label(tmp_path):
    data = tmp_path / "rows.csv"
    data.write_text("input,label\none,weak\ntwo,\n")
    assert read_instances(data, ("weak", "strong"), LIMITS).labels == ["weak", None]


def test_only_language_models_with_a_binary_task_rank(tmp_path):
    model = judge_of(configured(tmp_path))
    three = model.model_copy(update={"task": model.task.model_copy(update={"kind": "multiclass"})})
    with pytest.raises(BadConfig, match="multiclass task"):
        as_judge(three, "three")
    rated = configured(tmp_path, tournament={"ratings": "var/x/ratings.json"})
    assert as_judge(rated.model("judge"), "judge").host.tournament is None
    assert folder_of(rated, "judge") == Path("var/x")


def test_ratings_lie_with_everything_else_and_none_is_lost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = configured(tmp_path)
    config = config.model_copy(update={"models": {"judge": judge_of(config)}})
    moved = config.model_copy(update={"data": tmp_path / "data"})
    assert folder_of(config.model_copy(update={"data": tmp_path / "var"}), "judge") == tmp_path / "var/rank/judge"
    assert folder_of(moved, "judge") == tmp_path / "data/rank/judge"
    (tmp_path / "var/rank/judge").mkdir(parents=True)
    with pytest.raises(BadConfig, match=r"lies in var/rank/judge, and is now kept in .*; move it there, or .* --out"):
        folder_of(moved, "judge")
    (tmp_path / "data/rank/judge").mkdir(parents=True)
    assert folder_of(moved, "judge") == tmp_path / "data/rank/judge"


@pytest.fixture
def demur(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["demur", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        printed = capsys.readouterr()
        return end.value.code if isinstance(end.value.code, str) else printed.out

    return run


@pytest.mark.slow
def test_the_command(served_by, demur, tmp_path, monkeypatch):
    strengths = drawn(30)
    engine = served_by(ComparingEngine(strengths))
    monkeypatch.chdir(tmp_path)
    config = configured(tmp_path, tournament={"ratings": "var/rank/judge/ratings.json"})
    content = config.model_dump(mode="json", include={"models", "artifacts"})
    digits = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())["models"]["digits"]
    digits["host"]["checkpoint"] = str(ROOT / "deploy/models/digits")
    content["models"]["digits"] = digits
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    write_rows(tmp_path / "rows.jsonl", labelled(strengths))

    said = demur("rank", "rows.jsonl", "--model", "judge", "--rounds", 6)
    assert "AUROC" in said
    assert "precision from" in said
    assert "the budget of rounds ended before the ratings settled" in said
    assert (tmp_path / "var/rank/judge/ratings.svg").exists()
    assert len(engine.asked) == 6 * 15
    demur("rank", "rows.jsonl", "--model", "judge", "--rounds", 8)
    assert len(engine.asked) == 8 * 15
    assert "begun with schedule random, not swiss" in demur(
        "rank", "rows.jsonl", "--model", "judge", "--schedule", "swiss"
    )
    demur("rank", "rows.jsonl", "--model", "judge", "--schedule", "swiss", "--rounds", 1, "--anew")
    assert len(engine.asked) == 9 * 15
    assert "is a classifier" in demur("rank", "rows.jsonl", "--model", "digits")
    assert "no model 'nobody'" in demur("rank", "rows.jsonl", "--model", "nobody")


@pytest.mark.slow
def test_the_sums_model_tells_which_sum_is_larger(tmp_path):
    """A real model of the repository, with its own words for the question."""
    content = {
        "task": {"kind": "binary", "labels": ["no", "yes"]},
        "host": {
            "kind": "transformers",
            "checkpoint": str(ROOT / "deploy/models/sums"),
            "max_tokens": 4,
            "tournament": {"ratings": str(tmp_path / "ratings.json")},
        },
        "prompt": {"pair_template": str(ROOT / "deploy/models/sums/prompts/pair.jinja")},
        "scores": ["entropy"],
        "confidence": {"score": "entropy"},
        "policy": {"kind": "threshold", "limit": 0.5},
    }
    config = Config.model_validate({"models": {"above": content}})
    data = write_rows(tmp_path / "items.jsonl", items()[:60])
    budget = Budget(rounds=10)
    found = rank_file(config, "above", data, folder=tmp_path, plan=TournamentPlan(), budget=budget, told=quiet).ratings
    assert found.no_verdict == 0
    assert found.metrics is not None
    assert found.metrics.auroc[0] > 0.85
