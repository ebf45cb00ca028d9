"""`python -m benchmarks.earlier` puts two trees beside each other, and says why one cannot be measured."""

import pytest

from benchmarks.earlier import __main__ as earlier
from benchmarks.earlier import paths
from benchmarks.earlier.__main__ import PARTS, Failed, compared, main, measured


def test_ratios_are_of_medians_and_of_paths_that_both_trees_have():
    before = {"cases": [{"processors": ms, "wall": 9.0} for ms in (1.0, 2.0, 30.0)], "gone": [{}]}
    now = {"cases": [{"processors": 1.0, "wall": 6.0}], "new": [{}]}
    assert compared(before, now) == [("cases", 2.0, 1.0, 0.5, 9.0, 6.0)]


def test_what_a_tree_lacks_is_told_with_its_error(tmp_path, monkeypatch):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "benchmarks.py").write_text("raise ImportError('no audits here')")
    with pytest.raises(Failed, match="no audits here"):
        measured(tree, tmp_path, PARTS[0])


def test_a_commit_that_is_not_there_is_an_error_in_words(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["earlier", "no-such-commit"])
    assert main() == 1
    assert "no-such-commit" in capsys.readouterr().err


def test_each_turn_is_asked_of_both_trees(monkeypatch, tmp_path, capsys):
    asked = []

    def answer(tree, folder, part):
        asked.append((tree == earlier.ROOT, part))
        return {part: {"processors": 2.0 if tree == earlier.ROOT else 4.0, "wall": 1.0}}

    monkeypatch.setattr(earlier, "measured", answer)
    monkeypatch.setattr(earlier, "_run", lambda *_: "")
    monkeypatch.setattr("sys.argv", ["earlier", "HEAD", "--parts", "cases", "--rounds", "2"])
    assert main() == 0
    assert asked == [(False, "cases"), (True, "cases"), (True, "cases"), (False, "cases")]
    assert "0.50" in capsys.readouterr().out


def test_the_parts_that_may_be_asked_for_are_those_that_can_be_measured():
    assert tuple(paths.PARTS) == PARTS


@pytest.mark.long
@pytest.mark.parametrize("part", ["cases", "outcomes", "pages"])
def test_a_tree_is_measured_for_real(tmp_path, part):
    took = measured(earlier.ROOT, tmp_path, part)
    assert took
    assert all(costs["processors"] > 0 and costs["wall"] > 0 for costs in took.values())
