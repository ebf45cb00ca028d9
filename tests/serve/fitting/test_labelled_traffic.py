"""Which records of the log may be fitted on, and how many each of them stands for."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from demur.review import queue
from demur.review.drawn import DrawnShare, drawn_shares, reviewed_among
from demur.serve.fitting.labelled_traffic import (
    NothingToFitOn,
    OnlyHeldLabelled,
    OutcomesOverdue,
    StrangeOutcomes,
    read_labelled_traffic,
)
from demur.traffic import log
from demur.traffic.outcomes import LATEST
from tests.conftest import entry, new_case

BEGUN = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def write(database):
    """Log records of the model `toy`, one minute apart; those that are told to be drawn go into the queue."""
    minutes = iter(range(10_000))

    def written(n, *, action="answer", probability=1.0, drawn=True, outcome="7", source="review", **changes):
        entries = [
            entry(
                action=action,
                label_probability=probability,
                created_at=BEGUN + timedelta(minutes=next(minutes)),
                **changes,
            )
            for _ in range(n)
        ]
        with database.transaction() as connection:
            log.append(connection, entries)
            if drawn:
                queue.enqueue(connection, [new_case(one) for one in entries])
            for one in entries if outcome else []:
                log.add_outcome(connection, one.record.id, label=outcome, source=source, author=None)
        return entries

    return written


@pytest.fixture
def read(database):
    def found(**changes):
        settings = {
            "precedence": LATEST,
            "since": None,
            "until": None,
            "takes": lambda value: value != "no digit",
            "knows": lambda outcome, _: outcome in ("7", "1"),
            "every_outcome_known": False,
            "progress": lambda *_: None,
        }
        return read_labelled_traffic(database, "toy", **{**settings, **changes})

    return found


def test_each_record_stands_for_as_many_as_its_probability_says(write, read):
    held = write(30, action="review")
    checked = write(10, probability=0.1)
    write(90, probability=0.1, drawn=False, outcome=None)
    told = write(5, probability=0.1, drawn=False)  # somebody complained about these
    seen = []
    found = read(progress=lambda *at: seen.append(at))
    assert len(found.rows) == 40
    np.testing.assert_allclose(found.weights, [1.0] * 30 + [10.0] * 10)
    assert found.facts["left_out"]["not_drawn"] == len(told)
    assert found.facts["since"] == held[0].record.created_at.isoformat()
    assert found.facts["until"] == checked[-1].record.created_at.isoformat()
    assert found.facts["share_missing"] == 0
    assert seen[-1] == (45, 45)


def test_drawn_records_without_an_outcome_are_stood_for_by_those_of_the_same_action(write, read, database):
    write(20, action="review")
    write(20, action="review", outcome=None)
    write(10, probability=0.5, group="ward")
    write(2, probability=0.5, input="no digit")
    gone = write(3, probability=0.5)
    with database.transaction() as connection:
        connection.execute("delete from payloads where record_id = any(%s)", ([one.record.id for one in gone],))
    found = read()
    np.testing.assert_allclose(found.weights, [2.0] * 20 + [2 * 1.5] * 10)
    assert found.facts["share_missing"] == pytest.approx(25 / 55)
    assert {name: found.facts["left_out"][name] for name in ("forgotten", "unusable")} == {
        "forgotten": 3,
        "unusable": 2,
    }
    assert "45.5% of the records that were drawn" in found.remarks[1]
    assert found.rows.groups == [None] * 20 + ["ward"] * 10


def test_where_all_stand_for_as_many_there_is_nothing_to_weigh(write, read):
    write(10, action="review")
    write(10)
    assert read().weights is None


def test_only_held_cases_are_no_sample_of_the_traffic(write, read):
    write(10, action="review")
    write(50, probability=0.0, drawn=False, outcome=None)
    write(5, probability=0.0, drawn=False)
    with pytest.raises(OnlyHeldLabelled) as caught:
        read()
    assert str(caught.value).startswith(
        "only held cases are labelled: 55 of 55 answered records of 'toy' in this range had no chance of being labelled"
    )
    assert "`spot_check`" in str(caught.value)
    assert "--every-outcome-known" in str(caught.value)
    found = read(every_outcome_known=True)
    assert (len(found.rows), found.weights) == (15, None)


def test_a_range_that_began_before_the_spot_checks_says_when_to_begin(write, read):
    before = write(50, probability=0.0, drawn=False, outcome=None)
    write(20, action="review")
    write(20, probability=0.2)
    with pytest.raises(OnlyHeldLabelled, match="50 of 70 answered records") as caught:
        read()
    begin = str(caught.value).split("--since ")[1].split(",")[0]
    assert datetime.fromisoformat(begin) > before[-1].record.created_at
    assert len(read(since=datetime.fromisoformat(begin)).rows) == 40


def test_a_kind_of_records_without_any_outcome_yet(write, read):
    write(20, action="review")
    write(5, probability=0.2, outcome=None)
    with pytest.raises(OutcomesOverdue, match="none of the answered records"):
        read()


def test_labels_that_the_model_does_not_have(write, read):
    write(198)
    assert read().among == ""
    write(2, outcome="eight")
    found = read()
    assert found.among == "whose outcome names labels of the model alone"
    assert found.facts["left_out"]["strange_label"] == 2
    write(1, outcome="eight")
    with pytest.raises(StrangeOutcomes, match="3 of 201 outcomes"):
        read()


def test_what_somebody_says_unasked_of_a_drawn_record_does_not_make_it_a_reviewed_one(write, read):
    write(30, action="review")
    write(10, probability=0.1)
    write(10, probability=0.1, outcome=None)  # nobody has come to these yet
    told = write(5, probability=0.1, source="complaint", outcome="1")  # nor to these, but somebody complained
    found = read()
    assert "1" not in found.rows.labels
    np.testing.assert_allclose(found.weights, [1.0] * 30 + [25.0] * 10)
    assert found.facts["left_out"]["not_drawn"] == len(told)


def test_nothing_to_fit_on(write, read):
    with pytest.raises(NothingToFitOn, match="no record of 'toy' in this range has an outcome"):
        read()
    write(3, input="no digit")
    with pytest.raises(NothingToFitOn, match="none of the 3 records"):
        read()


def test_the_fingerprint_is_that_of_records_and_labels(write, read, database):
    first = write(2)[0]
    before = read().rows.sha256
    assert read().rows.sha256 == before
    with database.transaction() as connection:
        log.add_outcome(connection, first.record.id, label="1", source="test", author=None)
    assert read().rows.sha256 != before


def test_what_was_drawn(write, database):
    held, no_chance = write(2, action="review", drawn=False), write(3, action="abstain", probability=0.0, drawn=False)
    checked, unchecked = write(4, probability=0.5), write(5, probability=0.5, drawn=False)
    with database.transaction() as connection:
        shares = drawn_shares(connection, "toy", since=None, until=None)
        every = [one.record.id for one in (*held, *no_chance, *checked, *unchecked)]
        drawn = reviewed_among(connection, every)
        assert drawn_shares(connection, "toy", since=None, until=BEGUN) == []
    assert drawn == {one.record.id for one in (*held, *checked)}
    assert shares == [
        DrawnShare(action="abstain", n=3, never=3, last_never=no_chance[-1].record.created_at, drawn=0),
        DrawnShare(action="answer", n=9, never=0, last_never=None, drawn=4),
        DrawnShare(action="review", n=2, never=0, last_never=None, drawn=2),
    ]


def test_the_fit_takes_the_outcome_that_counts(database, write, read):
    held = write(20, action="review", outcome="7")
    with database.transaction() as connection:
        for one in held[:5]:
            log.add_outcome(connection, one.record.id, label="1", source="lab", author=None)
            log.add_outcome(connection, one.record.id, label="7", source="api", author=None)
    by_lab = read(precedence=("lab", "review"))
    assert by_lab.rows.labels == ["1"] * 5 + ["7"] * 15
    assert by_lab.facts["outcomes_count_by"].startswith("lab, then review")
    latest = read()
    assert latest.rows.labels == ["7"] * 20
    assert latest.facts["outcomes_count_by"] == "the latest"
    assert latest.rows.sha256 != by_lab.rows.sha256  # other labels are other rows


def test_missing_reviews_are_stood_for_by_records_that_were_as_sure(write, read):
    for sure in range(50):
        write(1, action="review", confidence=0.9 + sure / 1_000)
        write(1, action="review", confidence=0.2 + sure / 1_000, outcome="1" if sure % 2 else None)
    found = read()
    right = np.array([label == "7" for label in found.rows.labels])
    assert (right.sum(), (~right).sum()) == (50, 25)
    assert found.weights[right].max() <= 1.2
    assert found.weights[~right].mean() >= 1.7  # each stands for about two of the unsure ones; by action alone for 1.33
    assert found.weights.sum() == pytest.approx(100)
