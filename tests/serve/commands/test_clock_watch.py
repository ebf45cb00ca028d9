"""A clock that is set back is noticed once; one that is corrected a little, or set forward, is not."""

import pytest

from demur.serve.commands.clock_watch import ClockWatch


@pytest.mark.parametrize(
    ("moves", "told"),
    [
        ([0, 0], [0, 0]),
        ([-3600, 0, 0], [3600, 0, 0]),
        ([3600, 0, -3600, 0], [0, 0, 3600, 0]),
        ([-1, -1, -1], [0, 0, 0]),  # as a time service does
    ],
)
def test_what_it_tells(moves, told):
    now = {"wall": 1e9, "monotonic": 50.0}
    watch = ClockWatch(wall=lambda: now["wall"], monotonic=lambda: now["monotonic"])
    said = []
    for move in moves:
        now = {"wall": now["wall"] + 0.2 + move, "monotonic": now["monotonic"] + 0.2}
        said.append(watch.was_set_back())
    assert said == pytest.approx(told)
