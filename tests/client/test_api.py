"""What else is asked: waiting for people, outcomes, erasing, health, models, exports and reports."""

import json
from uuid import UUID

import pytest

from demur.client.errors import (
    BadReply,
    ClientClosed,
    DemurError,
    InvalidRequest,
    NotAllowed,
    NotFound,
    StillWaiting,
    Unavailable,
)
from tests.client.fake import HELD, ID, OUTCOME, PREDICTION, VIEW, Service, problem, reply

WAITING = {**VIEW, **HELD, "review": {"status": "waiting", "url": "/x", "ahead": 3, "expected_seconds": 60.0}}
KNOWN = {**WAITING, "outcome": OUTCOME, "outcomes": [{**OUTCOME, "counts": True}]}


def after(time, seconds, body):
    """A reply that takes its time, as the service does while it waits."""

    def answer(request):
        time.now += seconds
        return reply(body)

    return answer


def test_waiting_ends_with_a_persons_answer(asking, time):
    service = Service(after(time, 50, WAITING), after(time, 50, WAITING), after(time, 7, KNOWN))
    view = asking(service).wait(ID)
    assert view.outcome.label == "7"
    assert view.review.ahead == 3
    assert [request.url.params["wait"] for request in service.requests] == ["50.000"] * 3
    assert time.pauses == []
    assert service.requests[0].extensions["timeout"]["read"] > 60


def test_waiting_ends_with_its_time(asking, time):
    service = Service(after(time, 10, WAITING))
    with pytest.raises(StillWaiting, match=r"nobody has answered within 10 s; the case is waiting") as raised:
        asking(service).wait(ID, timeout=10)
    assert isinstance(raised.value, TimeoutError)
    (request,) = service.requests
    assert request.url.params["wait"] == "10.000"


def test_a_service_that_does_not_wait_is_not_asked_without_end(asking, time):
    service = Service(reply(WAITING))
    with pytest.raises(StillWaiting):
        asking(service).wait(ID, timeout=20)
    assert len(service.requests) <= 22


@pytest.mark.parametrize(
    "view",
    [
        VIEW,
        {**WAITING, "review": {"status": "expired", "url": "/x"}},
        {**WAITING, "review": {"status": "withdrawn", "url": "/x"}},
        {**WAITING, "review": {"status": "resolved", "url": "/x"}},
    ],
)
def test_where_nobody_is_asked_waiting_ends_at_once(asking, time, view):
    service = Service(reply(view))
    assert asking(service).wait(UUID(ID)).outcome is None
    assert len(service.requests) == 1


def test_waiting_survives_a_service_that_starts_again(asking, time):
    service = Service(reply(WAITING), problem("NoGateway", "it starts", 503, Retry_After="3"), reply(KNOWN))
    assert asking(service).wait(ID, timeout=100).outcome.label == "7"


@pytest.mark.parametrize("id", ["", "7", "../../review/v1/me", "x" * 36, None])
def test_what_is_no_id_is_not_sent(asking, id):
    service = Service(reply(VIEW))
    client = asking(service)
    for ask in (client.prediction, client.wait, client.erase, lambda told: client.add_outcome(told, "7")):
        with pytest.raises(InvalidRequest, match=r"id: .* is none; one such as"):
            ask(id)
    assert service.requests == []


def test_a_prediction_stands_for_its_id(asking):
    service = Service(reply(PREDICTION), reply(KNOWN))
    client = asking(service)
    client.wait(client.predict("m", "x"))
    assert service.requests[1].url.path == f"/v1/predictions/{ID}"


def test_an_outcome(asking):
    service = Service(problem("Overloaded", "busy", 503), reply(OUTCOME, 201))
    told = asking(service).add_outcome(ID, "7", "lab", "ada")
    assert (told.label, told.replayed) == ("7", False)
    assert [json.loads(request.content) for request in service.requests] == [
        {"label": "7", "source": "lab", "author": "ada"}
    ] * 2
    assert len({request.headers["idempotency-key"] for request in service.requests}) == 1
    again = Service(reply(OUTCOME, 201, Idempotent_Replay="true"))
    assert asking(again).add_outcome(ID, ["7"], idempotency_key="k").replayed
    assert again.requests[0].headers["idempotency-key"] == "k"


def test_erasing(asking):
    service = Service(reply({"id": ID, "erased_at": VIEW["at"], "erased_by": "ada"}))
    assert asking(service, name="ädа").erase(ID).erased_by == "ada"
    (request,) = service.requests
    assert (request.method, request.url.path) == ("DELETE", f"/v1/predictions/{ID}/payload")
    assert request.headers["x-demur-reviewer"] == "%C3%A4d%D0%B0"


def test_health(asking, time):
    told = {"status": "not ok", "models": {"m": {"status": "failed", "artifact": None, "detail": "no model"}}}
    health = asking(Service(reply(told, 503))).health()
    assert (health.ok, health.models["m"].detail) == (False, "no model")
    assert asking(Service(reply({"status": "ok"}))).health().ok
    with pytest.raises(Unavailable, match="it starts"):
        asking(Service(problem("NoGateway", "it starts", 503))).health()
    with pytest.raises(BadReply):
        asking(Service(reply({"state": "fine"}))).health()


def test_models(asking):
    assert asking(Service(reply({"models": ["a", "b"]}))).models() == ["a", "b"]
    with pytest.raises(BadReply):
        asking(Service(reply({"models": [{"name": "a"}]}))).models()


def test_reports(asking):
    told = {"id": ID, "model": "m", "since": VIEW["at"], "until": VIEW["at"], "verdict": "kept", "why": "because"}
    service = Service(reply({"reports": [told], "more": False}), reply({**told, "document": {"n": 7}}))
    client = asking(service)
    (report,) = client.reports("m", limit=5)
    assert report.verdict == "kept"
    assert client.report(report.id).raw["document"] == {"n": 7}
    assert service.requests[0].url.raw_path == b"/audit/v1/reports?limit=5&model=m"


def test_an_export(asking, tmp_path):
    service = Service(
        problem("Overloaded", "busy", 503, Retry_After="1"), reply(b"case\n1\n", 200, X_Demur_Left_Out="2")
    )
    left_out = asking(service, name="ada").export(
        "m", tmp_path / "cases.csv", format="csv", statuses=["waiting", "claimed"], with_predictions=True
    )
    assert left_out == 2
    assert (tmp_path / "cases.csv").read_bytes() == b"case\n1\n"
    assert list(tmp_path.iterdir()) == [tmp_path / "cases.csv"]
    assert service.requests[0].url.query == b"model=m&format=csv&status=waiting&status=claimed&with_predictions=true"


def test_an_export_that_fails_leaves_no_file(asking, tmp_path):
    (tmp_path / "old.jsonl").write_text("old")
    refusals = {NotAllowed: problem("NotAllowed", "no", 403), NotFound: problem("UnknownModel", "none", 404)}
    for error, told in refusals.items():
        with pytest.raises(error):
            asking(Service(told)).export("m", tmp_path / "old.jsonl")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    with pytest.raises(FileNotFoundError):
        asking(Service(reply(b"x"))).export("m", tmp_path / "no folder" / "x")


def test_settings_that_make_no_sense(asking):
    for wrong in ({"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"concurrency": 0}):
        with pytest.raises(ValueError, match=r"timeout|concurrency"):
            asking(Service(), **wrong)


def test_the_package_has_the_names_that_programs_import():
    import demur

    assert {demur.Client.__name__, demur.AsyncClient.__name__} == {"Client", "AsyncClient"}
    assert issubclass(demur.DemurError, Exception)
    assert DemurError is demur.DemurError
    assert set(demur.__all__) <= set(dir(demur))
    with pytest.raises(AttributeError, match="'demur' has no attribute 'Klient'"):
        getattr(demur, "Klient")  # noqa: B009


def test_no_limit_of_time(asking, time):
    """`timeout=None`, as clients of other services have it."""
    service = Service(after(time, 10**6, PREDICTION))
    assert asking(service, timeout=None).predict("digits", "a").id
    assert "x-request-timeout" not in service.requests[0].headers
    service = Service(after(time, 10**6, {"results": [{"prediction": PREDICTION, "error": None}]}))
    assert asking(service).predict_many("digits", ["a"], timeout=None)[0].id


@pytest.mark.parametrize("wrong", [0, -1, "60", True, float("nan")])
def test_a_time_that_is_none_is_refused(asking, wrong):
    with pytest.raises(ValueError, match=r"timeout is a number of seconds above 0, or None for no limit, and not "):
        asking(Service(), timeout=wrong)


def test_a_client_that_is_closed_says_so(asking):
    client = asking(Service(reply(PREDICTION)))
    client.close()
    with pytest.raises(ClientClosed, match="this client is closed; make a new one"):
        client.predict("digits", "a")
    with pytest.raises(ClientClosed):
        client.predict_many("digits", ["a"])
