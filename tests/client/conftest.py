"""A client of either kind, on a service that tests make."""

import pytest

from tests.client.fake import Time, client_of


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """Whoever runs the tests may have an address and a key of their own."""
    for name in ("DEMUR_URL", "DEMUR_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def time():
    return Time()


@pytest.fixture(params=["sync", "async"])
def asking(request, time):
    """Makes a client of a service."""
    return lambda service, **more: client_of(request.param, service, time, **more)
