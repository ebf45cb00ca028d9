"""On one machine gateways call hosts over Unix sockets, unless the configuration says otherwise."""

import stat

import httpx
import pytest

from tests.conftest import digit_rows
from tests.system.conftest import Service, free_port, wait_until, write

pytestmark = pytest.mark.slow


def ask(service: Service, digits, *, times: int) -> None:
    rows = digit_rows(digits)
    with httpx.Client(base_url=service.url, timeout=60) as http:
        for row in rows[:times]:
            told = http.post("/v1/predict", json={"model": "digits", "input": row["input"]})
            assert told.status_code == 200, told.text


def test_predictions_go_over_sockets_in_a_folder_that_goes_with_the_service(watched, digits):
    """It ends the service that it shares, so this file is the last."""
    folder = watched.run_folder / "sockets"
    (host,) = [one for one in watched.processes() if "".join(one.cmdline()).startswith("ray::ServeReplica:demur:host-")]
    assert [path.name for path in folder.iterdir()] == [f"digits~{host.pid}"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    before = watched.host_calls()
    ask(watched, digits, times=50)
    wait_until(lambda: (watched.host_calls() - before).total() >= 50, why=watched.host_calls)
    calls = watched.host_calls() - before
    assert calls["socket"] > calls["handle"], calls  # what is asked while it connects goes by the handle
    watched.interrupt()
    assert not folder.exists()
    assert "Traceback" not in watched.said()


@pytest.mark.long  # one start of many that are alike
def test_with_the_key_off_they_go_by_the_handle(own, digits):
    write(own, lambda to: to.update(telemetry={"metrics_port": free_port()}, gateway={"local_sockets": False}))
    own.start()
    assert list((own.run_folder / "sockets").iterdir()) == []
    ask(own, digits, times=20)
    wait_until(lambda: own.host_calls().total() >= 20, why=own.host_calls)
    assert set(own.host_calls()) == {"handle"}
