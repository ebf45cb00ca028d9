"""What was acknowledged is never lost, whatever is killed."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.conftest import digit_rows
from tests.system.conftest import Service, alive

pytestmark = pytest.mark.slow


@pytest.fixture
def fresh(digits):
    service = Service(digits)
    try:
        service.start()
        yield service
    finally:
        service.remove()


def ask_until(stop, url, rows, acknowledged, refused):
    """Ask again and again; note every answer that came whole."""
    with httpx.Client(base_url=url, timeout=10) as client:
        at = 0
        while not stop.is_set():
            row = rows[at % len(rows)]
            at += 1
            try:
                response = client.post("/v1/predict", json={"model": "digits", "input": row["input"]})
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if response.status_code == 200:
                acknowledged.append(response.json())
            else:
                refused.append(response)


def load(service, digits, during):
    """Run `during` while eight clients ask for digits, doubtful ones among them; return what they were told."""
    stop, acknowledged, refused = threading.Event(), [], []
    rows = digit_rows(digits)
    for i, row in enumerate(rows):
        if i % 2:
            row["input"] = [line[::-1] for line in row["input"]]  # mirrored digits are often held
    with ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(ask_until, stop, service.url, rows[i * 50 :], acknowledged, refused) for i in range(8)]
        try:
            during(acknowledged)
        finally:
            stop.set()
        for client in clients:
            client.result()
    return acknowledged, refused


def assert_all_on_record(service, acknowledged):
    held = 0
    with httpx.Client(base_url=service.url, timeout=30) as client:
        for answer in acknowledged:
            seen = client.get(f"/v1/predictions/{answer['id']}")
            assert seen.status_code == 200, answer
            assert seen.json()["prediction"] == answer["prediction"]
            if answer["action"] == "review":
                held += 1
                assert seen.json()["review"]["status"] == "waiting"
    assert held > 20  # else this showed nothing about the queue


def wait_for(acknowledged, count):
    deadline = time.monotonic() + 60
    while len(acknowledged) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_stops_everything_and_the_next_start_finds_the_same_data(fresh, digits):
    acknowledged, _ = load(fresh, digits, lambda told: wait_for(told, 200))
    assert alive(fresh.interrupt()) == []
    assert fresh.process.returncode == 0
    assert "stopped" in fresh.said()
    assert "Traceback" not in fresh.said()
    fresh.start()
    assert "fitting" not in fresh.said()
    assert "not stopped cleanly" not in fresh.said()
    assert_all_on_record(fresh, acknowledged)


def test_sigkill_under_load_loses_nothing_that_was_acknowledged(fresh, digits):
    def kill(acknowledged):
        wait_for(acknowledged, 500)
        fresh.kill_everything()

    acknowledged, _ = load(fresh, digits, kill)
    fresh.start()
    assert "was not stopped cleanly" in fresh.said()
    assert_all_on_record(fresh, acknowledged)


def test_a_database_that_goes_away_and_comes_back(fresh, digits):
    def kill_database(acknowledged):
        wait_for(acknowledged, 200)
        os.kill(fresh.database_pid(), signal.SIGKILL)
        before = len(acknowledged)
        wait_for(acknowledged, before + 200)  # `demur up` has started it again, and the gateway has found it

    acknowledged, refused = load(fresh, digits, kill_database)
    assert "the database died; starting it again" in fresh.said()
    for response in refused:
        assert response.status_code == 503
        assert response.json()["error"]["kind"] == "DatabaseUnavailable"
        assert response.headers["Retry-After"]
    assert_all_on_record(fresh, acknowledged)
