"""Monitors in the database: each label once, however it comes; alarms once; undone by a person."""

import threading
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest

from demur.audit.monitors import feeding
from demur.audit.monitors.arrivals import confused
from demur.audit.monitors.risk import RiskSettings, new_risk_state, risk_state_from_json
from demur.audit.monitors.traffic import traffic_state_from_json
from demur.audit.state import alarms, standing
from demur.audit.state.alarms import AlarmNotFound, OnAlarm
from demur.review import queue
from demur.review.disagreement import DecidedCheck
from demur.traffic import log
from demur.traffic.draw import Draws
from tests.audit.monitors.traffic_made import SPOT_CHECK, START, Service, watched
from tests.conftest import entry, new_case, resolve

DRAWS = Draws("a key that tests know", feeding.PURPOSE)


def look(database, one, times=2):
    """What the job of a console does, a few times."""
    raised = []
    for _ in range(times):
        with database.transaction() as connection:
            feeding.begin(connection, one)
        for feed in (feeding.feed_risk, lambda c, o: feeding.feed_traffic(c, o, DRAWS)):
            more = True
            while more:
                with database.transaction() as connection:
                    fed = feed(connection, one)
                raised += fed.alarms
                more = fed.more
        with database.transaction() as connection:
            feeding.compare(connection, one)
    return raised


def risk(database, one=None):
    one = one or watched()
    with database.transaction() as connection:
        row = standing.taken(connection, one.model, one.artifact, "risk")
    return risk_state_from_json(row.state)


def traffic(database):
    with database.transaction() as connection:
        return traffic_state_from_json(standing.taken(connection, "toy", "toy-1", "traffic").state)


def test_labels_count_once_in_whatever_portions_they_come(database, monkeypatch):
    monkeypatch.setattr(feeding, "AT_A_TIME", 7)
    service, one = Service(database), watched()
    said = []
    for _ in range(12):
        said += service.serve(40)
        look(database, one, times=1)
    look(database, one)
    losses = [float(label != "7") for _, label in said]
    at_once = new_risk_state(one.risk, one.floor).updated(losses, [SPOT_CHECK] * len(said))
    state = risk(database)
    assert state.bets == at_once.bets
    assert state.n_labelled == len(said) > 20
    assert (state.lower, state.upper) == pytest.approx((at_once.lower, at_once.upper), abs=1e-12)
    assert state.path.steps == at_once.path.steps
    assert traffic(database).n == 480


def test_two_consoles_at_once_count_each_label_once(database, monkeypatch):
    monkeypatch.setattr(feeding, "AT_A_TIME", 3)
    service, one = Service(database), watched()
    stop = threading.Event()
    trouble = []

    def console():
        try:
            while not stop.is_set():
                look(database, one, times=1)
        except Exception as error:
            trouble.append(error)

    consoles = [threading.Thread(target=console) for _ in range(3)]
    for thread in consoles:
        thread.start()
    said = []
    for _ in range(10):
        said += service.serve(30)
    stop.set()
    for thread in consoles:
        thread.join()
    look(database, one)
    assert not trouble
    state = risk(database)
    at_once = new_risk_state(one.risk, one.floor).updated(
        [float(label != "7") for _, label in said], [SPOT_CHECK] * len(said)
    )
    assert state.bets == at_once.bets
    assert traffic(database).n == 300


def test_a_label_that_commits_late_is_not_lost(database, dsn):
    service, one = Service(database), watched()
    (early, *_), *_ = waiting = service.serve(200, labelled=False)
    look(database, one)
    with psycopg.connect(dsn) as slow:
        slow.execute("select pg_current_xact_id()")  # as any transaction that has written something
        log.add_outcome(slow, early, label="1", source="review", author="bob")
        service.review(waiting[1:])
        look(database, one, times=4)
        assert risk(database).n_labelled == len(waiting) - 1
    look(database, one, times=4)
    state = risk(database)
    assert state.n_labelled == len(waiting)
    with database.transaction() as connection:
        cursor = standing.taken(connection, "toy", "toy-1", "risk").cursor
    assert cursor["beyond"] == []  # nothing is remembered for ever


def test_only_drawn_answers_count_and_only_the_first_word(database):
    service, one = Service(database), watched()
    said = service.serve(100)
    with database.transaction() as connection:
        for record_id, _ in said:
            log.add_outcome(connection, record_id, label="1", source="review", author="bob")  # a later correction
        for record_id in service.answered:
            log.add_outcome(connection, record_id, label="1", source="api", author="a complaint")
    look(database, one)
    state = risk(database)
    assert (state.n_labelled, state.errors) == (len(said), sum(label != "7" for _, label in said))


def test_the_outcome_that_counts_is_the_one_known_then(database):
    service, one = Service(database), watched(precedence=("lab", "review"))
    said = service.serve(100, wrong=0.0, labelled=False)
    with database.transaction() as connection:
        log.add_outcome(connection, said[0][0], label="1", source="lab", author=None)  # before the review
    service.review(said)
    with database.transaction() as connection:
        log.add_outcome(connection, said[1][0], label="1", source="lab", author=None)  # after it was final
    look(database, one)
    assert risk(database, one).errors == 1


def test_whoever_dies_in_between_has_changed_nothing(database):
    service, one = Service(database), watched()
    said = service.serve(300)
    with suppress(KeyboardInterrupt), database.transaction() as connection:
        feeding.begin(connection, one)
        assert feeding.feed_risk(connection, one).n == len(said)
        assert feeding.feed_traffic(connection, one, DRAWS).n == 300
        raise KeyboardInterrupt
    look(database, one)
    assert risk(database).n_labelled == len(said)
    assert traffic(database).n == 300


def test_quiet_without_drift_and_one_alarm_of_each_kind_with_it(database):
    service, one = Service(database, seed=3), watched()
    service.serve(1500, wrong=0.05)
    assert look(database, one) == []
    with database.transaction() as connection:
        assert feeding.alarms.in_force(connection) == []
    service.serve(1500, wrong=0.35, shift=-1.0)
    assert sorted(alarm.kind for alarm in look(database, one)) == ["confidence", "held", "risk"]
    service.serve(500, wrong=0.35, shift=-1.0)
    assert look(database, one) == []  # once
    with database.transaction() as connection:
        found = alarms.in_force(connection)
        noted = alarms.events(connection, [alarm.id for alarm in found])
    assert [event.what for event in noted] == ["raised"] * 3
    (about_risk,) = [alarm for alarm in found if alarm.kind == "risk"]
    assert about_risk.words.startswith("more answers are wrong than was promised: of ")
    assert about_risk.evidence["p_value"] <= 0.05
    assert all("nothing is known yet" in alarm.words for alarm in found if alarm.kind != "risk")


def test_tightening_leaves_the_surest_half_and_then_half_of_that(database):
    service, one = Service(database), watched(on_alarm=OnAlarm.TIGHTEN)
    service.serve(1200, wrong=0.5)
    (first,) = [alarm for alarm in look(database, one) if alarm.kind == "risk"]
    with database.transaction() as connection:
        lately = sorted(feeding.lately_answered(connection, "toy", most=feeding.LATELY))
        assert sum(one >= first.floor for one in lately) == len(lately) // 2
        round_before = standing.taken(connection, "toy", "toy-1", "risk").round
        connection.execute("update monitors set counts_from = %s", (service.at,))  # as if so much time had passed
    assert risk(database).n_labelled == 0
    assert round_before == 2
    service.serve(1200, wrong=0.5, limit=first.floor)
    (second,) = [alarm for alarm in look(database, one) if alarm.kind == "risk"]
    assert second.floor > first.floor
    assert second.round == 2
    with database.transaction() as connection:
        assert [guard.alarm_id for guard in alarms.safeguards(connection)] == [first.id, second.id]
        assert [event.what for event in alarms.events(connection, [second.id])] == ["raised", "acted"]


def second_looks(*, hits, missed, cleared, accused):
    counts = ((True, True, hits), (False, True, missed), (False, False, cleared), (True, False, accused))
    return [DecidedCheck(first_overturns=said, truth_overturns=true, n=n) for said, true, n in counts]


@pytest.mark.parametrize(("accused", "alarmed"), [(0, True), (400, False)])
def test_errors_of_reviewers_that_explain_the_labels_raise_no_alarm(database, monkeypatch, accused, alarmed):
    """Reviewers call 25% of the answers wrong. For 20% that is their own error, and at most 10% were promised."""
    looks = second_looks(hits=100, missed=0, cleared=2_000 - accused, accused=accused)
    monkeypatch.setattr(feeding, "decided_checks", lambda *_, until: looks)
    service, one = Service(database), watched()
    service.serve(3_000, wrong=0.25)
    kinds = [alarm.kind for alarm in look(database, one)]
    assert ("risk" in kinds) is alarmed
    state = risk(database)
    assert state.observed_alarmed
    assert state.corrected_bets.target == pytest.approx(0.1 + 0.9 * accused / 2_000)
    if alarmed:
        with database.transaction() as connection:
            (raised,) = [alarm for alarm in alarms.in_force(connection) if alarm.kind == "risk"]
        assert raised.evidence["called_wrong"] == pytest.approx(0.1)
        assert raised.words.startswith(
            "more answers are wrong than was promised, corrected for the errors of reviewers"
        )


def test_a_person_undoes_an_alarm_and_its_monitor_starts_again(database):
    service, one = Service(database), watched(on_alarm=OnAlarm.HOLD_ALL)
    service.serve(1200, wrong=0.5)
    (alarm,) = [alarm for alarm in look(database, one) if alarm.kind == "risk"]
    with database.transaction() as connection:
        assert [guard.floor for guard in alarms.safeguards(connection)] == [None]
        undone = feeding.undo(connection, alarm.id, by="ada", why="the camera was broken, and is mended")
        assert alarms.safeguards(connection) == []
    assert (undone.undone_by, undone.undo_why) == ("ada", "the camera was broken, and is mended")
    with database.transaction() as connection:
        assert [event.what for event in alarms.events(connection, [alarm.id])] == ["raised", "acted", "undone"]
        with pytest.raises(AlarmNotFound, match="undone before, by ada"):
            feeding.undo(connection, alarm.id, by="bob", why="again")
    assert look(database, one) == []
    assert risk(database).n_labelled == 0  # what was decided before the restart no longer counts
    with database.transaction() as connection:
        connection.execute("update monitors set counts_from = %s", (service.at,))
    service.serve(1200, wrong=0.5)
    (again,) = [alarm for alarm in look(database, one) if alarm.kind == "risk"]
    assert again.round == 2


def test_undoing_an_alarm_about_traffic_takes_a_new_reference(database):
    service, one = Service(database), watched()
    service.serve(400)
    service.serve(600, shift=-1.5)
    raised = look(database, one)
    with database.transaction() as connection:
        for alarm in raised:
            feeding.undo(connection, alarm.id, by="ada", why="a new customer")
        connection.execute("update monitors set counts_from = %s", (service.at + timedelta(seconds=1),))
    service.serve(1200, shift=-1.5)
    assert look(database, one) == []
    assert traffic(database).n_compared == 1000


def test_another_promise_is_another_test(database):
    service = Service(database)
    service.serve(1200, wrong=0.3)
    look(database, watched(risk=RiskSettings(target=0.5, delta=0.05)))
    assert look(database, watched()) == []  # with a promise chosen after the labels were seen they count no more
    assert risk(database).n_labelled == 0
    assert risk(database).settings.target == 0.1


def test_the_history_of_alarms_is_only_added_to(database):
    service, one = Service(database), watched()
    service.serve(1200, wrong=0.5)
    look(database, one)
    for forbidden in (
        "delete from alarms",
        "update alarms set words = 'nothing to see'",
        "update alarm_events set why = ''",
        "delete from alarm_events",
    ):
        with pytest.raises(psycopg.errors.CheckViolation), database.transaction() as connection:
            connection.execute(forbidden)


def test_a_comparison_is_kept_for_the_page(database):
    service, one = Service(database), watched()
    service.serve(500, shift=0.0)
    look(database, one)
    with database.transaction() as connection:
        row = standing.taken(connection, "toy", "toy-1", "comparison")
    assert (row.state["n"], row.state["n_reference"]) == (200, 200)
    assert [drift["name"] for drift in row.state["drifts"]] == ["confidence", "softmax_response", "entropy"]
    assert row.state["drifts"][2]["psi"] is None  # nobody knows it
    assert row.state["labels"] == [["7", 1.0, 1.0]]


def test_what_people_found_says_which_label_is_taken_for_which(database):
    """Two labels, of which the model takes a quarter of the one for the other."""
    service, one = Service(database), watched()
    entries = [
        entry(
            created_at=START + timedelta(seconds=at),
            model="toy",
            prediction="1" if at % 8 == 0 else "7",
            label_probability=1.0,
        )
        for at in range(80)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
        for at, written in enumerate(entries):
            resolve(connection, written.record.id, "ada", "7" if at % 2 else "1")
        found = confused(connection, "toy", "toy-1", most=1000)
        assert {(pair.predicted, pair.true): (pair.n, pair.weight) for pair in found} == {
            ("1", "1"): (10, 10.0),
            ("7", "1"): (30, 30.0),
            ("7", "7"): (40, 40.0),
        }
        assert confused(connection, "toy", "another", most=1000) == []
    service.serve(500)
    look(database, one)
    with database.transaction() as connection:
        row = standing.taken(connection, "toy", "toy-1", "comparison")
    assert [label for label, _, _ in row.state["classes"]] == ["1", "7"]
