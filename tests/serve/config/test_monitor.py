"""`monitor` in the configuration: what is taken, what is refused, and what it says of itself."""

import pytest

from demur.serve.config.file import BadConfig
from tests.serve.config.test_file import digits, load, quickstart


def model(tmp_path, **changes):
    content = quickstart()
    digits(**changes)(content)
    return load(tmp_path, content).models["digits"]


@pytest.mark.parametrize(
    ("changes", "watched"),
    [
        ({}, False),
        ({"spot_check": 0.02}, True),
        ({"spot_check": 0.02, "monitor": False}, False),
        ({"monitor": {}}, True),  # the traffic, at least
    ],
)
def test_what_is_watched(tmp_path, changes, watched):
    assert (model(tmp_path, **changes).watched is not None) == watched


@pytest.mark.parametrize(
    ("monitor", "why"),
    [
        (True, "write the settings of a monitor"),
        ("notify", "write the settings of a monitor"),
        ({"on_alarm": "panic"}, "monitor.on_alarm"),
        ({"max_risk": 0}, "monitor.max_risk"),
        ({"max_risk": 1}, "monitor.max_risk"),
        ({"delta": 1}, "monitor.delta"),
        ({"tighten_to": 1.0}, "monitor.tighten_to"),
        ({"reference": 10}, "monitor.reference"),
        ({"alarm": "notify"}, "alarm: this key is not known"),
    ],
)
def test_what_is_refused(tmp_path, monitor, why):
    with pytest.raises(BadConfig, match=why):
        model(tmp_path, monitor=monitor)


@pytest.mark.parametrize("monitor", [None, False, {}, {"max_risk": 0.02, "on_alarm": "tighten"}])
def test_it_survives_the_way_to_another_process(tmp_path, monitor):
    told = model(tmp_path, spot_check=0.1, monitor=monitor)
    assert type(told).model_validate(told.model_dump()).watched == told.watched


@pytest.mark.parametrize(
    ("monitor", "words"),
    [
        ({}, "watched for what its artifact promises; an alarm about that tells"),
        (
            {"max_risk": 0.02, "on_alarm": "tighten"},
            "watched for at most 0.02 of the answers wrong; an alarm about that holds all but the surest 0.5 of what"
            " was answered",
        ),
        ({"on_alarm": "hold_all"}, "watched for what its artifact promises; an alarm about that holds all answers"),
    ],
)
def test_in_words(tmp_path, monitor, words):
    assert model(tmp_path, monitor=monitor).watched.words == words
