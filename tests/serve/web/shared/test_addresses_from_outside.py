"""Where a request can name a path or an address: only what is ours is read, nobody asked, and nobody led elsewhere."""

import base64
import socket
from urllib.parse import quote, urljoin, urlsplit

import pytest
from starlette.testclient import TestClient

from demur.serve.web.audit.app import audits_app
from tests.fuzz.served import MODELS, config, mounted, served

pytestmark = pytest.mark.slow  # three applications are made

SECRET = "the content of a file that is nobody's business"
CLIMBS = (
    "../" * 12,
    "..%2f" * 12,
    "%2e%2e/" * 12,
    "%2e%2e%2f" * 12,
    "..%5c" * 12,
    "..%252f" * 12,
    "%2f",
    "//",
    "file:%2f%2f%2f",
)


@pytest.fixture
def secret(tmp_path):
    """The path of a file, without its first slash."""
    path = tmp_path / "secret.css"
    path.write_text(SECRET)
    return str(path)[1:]


@pytest.fixture
def client(database):
    apps, _ = served(database)
    with TestClient(mounted(apps), follow_redirects=False, headers={"X-Demur-Reviewer": "ada"}) as client:
        yield client


@pytest.fixture
def listener():
    """An address at which nobody must call, and whether somebody has."""
    with socket.socket() as waiting:
        waiting.bind(("127.0.0.1", 0))
        waiting.listen()
        waiting.setblocking(False)

        def called() -> bool:
            try:
                waiting.accept()[0].close()
            except BlockingIOError:
                return False
            return True

        yield f"127.0.0.1:{waiting.getsockname()[1]}", called


PLACES = (
    "/docs/{}",
    "/review/docs/{}",
    "/review/static/{}",
    "/review/static/any/{}",
    "/audit/static/any/{}",
    "/review/v1/export?format=jsonl&model={}",
    "/review/v1/export?format={}&model=words",
    "/review/v1/label-config?model={}",
    "/review/cases/{}",
    "/audit/reports/{}/report.html",
    "/audit/reports/{}/report.parquet",
    "/v1/predictions/{}",
    "/v1/models/{}",
    "/v2/models/{}",
    "/v2/models/words/versions/{}",
    "/v2/models/words/versions/{}/ready",
)


@pytest.mark.parametrize("place", PLACES)
def test_no_path_leads_to_a_file_that_is_not_ours(client, place, secret):
    for climb in CLIMBS:
        told = client.get(place.replace("{}", f"{climb}{secret}"))
        assert SECRET not in told.text
        assert 300 <= told.status_code < 500, (told.status_code, climb)
        assert "location" not in told.headers or urlsplit(told.headers["location"]).netloc in ("", "testserver")


def test_what_is_ours_is_there(client):
    page = client.get("/review/").text
    style = page.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
    assert client.get(style).headers["content-type"].startswith("text/css")
    assert client.get("/review/v1/export?format=jsonl&model=words").status_code == 200


def asking(address: str):
    """Each way to name an address in a request, where another service would fetch it."""
    urls = [
        f"http://{address}/a.png",
        f"//{address}/a.png",
        f"ftp://{address}/a.png",
        f"data:image/png,http://{address}/",
    ]
    for url in [*urls, "file:///etc/passwd", "/etc/passwd", f"data:text/html,{url_of(address)}"]:
        yield "/v1/predict", {"model": "pixels", "input": url}
        yield "/v1/predict", {"model": "pixels", "input": {"url": url}}
        yield "/v1/predict/batch", {"items": [{"model": "pixels", "input": url}]}
        tensor = {"name": "input", "datatype": "BYTES", "shape": [1], "data": [url]}
        yield "/v2/models/pixels/infer", {"inputs": [tensor]}
        svg = f'<svg xmlns="http://www.w3.org/2000/svg"><image href="{url}"/></svg>'
        image = "data:image/png;base64," + base64.b64encode(svg.encode()).decode()
        yield "/v1/predict", {"model": "pixels", "input": image}
        part = {"type": "image_url", "image_url": {"url": url}}
        yield "/v1/chat/completions", {"model": "writer", "messages": [{"role": "user", "content": [part]}]}
    yield "/review/v1/import", [{"id": 1, "data": {"demur_case": url_of(address), "image": url_of(address)}}]


def url_of(address: str) -> str:
    return f"http://{address}/"


def test_nobody_is_asked_for_what_an_address_names(client, listener):
    address, called = listener
    asked = 0
    for path, body in asking(address):
        told = client.post(path, json=body)
        if path.endswith("batch"):
            assert told.json()["results"][0]["status"] == 422
        elif path.endswith("import"):
            assert told.status_code < 500
        else:
            assert 400 <= told.status_code < 500, (path, body, told.text)
        asked += 1
    assert asked > 30
    assert not called()
    with socket.create_connection(tuple(address.split(":"))):
        assert called()  # and it would have been noticed


ELSEWHERE = (
    "https://evil.example/", "//evil.example/", "///evil.example", "/\\evil.example", "\\\\evil.example",
    "http:evil.example", "/review//evil.example", "/review/\\evil.example", "/review/..//..//evil.example", "",
    "javascript:alert(1)", "/review/\r\nLocation: https://evil.example/", "/review@evil.example/", "/reviewer/",
    "\t//evil.example",
)  # fmt: skip


@pytest.mark.parametrize("prefix", ["/review", "/audit", ""])
def test_nobody_is_led_elsewhere(client, database, prefix):
    if not prefix:  # mounted at the root, where two slashes are the name of a host
        client = TestClient(audits_app(config(), database), follow_redirects=False)
    for back in ELSEWHERE:
        told = client.post(f"{prefix}/hello", data={"name": "ada", "back": back.replace("/review", prefix)})
        assert told.status_code == 303
        where = urlsplit(urljoin("http://here/any/", told.headers["location"].replace("\\", "/")))
        assert (where.scheme, where.netloc) == ("http", "here"), back
        assert "\n" not in told.headers["location"]


def test_a_name_in_a_header_is_that_of_a_model(client):
    told = client.get("/review/v1/export?format=jsonl&model=words")
    assert told.headers["content-disposition"] == 'attachment; filename="words.jsonl"'
    named = quote('words"; filename="evil.exe')
    assert client.get(f"/review/v1/export?format=jsonl&model={named}").status_code in (404, 422)
    assert all(name.isalnum() for name in MODELS)
