"""One service that asks who it is: keys and logins made beside it, by curl, over gRPC and in a browser; and none of the
secrets that a configuration knows in any log."""

import base64
import json
import re
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
import numpy as np
import psycopg
import pytest
import tritonclient.grpc as over_grpc
import yaml
from tritonclient.utils import InferenceServerException

from tests.conftest import digit_rows
from tests.serve.access.fake_provider import CLIENT, SECRET, FakeProvider
from tests.system.conftest import Service

pytestmark = pytest.mark.slow

HIDDEN = {
    "password of the database": "marked-database-5vq0",
    "the client secret of OpenID Connect": SECRET,
    "the same as it travels": base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode(),
    "secret of the proxy": "marked-proxy-0123456789abcdef0123456789abcdef",
    "secret of a webhook": base64.b64encode(b"marked webhook, of 24 bytes or more").decode(),
    "the key of an endpoint": "sk-marked-endpoint-81h",
    "the key of a bucket": "marked-bucket-77w",
    "what the collector of traces wants": "marked-collector-3kq",
}
TOKEN = re.compile(rb"demur(?:code|session)?_[a-z0-9]{10}_[A-Za-z0-9]{40}")
"""Keys, login links and sessions, whoever made them."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def provider():
    running = FakeProvider()
    yield running
    running.close()


@pytest.fixture(scope="module")
def database_address(postgres):
    """A database of its own, at an address with a password in it, which the server does not ask for."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("create database access")
    parts = urlsplit(postgres)
    return urlunsplit(parts._replace(netloc=f"postgres:{HIDDEN['password of the database']}@", path="/access"))


@pytest.fixture(scope="module")
def service(digits, provider, database_address):
    running = Service(digits)
    running.grpc_port = free_port()
    path = running.folder / "demur.yaml"
    content = yaml.safe_load(path.read_text())
    nowhere = f"http://127.0.0.1:{free_port()}"
    content["http"]["grpc_port"] = running.grpc_port
    content["database"] = "env:DEMUR_TEST_DATABASE"
    content["access"] = {
        "mode": "keys",
        "url": running.url,
        "oidc": {
            "issuer": provider.issuer,
            "client_id": CLIENT,
            "client_secret_env": "DEMUR_TEST_OIDC",
            "everyone": ["review"],
        },
        "proxy": {"secret_env": "DEMUR_TEST_PROXY", "roles": {"reviewers": ["review"]}},
    }
    content["telemetry"] = {"logs": "json", "access_log": True, "traces": {"endpoint": f"{nowhere}/v1/traces"}}
    hook = {"url": f"{nowhere}/hook", "secret_env": "DEMUR_TEST_HOOK", "events": ["withdrawn"]}
    content["review"] = {"webhooks": [hook]}
    path.write_text(yaml.safe_dump(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEMUR_TEST_DATABASE", database_address)
        patch.setenv("DEMUR_TEST_OIDC", SECRET)
        patch.setenv("DEMUR_TEST_PROXY", HIDDEN["secret of the proxy"])
        patch.setenv("DEMUR_TEST_HOOK", f"whsec_{HIDDEN['secret of a webhook']}")
        patch.setenv("OPENAI_API_KEY", HIDDEN["the key of an endpoint"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", HIDDEN["the key of a bucket"])
        header = f"authorization={HIDDEN['what the collector of traces wants']}"
        patch.setenv("OTEL_EXPORTER_OTLP_HEADERS", header)
        try:
            running.start(patience=240)
            yield running
        finally:
            running.remove()


def messages(service) -> list[str]:
    """What it has said, each line out of its JSON object."""
    return "\n".join(line["message"] for line in lines(service)).split("\n")


def lines(service) -> list[dict[str, object]]:
    """Its log; what was fitted first has told of itself in plain text."""
    return [json.loads(line) for line in service.said().splitlines() if line.startswith("{")]


def predict(http, digits, **headers):
    body = {"model": "digits", "input": digit_rows(digits)[0]["input"]}
    return http.post("/v1/predict", json=body, headers=headers)


def test_it_says_who_gets_in(service):
    said = service.said()
    assert "this machine alone reaches it, and whoever asks shows a key or has logged in" in said
    assert "export DEMUR_KEY=$(demur keys make mine --scope predict)" in said
    assert "Traceback" not in said
    assert "no key is in force" in service.run_here("keys", "list")  # the one with which it asked itself is gone


def test_a_key_from_making_to_revoking(service, http, digits):
    assert predict(http, digits).status_code == 401
    key = service.run_here("keys", "make", "shop", "--scope", "predict").strip()
    assert predict(http, digits, Authorization=f"Bearer {key}").json()["action"] == "answer"
    assert predict(http, digits, **{"X-Api-Key": key}).status_code == 200
    assert http.get("/review/v1/me", headers={"X-Api-Key": key}).status_code == 403
    assert http.get("/audit/metrics", headers={"X-Api-Key": key}).status_code == 403
    service.run_here("keys", "revoke", key.split("_")[1])
    revoked = time.monotonic()
    while predict(http, digits, Authorization=f"Bearer {key}").status_code != 401:
        assert time.monotonic() - revoked < 5
        time.sleep(0.1)
    assert key not in service.said()


def test_the_line_that_it_prints_can_be_pasted(service):
    key = service.run_here("keys", "make", "mine", "--scope", "predict").strip()
    (line,) = [line for line in messages(service) if line.strip().startswith("curl")]
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True, env={"DEMUR_KEY": key})
    assert '"action":"answer"' in done.stdout


def test_strangers_learn_whether_all_is_well(service, http):
    assert http.get("/healthz").json() == {"status": "ok"}
    key = service.run_here("keys", "make", "prometheus", "--scope", "audit").strip()
    shown = {"Authorization": f"Bearer {key}"}
    assert http.get("/healthz", headers=shown).json()["models"]["digits"]["status"] == "ok"
    for path in ("/review/metrics", "/audit/metrics"):
        assert http.get(path).status_code == 401
        assert "demur_" in http.get(path, headers=shown).text


def test_a_person_logs_in_with_a_link_once(service):
    link = service.run_here("keys", "login", "Ada", "--scope", "review", "--scope", "audit").strip()
    assert link.startswith(f"{service.url}/review/login#demurcode_")
    with httpx.Client(base_url=service.url, headers={"Origin": service.url}) as browser:
        assert browser.get("/review/").headers["location"] == "/review/login?back=%2Freview%2F"
        done = browser.post("/review/login", data={"code": link})
        assert (done.status_code, done.headers["location"]) == (303, "/review/")
        assert browser.get("/review/v1/me", headers={"X-Demur-Reviewer": "eve"}).json()["name"] == "Ada"
        assert browser.get("/audit/").status_code == 200
        assert browser.post("/review/login", data={"code": link}).status_code == 403
        assert "Ada" in service.run_here("keys", "sessions")
        assert "1 sessions and 0 unused links of Ada are ended" in service.run_here("keys", "logout", "Ada")
        ended = time.monotonic()
        while browser.get("/audit/").status_code != 303:
            assert time.monotonic() - ended < 5
            time.sleep(0.1)


def test_in_a_browser(service, browser):
    link = service.run_here("keys", "login", "Lea", "--scope", "review", "--scope", "audit").strip()
    page = browser.new_page()
    page.goto(link)
    assert "#" not in page.url  # the code is in no history
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{service.url}/review/")
    assert page.locator("a.who").inner_text() == "Lea"
    page.goto(f"{service.url}/audit/")
    assert "Was the promise kept?" in page.content()
    page.locator("a.who").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{service.url}/review/login")
    page.goto(f"{service.url}/audit/")
    assert page.url.startswith(f"{service.url}/review/login")
    page.close()


def test_strangers_come_in_over_grpc_no_more_than_over_http(service, digits):
    rows = np.array([digit_rows(digits)[0]["input"]], dtype=np.float32)
    tensor = over_grpc.InferInput("input", list(rows.shape), "FP32")
    tensor.set_data_from_numpy(rows)
    key = service.run_here("keys", "make", "triton", "--scope", "predict").strip()
    with over_grpc.InferenceServerClient(f"127.0.0.1:{service.grpc_port}") as calls:
        assert calls.is_server_live()
        for headers in ({}, {"authorization": f"Bearer {key}x"}, {"authorization": f"Basic {key}"}):
            with pytest.raises(InferenceServerException) as refused:
                calls.infer("digits", [tensor], headers=headers)
            assert refused.value.status() == "StatusCode.UNAUTHENTICATED"
        with pytest.raises(InferenceServerException) as refused:
            calls.get_model_metadata("digits")
        assert refused.value.status() == "StatusCode.UNAUTHENTICATED"
        headers = {"authorization": f"Bearer {key}", "x-request-id": "over-grpc"}
        told = calls.infer("digits", [tensor], headers=headers)
        assert told.as_numpy("action").tolist() == [b"answer"]
    patiently(lambda: any(line.get("request_id") == "over-grpc" for line in lines(service)))


def patiently(true, seconds: float = 20) -> None:
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds
        time.sleep(0.1)


def everything_that_was_written(service) -> dict[str, bytes]:
    """Each log: of Ray, of all that it runs, of the service itself; and the words with which each process was begun."""
    begun = {f"process {one.pid}": "\0".join(one.cmdline()) for one in service.processes()}
    (session,) = {found[0] for words in begun.values() for found in re.finditer(r"/[^\s\0=]*/session_[\d_-]+", words)}
    files = [path for path in Path(session, "logs").rglob("*") if path.is_file()]
    assert len(files) > 20
    written = {str(path): path.read_bytes() for path in (*files, service.log)}
    return written | {name: words.encode() for name, words in begun.items()}


def hold_and_withdraw_one(service, http, key) -> None:
    """Somebody looks at a case and withdraws it, of which the webhook is told, where nobody listens."""
    shown = {"Authorization": f"Bearer {key}"}
    noise = np.random.default_rng(0).random((50, 8, 8)).tolist()
    items = [{"model": "digits", "input": image} for image in noise]
    told = http.post("/v1/predict/batch", json={"items": items}, headers=shown).json()["results"]
    held = next(one["prediction"]["id"] for one in told if one["prediction"]["action"] == "review")
    assert http.post(f"/review/v1/cases/{held}/withdraw", json={"why": "noise"}, headers=shown).is_success
    patiently(lambda: http.get("/review/v1/webhooks", headers=shown).json()["webhooks"][0]["waiting"] == 1)


def test_no_secret_is_in_any_log(service, http, digits, provider):
    key = service.run_here("keys", "make", "all", "--scope", "admin").strip()
    shown = {"Authorization": f"Bearer {key}"}
    assert predict(http, digits, **shown).status_code == 200
    for wrong in (key[:-1], f"{key}x", key.replace("_", "-")):  # and where it does not belong
        assert predict(http, digits, Authorization=f"Bearer {wrong}").status_code in (400, 401)
    assert http.get("/v1/models", params={"api_key": key, "token": key}).status_code == 401
    assert predict(http, digits, **shown, **{"X-Request-Timeout": key}).status_code == 422
    assert http.post("/v1/predict", content=f"{{{key}", headers=shown).status_code == 400
    hold_and_withdraw_one(service, http, key)

    link = service.run_here("keys", "login", "Eve", "--scope", "review").strip()
    with httpx.Client(base_url=service.url, headers={"Origin": service.url}) as browser:
        assert browser.post("/review/login", data={"code": link + "x"}).status_code == 403
        assert browser.post("/review/login", data={"code": link}).status_code == 303
        assert TOKEN.fullmatch(browser.cookies["demur-session"].encode())
        assert browser.get("/review/v1/me").json()["name"] == "Eve"
    provider.be_honest(preferred_username="Oda")
    with httpx.Client(base_url=service.url) as browser:
        for changed in ({"code": "wrong"}, {}):
            sent = browser.get("/review/login/oidc")
            back = provider.authorize(sent.headers["location"])
            done = browser.get("/review/login/oidc/callback", params=back | changed)
        assert done.status_code == 200
        assert browser.get("/review/v1/me").json()["name"] == "Oda"
    proxied = {"X-Demur-Proxy-Secret": HIDDEN["secret of the proxy"], "X-Forwarded-User": "Pia"}
    assert http.get("/review/v1/me", headers={**proxied, "X-Forwarded-Groups": "reviewers"}).json()["name"] == "Pia"
    assert http.get("/review/v1/me", headers=proxied).status_code == 403
    assert "nobody was shown" in service.run_here("access-log", "--person", "nobody")

    http.get("/v1/models", headers={**shown, "X-Request-Id": "the-last-one"})
    patiently(lambda: "the-last-one" in service.said())
    written = everything_that_was_written(service)
    told = b"".join(written.values())
    assert b"/review/login/oidc/callback" in told  # what happened is there
    assert b"/v1/predict" in told
    found = []
    for place, content in written.items():
        found += [(what, place) for what, text in HIDDEN.items() if text.encode() in content]
        found += [(what, place) for what, text in HIDDEN.items() if quote(text).encode() in content]
        found += [("a token", place, token[:16]) for token in TOKEN.findall(content)]
    assert not found
