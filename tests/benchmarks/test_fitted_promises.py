"""What is counted about promises of a fit, on made-up rows whose answer is known."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.real import fitted_answers, fitted_promises, torchcp_sets
from benchmarks.real.document import with_tables
from benchmarks.real.fitted_answers import AnswerRows, answers_summary, answers_table, held_table, measure
from benchmarks.real.fitted_sets import MultilabelRows, label_share_table, measure_sets, sets_table
from benchmarks.real.set_kinds import SetCase
from benchmarks.real.set_promises import OURS
from benchmarks.real.set_promises import measure as measure_beside
from benchmarks.real.splits import halves

ROOT = Path(__file__).resolve().parents[2]


def rows(n=2_000, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.4), n)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return AnswerRows(data="toy", probabilities=p, classes=y, risks=(0.2,))


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_what_is_counted_is_what_the_rule_does_to_all_rows():
    toy = rows()
    rules = {
        "all": lambda rows, drawn, risk: np.ones(len(rows.classes), dtype=bool),
        "nothing": lambda rows, drawn, risk: np.zeros(len(rows.classes), dtype=bool),
        "right": lambda rows, drawn, risk: ~rows.wrong,
    }
    found = measure(toy, rules, draws=3, seed=1)
    every, nothing, right = found
    assert every.true_risk == pytest.approx(toy.wrong.mean())
    assert (every.broken, every.silent) == (3 * (toy.wrong.mean() > 0.2), 0)
    assert (nothing.broken, nothing.silent) == (0, 3)
    assert right.answered == pytest.approx(1 - toy.wrong.mean())
    assert [line[3] for line in cells(answers_table(found))] == ["3 of 3", "0 of 3", "0 of 3"]
    assert cells(answers_summary(found))[1][4] == "100%"


@pytest.mark.slow
def test_the_fit_of_the_product_makes_the_promise():
    toy = rows()
    some = {name: fitted_answers.RULES[name] for name in ("sgr", "sgr, as it was", "ltt by betting, of probabilities")}
    found = {one.rule: one for one in measure(toy, some, draws=6, seed=1)}
    assert all(one.broken <= 2 for one in found.values())
    assert found["sgr"].answered.mean() > found["sgr, as it was"].answered.mean()
    (line,) = [line for line in cells(held_table([toy], draws=4, seed=1)) if line[1] == "30%"]
    before, now = (float(cell.partition("%")[0]) for cell in line[2:])
    assert before < 30
    assert now == pytest.approx(30, abs=4)


def test_sets_with_a_delta_are_seldom_below():
    toy = rows()
    case = SetCase(
        data="toy",
        probabilities=toy.probabilities,
        classes=toy.classes,
        together=np.arange(2_000),
        groups=np.arange(2_000) % 3,
        kinds=("split", "group-conditional"),
    )
    found = {(one.kind, one.delta): one for one in measure_sets(case, draws=40, seed=1)}
    assert (found["split", None].coverage < 0.9).mean() > 0.2
    assert (found["split", 0.1].coverage < 0.9).mean() <= 0.2
    assert (found["group-conditional", 0.1].coverage < 0.9).mean() <= 0.2
    assert (found["group-conditional", None].coverage < found["group-conditional", None].mean_coverage).all()
    assert cells(sets_table(list(found.values())))[1][2] == "but for 10% of the fits"


def test_label_sets_keep_the_share_that_they_promise():
    rng = np.random.default_rng(0)
    p = rng.random((3_000, 5)) ** 4
    made = label_share_table([MultilabelRows(data="toy", probabilities=p, truth=rng.random(p.shape) < p)], 5, 1)
    for line in cells(made):
        target = float(line[1].strip("%")) / 100
        missed, by_row = (float(cell.partition(" ")[0]) for cell in line[3:5])
        if line[2] == "the labels that hold":
            assert missed <= target + 0.01  # on average over fits, and here are five
        else:
            assert by_row <= target + 0.01
            assert missed > target + 0.02


@pytest.mark.skipif(not torchcp_sets.is_installed(), reason=f"TorchCP is missing: {torchcp_sets.INSTALL}")
def test_sets_of_torchcp_are_the_same_where_the_method_is():
    toy = rows(n=300)
    case = SetCase(
        data="toy",
        probabilities=toy.probabilities,
        classes=toy.classes,
        together=np.arange(300),
        kinds=("split", "class-conditional"),
    )
    for one in measure_beside(case, halves(case.together, times=2), torchcp_sets.SETS):
        assert (one.only_ours, one.only_here) == (0, 0), (one.kind, one.who)
    assert OURS


def test_the_document_shows_every_table():
    shown = ("answers in short", "answers", "answers of the model", "sets", "label share", "held", "beside others")
    with_tables((ROOT / "docs/evidence/promises.md").read_text(), dict.fromkeys(shown, "| x |"))


def test_some_tables_leave_the_others_alone():
    page = "<!-- table: x -->\n\nold\n\n<!-- end -->\n<!-- table: y -->\n\nold\n\n<!-- end -->\n"
    assert with_tables(page, {"x": "new"}, partly=True).count("old") == 1
    with pytest.raises(ValueError, match="made are x"):
        with_tables(page, {"x": "new"})
    with pytest.raises(ValueError, match="made are z"):
        with_tables(page, {"z": "new"}, partly=True)


def test_without_data_it_says_so(tmp_path, capsys):
    assert fitted_promises.main(["--data", str(tmp_path)]) == 0
    assert "nothing is measured" in capsys.readouterr().out
