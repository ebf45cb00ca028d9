"""What a demo tells of the monitors of the service that it replays traffic through."""

import httpx
import pytest

from demur.serve.commands.demo_monitors import BETWEEN_LOOKS, WAIT_SECONDS, DemoMonitors

URL = "http://service"


def alarm(id=1, model="digits", kind="confidence"):
    return {
        "id": id,
        "model": model,
        "artifact": "digits-1",
        "kind": kind,
        "raised_at": "2026-11-26T05:00:07+00:00",
        "words": "the traffic has changed",
    }


def standing(records, *alarms, model="digits"):
    one = {"model": model, "artifact": "digits-1", "records": records, "says": "No answer.", "traffic_says": "Quiet."}
    other = {**one, "model": "sums", "records": 10_000}
    return {"monitors": [one, other], "alarms": [*alarms, alarm(id=99, model="sums")], "unwatched": {}}


def monitors_of(*replies, key=None, model="digits"):
    """Monitors of a service that gives these replies, the last of them for ever; and what was asked, and the pauses."""
    asked, pauses, now = [], [], [0.0]

    def reply(request):
        asked.append(request)
        one = replies[min(len(asked), len(replies)) - 1]
        return one if isinstance(one, httpx.Response) else httpx.Response(200, json=one)

    def sleep(seconds):
        pauses.append(seconds)
        now[0] += seconds

    transport = httpx.MockTransport(reply)
    found = DemoMonitors(URL, model, key, transport=transport, sleep=sleep, clock=lambda: now[0])
    return found, asked, pauses


def test_it_waits_until_all_is_taken_in_and_tells_which_alarm_since_when():
    found, asked, pauses = monitors_of(standing(50), standing(60), standing(450, alarm()), key="k")
    lines = found.after(400)
    assert lines == [
        "monitors: digits-1: No answer. Quiet.",
        "ALARM about the confidences of digits, artifact digits-1, since 2026-11-26 05:00:07 UTC: the traffic has"
        " changed",
        "all monitors: http://service/audit/monitors",
    ]
    assert pauses == [BETWEEN_LOOKS]
    assert {request.headers["authorization"] for request in asked} == {"Bearer k"}


def test_an_alarm_from_before_is_told_as_such():
    found, *_ = monitors_of(standing(50, alarm()), standing(450, alarm(), alarm(id=2, kind="held")))
    _, before, new, _ = found.after(400)
    assert "UTC, as before: " in before
    assert new.startswith("ALARM about the share held of digits")
    assert "as before" not in new


def test_it_gives_up_on_records_that_do_not_come():
    found, _, pauses = monitors_of(standing(0))
    assert found.after(400)[1] == "monitors: 400 of these records are not taken in yet"
    assert sum(pauses) == pytest.approx(WAIT_SECONDS)


def test_the_first_records_of_a_model_are_waited_for():
    nothing_yet = {"monitors": [], "alarms": [], "unwatched": {"sums": "no spot checks"}}
    found, _, pauses = monitors_of(nothing_yet, nothing_yet, nothing_yet, standing(400))
    assert found.after(400)[0] == "monitors: digits-1: No answer. Quiet."
    assert pauses == [BETWEEN_LOOKS] * 2


def test_a_model_that_nobody_watches():
    found, _, pauses = monitors_of({"monitors": [], "alarms": [], "unwatched": {"digits": "no spot checks"}})
    assert found.after(3) == ["monitors: nobody watches digits; give it a `spot_check`, such as 0.05"]
    assert pauses == []


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (httpx.Response(403, json={}), "the service answered 403; a key with the scope `audit` may read them"),
        (httpx.Response(500), "the service answered 500"),
        (httpx.Response(200, text="<html>"), "JSONDecodeError"),
        (httpx.Response(200, json={"monitors": [{}]}), "KeyError"),
        (httpx.Response(200, json=[]), "TypeError"),
    ],
)
def test_monitors_that_cannot_be_read_fail_no_demo(reply, why):
    found, *_ = monitors_of(reply)
    (line,) = found.after(3)
    assert line.startswith("monitors: they could not be read at http://service/audit/monitors: ")
    assert why in line
