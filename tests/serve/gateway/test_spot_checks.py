"""How likely each draw is, whether that is what happens, and whether what is drawn tells the truth about the rest."""

import asyncio
import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uuid_utils.compat import uuid7

from demur.audit.metrics.sampling import allocate
from demur.serve.config.review import ReviewConfig
from demur.serve.config.spot_checks import SpotCheckConfig
from demur.serve.gateway import spot_checks
from demur.serve.gateway.new_cases import NewCases
from demur.serve.gateway.spot_checks import SpotChecks, scale_of, spread
from demur.traffic import log
from demur.traffic.draw import Draws, limit
from tests.conftest import entry
from tests.serve.conftest import DRAW_KEY, make_handler
from tests.serve.scripted import configured

BY_DOUBT = {"rate": 0.05, "floor": 0.01, "groups": {"east": 0.2}, "allocate": "uncertainty"}


def checks(told, **latest):
    """Spot checks of a model `toy` that know these confidences of each stratum; `rest` is all the others."""
    model = configured("binary", spot_check=told)
    found = SpotChecks({"toy": model})
    scales = {
        (None if name == "rest" else name): scale_of(model.spot_checks, None if name == "rest" else name, values)
        for name, values in latest.items()
        if model.spot_checks.allocate == "uncertainty"
    }
    found._scales = {("toy", stratum): scale for stratum, scale in scales.items()}
    return found


@pytest.mark.parametrize(
    ("told", "group", "probability"),
    [
        (0, None, 0.0),
        (0.02, None, 0.02),
        (1, "east", 1.0),
        ({"rate": 0.02}, "east", 0.02),
        ({"rate": 0.02, "groups": {"east": 0.1}}, "east", 0.1),
        ({"rate": 0.02, "groups": {"east": 0.1}}, "west", 0.02),
        ({"rate": 0.02, "groups": {"east": 0.1}}, None, 0.02),
        (BY_DOUBT, "east", 0.2),  # until there is traffic it is flat
        (BY_DOUBT, None, 0.05),
    ],
)
def test_the_rate_of_a_stratum(told, group, probability):
    for confidence in (0.0, 0.9, 1.0, None):
        assert checks(told).probability("toy", group, confidence) == probability


def test_the_less_sure_is_drawn_more_often_and_nothing_less_often_than_the_floor():
    found = checks(BY_DOUBT, rest=[0.99] * 50 + [0.8] * 50)
    chances = [found.probability("toy", None, c) for c in (1.0, 0.999999, 0.99, 0.8, 0.5)]
    assert chances[0] == chances[1] == 0.01
    assert chances == sorted(chances)
    assert (chances[2] + chances[3]) / 2 == pytest.approx(0.05)
    assert chances[3] / chances[2] == pytest.approx(spread(0.8) / spread(0.99))
    unknown = [found.probability("toy", None, one) for one in (None, float("nan"))]
    assert unknown == [chances[-1]] * 2  # what is unknown is as unsure as can be
    same = [
        scale_of(SpotCheckConfig.model_validate(BY_DOUBT), None, [0.9] * 50 + [x] * 50) for x in (None, np.nan, 0.5)
    ]
    assert same[0] == same[1] == same[2]
    assert found.probability("toy", "east", 0.99) == 0.2  # of which no traffic is known


def test_where_all_are_certain_the_rest_is_looked_at_and_nothing_is_undefined():
    found = checks(BY_DOUBT, rest=[1.0] * 200)
    assert found._scales == {("toy", None): inf}
    assert found.probability("toy", None, 1.0) == found.probability("toy", None, 0.0) == 0.01
    assert found.probability("toy", None, 0.9) == 1.0


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=60),
    st.floats(0.001, 1),
    st.floats(0.001, 1),
)
def test_recent_traffic_would_have_got_the_rate(confidences, rate, part):
    told = {"rate": rate, "floor": rate * part, "allocate": "uncertainty"}
    found = checks(told, rest=confidences)
    chances = [found.probability("toy", None, c) for c in confidences]
    exact = allocate(np.array(confidences), rate * len(confidences), rate * part)
    assert chances == pytest.approx(exact.probabilities.tolist(), abs=1e-12)
    assert min(chances) >= rate * part
    assert np.mean(chances) <= rate * (1 + 1e-9)
    if np.isfinite(exact.scale):
        assert np.mean(chances) == pytest.approx(rate)


def records_of(found, n, seed):
    """Answered records of strata and degrees of doubt, with the probability that they would have on record."""
    rng = np.random.default_rng(seed)
    made = []
    for group, confidence in zip(rng.choice(["east", "west"], n), 1 - rng.beta(1, 6, n), strict=True):
        chance = found.probability("toy", str(group), confidence)
        more = {"group": str(group), "confidence": confidence, "label_probability": chance}
        made.append(entry(action="answer", id=uuid7(), **more).record)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("told", [0.1, {"rate": 0.04, "groups": {"east": 0.3}}, BY_DOUBT])
def test_each_stratum_is_drawn_as_often_as_its_records_say(told):
    rng = np.random.default_rng(1)
    found = checks(told, rest=(1 - rng.beta(1, 6, 2000)).tolist(), east=(1 - rng.beta(1, 6, 2000)).tolist())
    model, cases = configured("binary", spot_check=told), NewCases(DRAW_KEY, ReviewConfig())
    drawn, meant, draws = defaultdict(int), defaultdict(list), Draws(DRAW_KEY, "spot-check")
    for record in records_of(found, 20_000, 2):
        case = cases.of(record, model)
        assert (case is not None) == (draws.of(str(record.id)) < limit(record.label_probability))
        stratum = (record.group, round(record.confidence, 1))
        drawn[stratum] += case is not None
        meant[stratum].append(record.label_probability)
    for stratum, chances in meant.items():
        expected, width = sum(chances), sqrt(sum(p * (1 - p) for p in chances))
        assert abs(drawn[stratum] - expected) <= 5 * width + 1, stratum  # 40 strata: once in some 40,000 runs


@pytest.mark.parametrize("told", [0.1, {"rate": 0.05, "groups": {"east": 0.2}}, BY_DOUBT])
def test_what_is_drawn_tells_the_truth_about_all(told):
    """The Horvitz-Thompson mean of a known error: over many keys it is the error of all, within its own noise."""
    rng = np.random.default_rng(3)
    found = checks(told, rest=(1 - rng.beta(1, 6, 2000)).tolist(), east=(1 - rng.beta(1, 6, 2000)).tolist())
    records = records_of(found, 1500, 4)
    wrong = (rng.uniform(size=len(records)) > [one.confidence for one in records]).astype(float)
    chance = np.array([one.label_probability for one in records])
    limits, ids = [limit(p) for p in chance], [str(one.id) for one in records]
    estimates, plain = [], []
    for key in range(120):
        draws = Draws(f"key {key}", "spot-check")
        selected = np.array([draws.of(one) < most for one, most in zip(ids, limits, strict=True)])
        estimates.append(float((selected * wrong / chance).mean()))
        plain.append(float(wrong[selected].mean()))
    noise = sqrt(float((wrong**2 * (1 - chance) / chance).sum())) / len(records) / sqrt(len(estimates))
    assert abs(np.mean(estimates) - wrong.mean()) < 4.5 * noise
    if told is BY_DOUBT:  # counted as they stand, the drawn ones are worse than the traffic
        assert np.mean(plain) > 1.2 * wrong.mean()


def test_recent_traffic_is_read_from_the_log(database, monkeypatch):
    monkeypatch.setattr(spot_checks, "LATEST", 300)
    at = datetime(2026, 11, 21, tzinfo=UTC)
    told = [("answer", None, 0.99)] * 60 + [("abstain", "west", 0.8)] * 60 + [("review", None, 0.5)] * 60
    told += [("answer", "east", 0.9)] * 99
    entries = [
        entry(action=action, group=group, confidence=confidence, created_at=at + timedelta(seconds=second))
        for second, (action, group, confidence) in enumerate(told)
    ]
    long_ago = [entry(action="answer", confidence=0.5, created_at=at - timedelta(days=1)) for _ in range(100)]
    other = [entry(action="answer", confidence=0.5, model="other", created_at=at) for _ in range(200)]
    with database.transaction() as connection:
        log.append(connection, entries + other)
    found = checks(BY_DOUBT)
    found.look(database)
    rates = SpotCheckConfig.model_validate(BY_DOUBT)
    assert found._scales == {("toy", None): scale_of(rates, None, [0.99] * 60 + [0.8] * 60)}  # of east too few
    with database.transaction() as connection:
        log.append(connection, [entry(action="answer", group="east", confidence=None), *long_ago])
    found.look(database)
    assert found._scales[("toy", "east")] == pytest.approx(scale_of(rates, "east", [0.9] * 99 + [0.5]))


@pytest.mark.parametrize("told", [0.3, {"rate": 0.3, "allocate": "uncertainty"}])
def test_the_record_says_with_which_probability_it_was_drawn(quickstart, local_host, database, clear_digit, told):
    model = quickstart.models["digits"]
    model = type(model).model_validate({**model.model_dump(), "spot_check": told})
    handler = make_handler(
        quickstart.model_copy(update={"models": {"digits": model}}), {"digits": local_host}, database
    )
    body = json.dumps({"items": [{"model": "digits", "input": clear_digit}] * 120}).encode()
    for _ in range(2):
        handler.polls["traffic"].look()
        done = [one.record for one in asyncio.run(handler.predict_batch(body, None))]
        draws = Draws(DRAW_KEY, "spot-check")
        drawn = {one.id for one in done if draws.of(str(one.id)) < limit(one.label_probability)}
        with database.transaction() as connection:
            found = connection.execute(
                "select record_id from review_items where record_id = any(%s)", ([one.id for one in done],)
            ).fetchall()
        assert {row[0] for row in found} == drawn
        assert [one.label_probability for one in done] == pytest.approx([0.3] * 120)  # alike: it is one digit
