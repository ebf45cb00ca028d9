"""What is said of a shadow, from records of a real database."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from demur.audit.shadowing import NothingShadowed
from demur.review import queue
from demur.serve.commands.shadow_report import remarks, report_shadow, tables
from demur.serve.commands.terminal import out
from demur.serve.fitting.flip import MOST_FLIPS
from demur.traffic import log
from demur.traffic.outcomes import LATEST
from demur.traffic.record import ShadowDecision
from tests.conftest import entry, new_case, resolve

START = datetime(2026, 11, 1, tzinfo=UTC)
SPAN = {"right": "exact", "precedence": LATEST, "since": None, "until": None}
N = 400
SPOT_CHECK = 0.25


def live(spot_check=SPOT_CHECK, n=N, limits=(0.7, 0.4)):
    """Records of a model that is right as often as it says; the shadow answers from a lower confidence on."""
    rng = np.random.default_rng(0)
    entries, truth, asked = [], [], set()
    for at, confidence in enumerate(rng.uniform(size=n).tolist()):
        told, shadow = ("answer" if confidence >= limit else "review" for limit in limits)
        entries.append(
            replace(
                entry(
                    created_at=START + timedelta(seconds=at),
                    confidence=confidence,
                    action=told,
                    label_probability=1.0 if told == "review" else spot_check,
                    timings={"model": 8.0, "shadow": 2.0},
                ),
                shadow=ShadowDecision(
                    artifact="toy-2", prediction="7", confidence=confidence, action=shadow, reason="", prediction_set=[]
                ),
            )
        )
        if told == "review" or rng.uniform() < spot_check:
            asked.add(entries[-1].record.id)
        truth.append("7" if rng.uniform() < confidence else "1")
    return entries, truth, asked


def record(database, entries, truth, asked, source="review"):
    """Write them, and let people say what is true of those about whom they were asked."""
    with database.transaction() as connection:
        log.append(connection, entries)
        for one, label in zip(entries, truth, strict=True):
            if source != "review":
                log.add_outcome(connection, one.record.id, label=label, source=source, author=None)
            elif one.record.id in asked:
                queue.enqueue(connection, [new_case(one)])
                resolve(connection, one.record.id, "ada", label)


def said(report):
    with out.capture() as printed:
        for part in (*tables(report), *remarks(report)):
            out.print(part)
    return printed.get()


def test_spot_checks_and_reviews_together_tell_the_truth(database):
    entries, truth, asked = live()
    record(database, entries, truth, asked)
    report = report_shadow(database, "toy", "toy-2", **SPAN)
    found = report.found
    answered = [(one.record.confidence >= 0.4, label) for one, label in zip(entries, truth, strict=True)]
    wrong = np.mean([label == "1" for sure, label in answered if sure])
    lines = {line.name: line for line in found.numbers.differences}
    assert (found.n, lines["coverage"].b) == (N, np.mean([sure for sure, _ in answered]))
    assert lines["selective_risk"].lower < lines["selective_risk"].difference < lines["selective_risk"].upper
    assert abs(lines["selective_risk"].b - wrong) < 0.05  # without weights it is not near
    known = [label == "1" for (sure, label), one in zip(answered, entries, strict=True)
             if sure and one.record.id in asked]  # fmt: skip
    assert np.mean(known) - wrong > 0.05
    assert found.people_shadow < found.people_told == found.numbers.flips.cells["review_answer"].n + found.people_shadow
    assert len(report.flips) == MOST_FLIPS
    assert {(flip.a, flip.b) for flip in report.flips} == {("review", "answer")}
    words = said(report)
    for sentence in (
        f"what callers were told, by toy-1 ({N})",
        f"20 of the {found.numbers.flips.cells['review_answer'].n} rows whose decision flips",
        "labels of one common probability only",
        "2.00 ms of the time of an answer on average, 2.00 ms in the median: 25.0% of the time in the model",
    ):
        assert sentence in words
    assert "p-value" not in words
    assert "could never get a label" not in words
    json.dumps(report.as_json(), allow_nan=False)


def test_without_spot_checks_it_says_what_nobody_knows(database):
    record(database, *live(spot_check=0.0))
    words = said(report_shadow(database, "toy", "toy-2", **SPAN))
    assert "records could never get a label" in words
    assert "Insufficient evidence on the risk of A: 0 labelled answers of A" in words
    assert "p-value" not in words


def test_outcomes_from_elsewhere_count_where_they_cover_everything(database):
    entries, truth, asked = live(spot_check=0.0, n=60)
    record(database, entries, truth, asked, source="ticket")
    report = report_shadow(database, "toy", "toy-2", **SPAN)
    assert report.found.numbers.n_labelled == 60
    assert "McNemar's exact p-value" in said(report)
    with database.transaction() as connection:
        connection.execute("delete from outcomes where record_id = %s", (entries[0].record.id,))
    report = report_shadow(database, "toy", "toy-2", **SPAN)
    assert report.found.numbers.n_labelled == 0
    assert "59 outcomes do not count" in said(report)


def test_a_cascade_is_shown_as_far_as_its_first_model(database):
    entries, truth, asked = live(n=40)
    onward = [replace(one, shadow=replace(one.shadow, action="escalate")) for one in entries[:15]]
    record(database, [*onward, *entries[15:]], truth, asked)
    report = report_shadow(database, "toy", "toy-2", **SPAN)
    assert (report.found.n, report.found.escalated) == (25, 15)
    assert "Left out: 15 records that the first model of the shadow" in said(report)


def test_nothing_recorded_says_what_to_do(database):
    record(database, *live(n=3))
    with pytest.raises(NothingShadowed, match="demur artifacts shadow toy toy-3` and send traffic"):
        report_shadow(database, "toy", "toy-3", **SPAN)
    with pytest.raises(NothingShadowed, match="in this range; widen it"):
        report_shadow(database, "toy", "toy-2", **{**SPAN, "since": START + timedelta(days=1)})
