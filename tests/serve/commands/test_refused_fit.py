from io import StringIO

import pytest
from rich.console import Console

from demur.calibration_store.reach import Reach, ReachPoint
from demur.calibration_store.shortfall import PromiseOutOfReach
from demur.serve.commands.refused_fit import reach_shown


def reach(*points):
    return Reach(max_risk=0.05, delta=0.1, method="sgr", n=600, labels=900, settings=[], curve=points)


def shown(of):
    console = Console(width=100, record=True, file=StringIO())
    error = PromiseOutOfReach("too few")
    error.reach = of
    with pytest.raises(PromiseOutOfReach, match="too few"), reach_shown(console.print):
        raise error
    return console.export_text()


def test_what_could_be_promised_stands_before_the_error():
    points = [(0.05, 0.0), (0.08, 0.0), (0.1, 0.3666)]
    text = shown(reach(*(ReachPoint(max_risk=target, answered=share) for target, share in points)))
    lines = [line.strip("│ ") for line in text.splitlines()]
    assert any("5% (asked for)" in line and "nothing" in line for line in lines)
    assert any(line.startswith("10%") and "36.7%" in line for line in lines)
    assert "on 600 rows" in text


def test_before_the_model_runs_it_is_the_number_of_labels():
    text = shown(reach(ReachPoint(max_risk=0.05, answered=None, labels=1_200)))
    assert "labelled rows that would do" in text
    assert "1,200" in text
    assert "if none of their answers is wrong" in text


def test_other_refusals_show_nothing():
    assert shown(None) == ""
