"""Webhooks over real HTTP: signed, tried again, never lost, never sent twice at the same time."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import yaml
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from starlette.testclient import TestClient

from demur.review import outbox, queue
from demur.serve.config.file import Config
from demur.serve.config.review import Person
from demur.serve.config.webhooks import NoSecret, WebhookConfig, check_secrets, check_webhooks
from demur.serve.jobs.webhooks import AT_ONCE, WebhookSender, webhook_senders
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import ROOT, entry, new_case, resolve
from tests.serve.config.test_file import load
from tests.serve.config.test_file import quickstart as quickstart_content

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # with the usual five, of several senders one is turned away now and then
    daemon_threads = True


class Receiver:
    """A local HTTP server, and what it was sent. `answer` says what it does: from the number of the request on, a
    status, or a function of the handler."""

    def __init__(self):
        self.requests = []
        self.answer = lambda _number: 204
        self.busy = Counter()
        self.most_at_once = 0
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with receiver._lock:
                    number = len(receiver.requests)
                    receiver.requests.append((self.path, headers, body))
                    receiver.busy[headers["webhook-id"]] += 1
                    receiver.most_at_once = max(receiver.most_at_once, receiver.busy[headers["webhook-id"]])
                try:
                    answer = receiver.answer(number)
                    if callable(answer):
                        answer(self)
                    else:
                        self.send_response(answer)
                        self.send_header("content-length", "0")
                        self.end_headers()
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the sender has given up
                finally:
                    with receiver._lock:
                        receiver.busy[headers["webhook-id"]] -= 1

            def log_message(self, *_args):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def ids(self):
        return [headers["webhook-id"] for _, headers, _ in self.requests]


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def config(quickstart, receiver, monkeypatch):
    """One webhook, at the receiver."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    webhook = WebhookConfig(
        url=receiver.url, secret_env="HOOK_SECRET", events=("resolved", "withdrawn"), timeout_seconds=5, most_attempts=3
    )
    return with_webhooks(quickstart, webhook)


def with_webhooks(config, *webhooks, **review):
    review = config.review.model_copy(update={"webhooks": webhooks, **review})
    return config.model_copy(update={"review": review})


def sender_of(config, database, clock=lambda: datetime.now(UTC)):
    (sender,) = webhook_senders(config, database, clock=clock, rng=np.random.default_rng(0))
    return sender


@pytest.fixture
def sender(config, database):
    return sender_of(config, database)


def resolved(database, n=1):
    """So many digits that ada has looked at; return their ids. The webhooks are subscribed before."""
    entries = [entry(model="digits", input={"text": f"the secret input {at}"}) for at in range(n)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
        for one in entries:
            resolve(connection, one.record.id, "ada", "3")
    return [one.record.id for one in entries]


def at_once_due(database):
    with database.transaction() as connection:
        connection.execute("update webhook_deliveries set next_at = clock_timestamp(), leased_until = null")


def dead(database):
    with database.transaction() as connection:
        return outbox.dead_letters(connection, limit=99)


def last_error(database):
    with database.transaction() as connection:
        return connection.execute("select last_error from webhook_deliveries").fetchone()[0]


def test_what_arrives_is_signed_and_says_what_the_api_says(sender, receiver, database, config):
    (case,) = resolved(database)
    assert sender.send() == 1
    assert sender.send() == 0
    [(path, headers, body)] = receiver.requests
    assert (path, headers["content-type"]) == ("/hook", "application/json")
    told = Webhook(SECRET).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body.replace(b'"3"', b'"8"'), headers)
    assert told["type"] == "review.resolved"
    datetime.fromisoformat(told["timestamp"])
    assert told["data"]["id"] == str(case)
    assert told["data"]["review"]["status"] == "resolved"
    assert (told["data"]["outcome"]["label"], told["data"]["outcome"]["author"]) == ("3", "ada")
    assert told["data"]["counts_by"] == "the latest"
    assert b"secret input" not in body


def test_a_text_that_the_model_wrote_is_not_told(sender, receiver, database):
    text = {"text": "the secret reply", "finish_reason": "stop"}
    one = entry(model="digits", prediction="right", reply=text, top_labels=["right"], top_probabilities=[0.5])
    with database.transaction() as connection:
        log.append(connection, [one])
        queue.enqueue(connection, [new_case(one)])
        queue.withdraw(connection, one.record.id, "ada", why="a test")
    sender.send()
    [(_, _, body)] = receiver.requests
    told = json.loads(body)
    assert (told["type"], told["data"]["prediction"]) == ("review.withdrawn", "right")
    assert b"secret reply" not in body


def test_a_failure_is_tried_again_with_the_same_id_and_body_and_a_new_time(config, receiver, database):
    moment = [datetime.now(UTC).replace(microsecond=0)]
    sender = sender_of(config, database, clock=lambda: moment[0])
    receiver.answer = lambda number: 500 if number == 0 else 200
    (case,) = resolved(database)
    sender.send()
    assert last_error(database) == "it answered 500"
    assert sender.send() == 0  # not before its pause is over
    with database.transaction() as connection:
        log.add_outcome(connection, case, label="8", source="lab", author=None)  # the body stays as it was
    at_once_due(database)
    moment[0] = datetime.fromtimestamp(moment[0].timestamp() + 7, UTC)
    assert sender.send() == 1
    (_, first, body), (_, second, again) = receiver.requests
    assert (first["webhook-id"], body) == (second["webhook-id"], again)
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 7
    Webhook(SECRET).verify(again, second)
    at_once_due(database)
    assert sender.send() == 0


def drip(handler):
    """A response of which a byte comes now and then, and which never ends."""
    for letter in b"HTTP/1.1 200 OK\r\nx: " + b"a" * 10_000:
        handler.wfile.write(bytes([letter]))
        handler.wfile.flush()
        time.sleep(0.05)


def redirect(to):
    def answer(handler):
        handler.send_response(307)
        handler.send_header("location", to)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


def hang_up(handler):
    handler.connection.close()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (404, "it answered 404"),
        (503, "it answered 503"),
        (redirect("http://127.0.0.1:9/elsewhere"), "it answered 307, and redirects are not followed"),
        (redirect("/hook"), "it answered 307, and redirects are not followed"),
        (hang_up, "RemoteProtocolError"),
        (drip, "no answer within 0.5 s"),
        (lambda _: time.sleep(1.5), "no answer within 0.5 s"),
    ],
)
def test_what_is_no_success_is_said(config, receiver, database, answer, says):
    webhook = config.review.webhooks[0].model_copy(update={"timeout_seconds": 0.5})
    sender = sender_of(with_webhooks(config, webhook), database)
    receiver.answer = lambda _: answer
    resolved(database)
    assert sender.send() == 1
    assert len(receiver.requests) == 1  # nothing was followed
    assert last_error(database).startswith(says)
    assert dead(database) == []


def test_a_port_where_nobody_listens_is_said(config, receiver, database):
    sender = sender_of(config, database)
    receiver.server.server_close()
    receiver.server.shutdown()
    resolved(database)
    sender.send()
    assert last_error(database).startswith("ConnectError")


def test_a_receiver_that_is_gone_gets_nothing_more_and_one_that_fails_is_given_up(sender, receiver, database, caplog):
    receiver.answer = lambda _: 410
    resolved(database)
    sender.send()
    [gone] = dead(database)
    assert (gone.attempts, gone.last_error) == (1, "it answered 410")
    receiver.answer = lambda _: 500
    resolved(database)
    for _ in range(5):
        sender.send()
        at_once_due(database)
    assert len(receiver.requests) == 1 + 3  # most_attempts
    assert {one.last_error for one in dead(database)} == {"it answered 410", "it answered 500"}
    assert "is given up after 3 attempts" in caplog.text


def test_a_full_outbox_is_emptied_in_one_go(sender, receiver, database):
    ids = resolved(database, 2 * AT_ONCE + 3)
    assert sender.send() == len(ids)
    assert len(set(receiver.ids)) == len(receiver.ids) == len(ids)


def test_senders_beside_each_other_send_each_thing_once(config, receiver, database):
    senders = [sender_of(config, database) for _ in range(4)]
    n = 3 * AT_ONCE
    resolved(database, n)

    def slowly(number):
        time.sleep(0.002 * (number % 7))
        return 200

    receiver.answer = slowly
    with ThreadPoolExecutor(4) as pool:
        attempts = [done.result() for done in [pool.submit(one.send) for one in senders]]
    assert sum(attempts) == n
    assert (len(set(receiver.ids)), len(receiver.ids), receiver.most_at_once) == (n, n, 1)


def test_what_was_not_noted_is_sent_again_under_the_same_id(config, receiver, database, monkeypatch, caplog):
    sender = sender_of(config, database)
    resolved(database, 2)
    with monkeypatch.context() as patch:

        def away(*_args, **_settings):
            raise ConnectionError("the database went away")

        patch.setattr(sender, "_note", away)
        sender.send()
    assert "was not noted" in caplog.text
    assert sender.send() == 0  # until the lease is over
    at_once_due(database)
    assert sender.send() == 2
    assert Counter(receiver.ids).most_common() == [(one, 2) for one in dict.fromkeys(receiver.ids)]


def test_a_case_that_cannot_be_put_into_words_keeps_no_other_waiting(sender, receiver, database, monkeypatch):
    first, second = resolved(database, 2)
    find = log.find_one

    def broken(connection, record_id):
        if record_id == first:
            raise ValueError("a strange record")
        return find(connection, record_id)

    monkeypatch.setattr("demur.serve.jobs.webhooks.log.find_one", broken)
    assert sender.send() == 2
    [(_, _, body)] = receiver.requests
    assert json.loads(body)["data"]["id"] == str(second)


KILLED = """
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from demur.serve.configuration import load_config
from demur.serve.database.opening import open_database
from demur.serve.config.webhooks import WebhookConfig
from demur.serve.jobs.webhooks import webhook_senders

dsn, url, path = sys.argv[1:]
config = load_config(Path(path))
webhook = WebhookConfig(url=url, secret_env="HOOK_SECRET")
review = config.review.model_copy(update={"webhooks": (webhook,)})
config = config.model_copy(update={"review": review})
(sender,) = webhook_senders(config, open_database(dsn), clock=lambda: datetime.now(UTC), rng=np.random.default_rng(0))
sender.send()
"""


@pytest.mark.slow
def test_a_sender_that_is_killed_after_the_delivery_and_before_the_note_loses_nothing(config, receiver, database):
    sender = sender_of(config, database)
    resolved(database)
    process = []

    def accept_and_kill(handler):
        os.kill(process[0].pid, signal.SIGKILL)  # what was delivered cannot be noted
        handler.send_response(200)
        handler.end_headers()

    receiver.answer = lambda number: accept_and_kill if number == 0 else 200
    words = [sys.executable, "-c", KILLED, database.dsn, receiver.url, str(ROOT / "tests/quickstart.yaml")]
    process.append(subprocess.Popen(words, cwd=ROOT, env={**os.environ, "HOOK_SECRET": SECRET}))
    assert process[0].wait(timeout=120) == -signal.SIGKILL
    assert sender.send() == 0  # its lease goes on
    at_once_due(database)
    assert sender.send() == 1
    assert len(receiver.ids) == 2
    assert len(set(receiver.ids)) == 1
    at_once_due(database)
    assert sender.send() == 0


def test_subscriptions_are_those_of_the_configuration(config, database):
    with database.transaction() as connection:
        outbox.subscribe(connection, [outbox.Subscription(webhook="https://old.example", events=("resolved",))])
    sender_of(config, database)
    with database.transaction() as connection:
        [one] = outbox.subscriptions(connection)
    assert (one.webhook, one.events, one.models) == (
        config.review.webhooks[0].url,
        ("resolved", "withdrawn"),
        None,
    )


@pytest.mark.parametrize(
    ("webhook", "why"),
    [
        ({"url": "ftp://example.org/"}, "is not an address like https://example.org/demur"),
        ({"url": "https://"}, "is not an address"),
        ({"url": "https://example.org:port/"}, "is not an address"),
        ({"url": "https://example.org/a b"}, "is not an address"),
        ({"url": "https://me:secret@example.org/"}, "an address with a password in it is shown to people"),
        ({"events": ["answered"]}, "review.webhooks.0.events.0: 'answered' is not one of: resolved, overdue"),
        ({"events": []}, "review.webhooks.0.events"),
        ({"models": ["letters"]}, "there is no model 'letters'; there are: digits, sums"),
        ({"timeout_seconds": 0}, "review.webhooks.0.timeout_seconds"),
        ({"most_attempts": 0}, "review.webhooks.0.most_attempts"),
        ({"secret": SECRET}, "review.webhooks.0.secret: this key is not known"),
    ],
)
def test_a_mistake_in_a_webhook_is_named(tmp_path, webhook, why):
    content = quickstart_content()
    content.setdefault("review", {})["webhooks"] = [
        {"url": "https://example.org/demur", "secret_env": "HOOK_SECRET", **webhook}
    ]
    with pytest.raises(ValueError, match="webhooks") as refused:
        load(tmp_path, content)
    assert why in str(refused.value)


def test_one_address_is_there_once():
    webhook = WebhookConfig(url="https://example.org/demur", secret_env="HOOK_SECRET")
    with pytest.raises(ValueError, match="is there twice; write all its events in one place"):
        check_webhooks([webhook, webhook], ["digits"])


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        (None, "the environment variable HOOK_SECRET is not set"),
        ("", "is not set"),
        ("whsec_", "is no secret"),
        ("whsec_dG9vIHNob3J0", "at least 24 bytes in base64"),
        ("correct horse battery staple, correct horse", "is no secret"),
    ],
)
def test_without_a_secret_nothing_starts(monkeypatch, secret, why):
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    if secret is not None:
        monkeypatch.setenv("HOOK_SECRET", secret)
    webhook = WebhookConfig(url="https://example.org/demur", secret_env="HOOK_SECRET")
    with pytest.raises(NoSecret) as refused:
        check_secrets([webhook])
    assert why in str(refused.value)
    if secret:
        assert secret not in str(refused.value)


def test_secrets_as_they_are_written(monkeypatch):
    webhook = WebhookConfig(url="https://example.org/demur", secret_env="HOOK_SECRET")
    for secret in (SECRET, SECRET.removeprefix("whsec_"), OTHER.rstrip("=")):
        monkeypatch.setenv("HOOK_SECRET", f" {secret}\n")
        assert webhook.secret() == secret


def visit(config: Config, database, name):
    client = TestClient(console_app(config, database), root_path="/review")
    client.post("/review/hello", data={"name": name})
    return client


def test_what_was_given_up_is_shown_and_sent_again(config, sender, receiver, database):
    receiver.answer = lambda _: 410
    resolved(database, 2)
    sender.send()
    ada = visit(config, database, "ada")
    seen = ada.get("/review/v1/webhooks").json()
    [webhook] = seen["webhooks"]
    assert webhook == {
        "url": receiver.url,
        "events": ["resolved", "withdrawn"],
        "models": None,
        "waiting": 0,
        "dead": 2,
        "oldest": None,
    }
    assert [one["last_error"] for one in seen["dead"]] == ["it answered 410"] * 2
    page = ada.get("/review/webhooks").text
    assert page.count("Send again") == 2
    assert receiver.url in page
    first, second = (one["id"] for one in seen["dead"])
    assert ada.post(f"/review/v1/webhooks/deliveries/{first}/again").status_code == 202
    assert ada.post(f"/review/v1/webhooks/deliveries/{first}/again").status_code == 404
    assert ada.post(f"/review/webhooks/{second}/again").url.path == "/review/webhooks"
    receiver.answer = lambda _: 200
    assert sender.send() == 2
    seen = ada.get("/review/v1/webhooks").json()
    assert (seen["webhooks"][0]["dead"], seen["dead"]) == (0, [])
    assert Counter(receiver.ids) == {first: 2, second: 2}
    assert "Send again" not in ada.get("/review/webhooks").text


def test_only_those_who_lead_see_the_webhooks(config, database):
    people = {"lea": Person(leads=True, adjudicates=True), "ada": Person()}
    config = with_webhooks(config, *config.review.webhooks, people=people)
    assert visit(config, database, "lea").get("/review/webhooks").status_code == 200
    ada = visit(config, database, "ada")
    for path in ("/review/webhooks", "/review/v1/webhooks"):
        assert ada.get(path).status_code == 403
    assert ada.post(f"/review/v1/webhooks/deliveries/{ROOT.name}/again").status_code in (403, 422)


def test_a_page_without_webhooks_says_how_to_have_some(quickstart, database):
    assert "Write <code>review.webhooks</code>" in visit(quickstart, database, "ada").get("/review/webhooks").text


def test_a_sender_needs_its_secret(config, database, monkeypatch):
    monkeypatch.delenv("HOOK_SECRET")
    with pytest.raises(NoSecret):
        WebhookSender(
            config.review.webhooks[0], config, database, clock=lambda: datetime.now(UTC), rng=np.random.default_rng(0)
        )


def blocks(language):
    """What stands in docs/webhooks.md between fences of a language."""
    text = (ROOT / "docs/webhooks.md").read_text()
    return [part.split("```")[0] for part in text.split(f"```{language}\n")[1:]]


def test_the_receiver_and_the_settings_in_the_docs_work(sender, receiver, database, tmp_path, capsys):
    content = quickstart_content()
    outcomes, hooks, for_people = (yaml.safe_load(block) for block in blocks("yaml"))
    content["models"]["digits"] |= outcomes["models"]["digits"]
    content["review"] |= hooks["review"]
    config = load(tmp_path, content)
    assert config.precedence("digits") == ("lab", "review", "api")
    assert config.review.webhooks[0].models == ("digits",)
    content["review"] |= for_people["review"]
    assert [one.format for one in load(tmp_path, content).review.webhooks] == ["slack", "teams", "email"]
    [code] = blocks("python")
    names = {}
    exec(code, names)
    (case,) = resolved(database)
    sender.send()
    [(_, headers, body)] = receiver.requests
    client = TestClient(names["app"])
    for _ in range(2):
        assert client.post("/demur", content=body, headers=headers).status_code == 204
    assert capsys.readouterr().out.count(f"review.resolved {case}") == 1
    with pytest.raises(WebhookVerificationError):
        client.post("/demur", content=body + b" ", headers=headers)
