"""Parameters of an address that no route knows."""

import pytest
from fastapi import Depends, FastAPI
from starlette.testclient import TestClient

from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.shared.known_queries import only_known


@pytest.fixture
def client():
    app = FastAPI(dependencies=[Depends(only_known)])

    @app.get("/with")
    async def with_some(since: str = "", limit: int = 3) -> str:
        return f"{since} {limit}"

    @app.get("/without/{name}")
    async def without(name: str) -> str:
        return name

    return TestClient(app)


def test_known_parameters_count(client):
    assert client.get("/with?since=a&limit=4").json() == "a 4"
    assert client.get("/without/x").json() == "x"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("/with?sinse=a", r"parameters: 'sinse' is not one of: since, limit; did you mean `since`\?"),
        ("/with?since=a&until=b", "parameters: 'until' is not one of: since, limit"),
        ("/without/x?name=y", "parameters: 'name' is not known; this address takes no parameters"),
    ],
)
def test_others_are_refused(client, address, why):
    with pytest.raises(InvalidRequest, match=why):
        client.get(address)
