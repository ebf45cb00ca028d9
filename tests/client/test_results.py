"""What a service answers becomes frozen values, or one sentence on what is wrong with it."""

import pickle
from dataclasses import FrozenInstanceError

import pytest

from demur.client.errors import BadReply, DemurError, TimedOut
from demur.client.fields import Fields
from demur.client.results import Health, Outcome, Prediction, PredictionView, Report
from tests.client.fake import HELD, OUTCOME, PREDICTION, VIEW


def of(kind, told):
    return kind.of(Fields(told, "the reply"))


def test_an_answer_and_a_held_prediction():
    answered, held = of(Prediction, {**PREDICTION, "newer": 1}), of(Prediction, HELD)
    assert (answered.answered, answered.abstained, answered.label) == (True, False, "7")
    assert (held.answered, held.abstained, held.label, held.prediction) == (False, True, None, "7")
    assert held.review.status == "waiting"
    assert not held.review.ended
    assert answered.raw["newer"] == 1
    assert answered.scores == {"entropy": 0.1, "margin": None}
    with pytest.raises(FrozenInstanceError):
        answered.action = "review"
    assert of(Prediction, {**PREDICTION, "prediction": ["a", "b"]}).label == ["a", "b"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"id": 7}, "the service sent a number as 'id', where a text is expected"),
        ({"action": "reply"}, "the action 'reply', which this version does not know"),
        ({"action": "\x1b[31m"}, r"'\x1b[31m'"),
        ({"abstained": True}, "and that it abstained says otherwise"),
        ({"abstained": "no"}, "where true or false is expected"),
        ({"confidence": "high"}, "where a number is expected"),
        ({"confidence": True}, "where a number is expected"),
        ({"confidence": 10**400}, "where a number of 64 bits is expected"),
        ({"prediction": 7}, "where a list of texts is expected"),
        ({"prediction": [7]}, "where a list of texts is expected"),
        ({"scores": {"a": "b"}}, "where a number is expected"),
        ({"scores": None}, "the service sent null as 'scores'"),
        ({"review": "soon"}, "the service sent a text where an object is expected"),
        ({"review": {}}, "the reply, review: the service sent nothing as 'status'"),
    ],
)
def test_a_prediction_that_cannot_be_read(changed, said):
    with pytest.raises(BadReply) as raised:
        of(Prediction, {**PREDICTION, **changed})
    assert said in str(raised.value)


def test_a_view():
    view = of(PredictionView, {**VIEW, "outcome": OUTCOME, "outcomes": [{**OUTCOME, "counts": True}]})
    assert view.outcome.label == "7"
    assert view.outcomes[0].raw["counts"] is True
    assert view.at.year == 2026
    assert of(PredictionView, VIEW).outcome is None
    for changed in ({"at": "yesterday"}, {"at": None}, {"outcomes": {}}, {"outcome": {}}):
        with pytest.raises(BadReply):
            of(PredictionView, {**VIEW, **changed})
    with pytest.raises(BadReply, match="no label"):
        of(Outcome, {**OUTCOME, "label": None})


def test_health():
    model = {"status": "ok", "artifact": "m-1", "detail": ""}
    health = of(Health, {"status": "degraded", "models": {"a": model, "b": {**model, "status": "failed"}}})
    assert not health.ok
    assert [one.status for one in health.models.values()] == ["ok", "failed"]
    assert of(Health, {"status": "ok"}).models == {}
    for wrong in ({}, {"status": "ok", "models": []}, {"status": "ok", "models": {"a": 1}}):
        if wrong != {"status": "ok", "models": []}:  # which says as little as no models
            with pytest.raises(BadReply):
                of(Health, wrong)


def test_a_report():
    told = {"id": "1", "model": "m", "since": VIEW["at"], "until": VIEW["at"], "verdict": "kept", "why": "because"}
    assert of(Report, {**told, "document": {}}).raw["document"] == {}


def test_errors_go_from_process_to_process():
    error = TimedOut("too late")
    error.status, error.position = 504, 7
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.status, again.position) == (TimedOut, "too late", 504, 7)
    assert isinstance(again, TimeoutError)
    assert isinstance(again, DemurError)


def test_results_go_from_process_to_process():
    assert pickle.loads(pickle.dumps(of(Prediction, HELD))) == of(Prediction, HELD)
