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


def configure(service: Service, *, sockets: bool) -> None:
    write(
        service,
        lambda content: content.update(
            telemetry={"metrics_port": free_port()}, gateway={} if sockets else {"local_sockets": False}
        ),
    )


def test_predictions_go_over_sockets_in_a_folder_that_goes_with_the_service(own, digits):
    configure(own, sockets=True)
    own.start()
    folder = own.run_folder / "sockets"
    (host,) = [one for one in own.processes() if "".join(one.cmdline()).startswith("ray::ServeReplica:demur:host-")]
    assert [path.name for path in folder.iterdir()] == [f"digits~{host.pid}"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    ask(own, digits, times=50)
    wait_until(lambda: own.host_calls().total() >= 50, why=own.host_calls)
    calls = own.host_calls()
    assert calls["socket"] > calls["handle"], calls  # the first ones, while it connects, go by the handle
    own.interrupt()
    assert not folder.exists()
    assert "Traceback" not in own.said()


def test_with_the_key_off_they_go_by_the_handle(own, digits):
    configure(own, sockets=False)
    own.start()
    assert list((own.run_folder / "sockets").iterdir()) == []
    ask(own, digits, times=20)
    wait_until(lambda: own.host_calls().total() >= 20, why=own.host_calls)
    assert set(own.host_calls()) == {"handle"}
