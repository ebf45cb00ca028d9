"""Messages for people: Slack, Teams and mail over real local receivers, with hostile labels, groups and names."""

import email
import email.policy
import json
import socketserver
import threading
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest
from pydantic import ValidationError

from demur.review import outbox, queue
from demur.serve.config.webhooks import MailConfig, NoSecret, WebhookConfig, check_secrets, check_webhooks
from demur.serve.jobs.webhook_messages import (
    LONGEST,
    mail_of,
    message_of,
    slack_message,
    teams_message,
)
from demur.serve.jobs.webhooks import webhook_senders
from demur.traffic import log
from tests.conftest import entry, new_case, resolve
from tests.serve.jobs.test_webhooks import Receiver, with_webhooks

SERVICE = "https://demur.example.org"
CASE = UUID("01a1fc78-0000-7000-8000-000000000000")
HOSTILE = (
    "<!channel> <https://evil.example|you won> @here &amp; *b* [x](javascript:1)\r\n"
    "Bcc: all@example.org\n\u202e\u200bend"
)


def body(**data):
    told = {
        "id": str(CASE),
        "model": "digits",
        "group": HOSTILE,
        "prediction": HOSTILE,
        "confidence": 0.612,
        "outcome": {"label": HOSTILE, "author": HOSTILE, "codes": [HOSTILE]},
    }
    return {"type": "review.resolved", "timestamp": "2026-11-21T08:00:00+00:00", "data": {**told, **data}}


def told(**data):
    return message_of(body(**data), case_id=CASE, service_url=SERVICE)


def texts_of(value):
    """Every text of a JSON value, with the object that holds it."""
    if isinstance(value, dict):
        for inside in value.values():
            if isinstance(inside, str):
                yield value, inside
            else:
                yield from texts_of(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from texts_of(inside)


def test_a_message_says_what_was_decided_and_leads_to_the_case():
    message = told(prediction="7", group=None, outcome={"label": ["a", "b"], "author": "ada", "codes": None})
    assert message.title == "A case of digits is decided"
    assert dict(message.facts) == {
        "People say": "a, b",
        "Who": "ada",
        "The model said": "7",
        "Confidence": "61%",
        "When": "2026-11-21T08:00:00+00:00",
    }
    assert message.link == f"{SERVICE}/review/cases/{CASE}"


def test_of_an_overdue_case_people_do_not_learn_what_the_model_said():
    message = message_of({**body(outcome=None, group="a shop"), "type": "review.overdue"})
    assert message.title == "A case of digits is overdue"
    assert dict(message.facts) == {"Group": "a shop", "When": "2026-11-21T08:00:00+00:00"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"outcome": None}, "nobody could tell"),
        ({"outcome": {"label": [], "author": None}, "prediction": None, "confidence": None}, "no label"),
    ],
)
def test_what_is_not_there_is_not_said(data, words):
    assert dict(told(**data).facts)["People say"] == words


def test_values_are_one_line_short_and_have_nothing_hidden():
    message = told(group="x" * 10_000)
    values = dict(message.facts)
    assert len(values["Group"]) == LONGEST
    assert all("\n" not in value and "\r" not in value for value in values.values())
    assert "[U+202E]" in values["People say"]
    assert "[U+200B]" in values["People say"]


def test_slack_parses_nothing_that_came_from_outside():
    made = slack_message(told(model="<!here>"))
    parsed = [(holder, text) for holder, text in texts_of(made) if holder.get("type") == "mrkdwn"]
    assert [text for _, text in parsed] == ["mrkdwn", f"<{SERVICE}/review/cases/{CASE}|Open the case>"]
    assert made["text"] == "A case of &lt;!here&gt; is decided"
    assert "channel" not in made["text"]
    assert (made["unfurl_links"], made["unfurl_media"]) == (False, False)
    header, values, _ = made["blocks"]
    assert values["text"]["type"] == header["text"]["type"] == "plain_text"
    assert (values["text"]["emoji"], header["text"]["emoji"]) == (False, False)


def test_teams_reads_no_markdown_in_what_came_from_outside():
    made = teams_message(told())
    (attachment,) = made["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    for holder, text in texts_of(attachment["content"]["body"]):
        if "evil" in text:
            assert holder["type"] == "TextRun"
    (action,) = attachment["content"]["actions"]
    assert action["url"] == f"{SERVICE}/review/cases/{CASE}"
    assert "msteams" not in attachment["content"]  # where mentions would stand


MAIL = {"host": "127.0.0.1", "security": "none", "sender": "demur@example.org", "to": ("lea@example.org",)}


def test_a_mail_has_no_header_that_came_from_outside():
    mail = mail_of(told(model=HOSTILE), MailConfig(**MAIL), delivery_id=CASE, at=datetime.now(UTC))
    read = email.message_from_bytes(mail.as_bytes(), policy=email.policy.default)
    ours = {"Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted"}
    assert set(read.keys()) == ours | {"MIME-Version", "Content-Type", "Content-Transfer-Encoding"}
    assert read["To"] == "lea@example.org"
    assert read.get_content_type() == "text/plain"
    assert f"Open the case: {SERVICE}/review/cases/{CASE}" in read.get_content()


def test_an_alarm_leads_to_the_monitors():
    data = {
        "model": "digits",
        "words": "More is wrong.",
        "artifact": "digits-1",
        "action": "hold_all",
        "raised_at": "x",
    }
    message = message_of({"type": "audit.alarm", "timestamp": "x", "data": data}, service_url=SERVICE)
    assert (message.title, message.link) == ("Alarm about digits", f"{SERVICE}/audit/monitors")
    assert dict(message.facts)["What it does"] == "everything is held"


def test_an_event_of_a_later_version_is_told_as_well():
    assert message_of({**body(), "type": "review.new"}).title == "News of a case of digits"
    assert message_of(body()).link is None


# ---- over real HTTP and SMTP ----


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


class Mailbox:
    """A local SMTP server of few words: what it was sent, and what it answers to the recipient."""

    def __init__(self):
        self.mails = []
        self.answer = "250 fine"
        self.stranger = "nobody in particular"
        mailbox = self

        class Handler(socketserver.StreamRequestHandler):
            def say(self, line):
                self.wfile.write(f"{line}\r\n".encode())

            def handle(self):
                self.say("220 here")
                recipients = []
                while line := self.rfile.readline().decode().strip():
                    verb = line[:4].upper()
                    if verb == "RCPT":
                        known = mailbox.stranger not in line
                        recipients += [line] if known else []
                        self.say(mailbox.answer if known else "550 no such person")
                    elif verb == "DATA":
                        self.say("354 go on")
                        lines = []
                        while (data := self.rfile.readline()) not in (b".\r\n", b""):
                            lines.append(data.removeprefix(b"."))
                        mailbox.mails.append((recipients, b"".join(lines)))
                        self.say("250 taken")
                    elif verb == "QUIT":
                        self.say("221 bye")
                        break
                    else:
                        self.say("250 fine")

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def mailbox():
    mailbox = Mailbox()
    yield mailbox
    mailbox.server.shutdown()
    mailbox.server.server_close()


def sender_of(quickstart, database, webhook):
    config = with_webhooks(quickstart, webhook)
    (sender,) = webhook_senders(config, database, clock=lambda: datetime.now(UTC), rng=np.random.default_rng(0))
    return sender


def resolved(database, **changes):
    one = entry(model="digits", **changes)
    with database.transaction() as connection:
        log.append(connection, [one])
        queue.enqueue(connection, [new_case(one)])
        resolve(connection, one.record.id, "ada", "3")
    return one.record.id


def due_again(database):
    with database.transaction() as connection:
        connection.execute("update webhook_deliveries set next_at = clock_timestamp()")


def pending(database):
    with database.transaction() as connection:
        (one,) = outbox.pending(connection)
    return one


@pytest.mark.parametrize("kind", ["slack", "teams"])
def test_a_channel_is_told_and_the_outbox_tries_again(quickstart, database, receiver, monkeypatch, kind, caplog):
    secret = f"{receiver.url}/T0/B0/very-secret"
    monkeypatch.setenv("CHANNEL", secret)
    webhook = WebhookConfig(format=kind, name="the reviewers", url_env="CHANNEL", service_url=SERVICE)
    sender = sender_of(quickstart, database, webhook)
    case_id = resolved(database, group="<!channel>")
    answers = [503, 200]
    receiver.answer = lambda number: answers[number]
    caplog.set_level("DEBUG")
    assert sender.send() == 1
    assert (pending(database).webhook, pending(database).waiting) == ("the reviewers", 1)
    due_again(database)
    assert sender.send() == 1
    assert pending(database).waiting == 0
    (path, headers, _), (_, _, sent) = receiver.requests
    assert path == "/hook/T0/B0/very-secret"
    assert "webhook-signature" not in headers
    assert f"{SERVICE}/review/cases/{case_id}" in sent.decode()
    assert "blocks" in json.loads(sent) or "attachments" in json.loads(sent)
    assert "very-secret" not in caplog.text


def test_the_address_of_a_channel_is_nowhere_but_in_the_environment(quickstart, database, monkeypatch):
    monkeypatch.setenv("CHANNEL", "http://127.0.0.1:9/very-secret")  # nobody listens there
    webhook = WebhookConfig(format="slack", name="the reviewers", url_env="CHANNEL", most_attempts=1)
    sender = sender_of(quickstart, database, webhook)
    resolved(database)
    sender.send()
    with database.transaction() as connection:
        (dead,) = outbox.dead_letters(connection, limit=9)
        for table in ("webhook_deliveries", "webhook_subscriptions"):
            rows = connection.execute(f"select to_json(t)::text from {table} t").fetchall()
            assert "very-secret" not in str(rows)
    assert "ConnectError" in dead.last_error


def test_a_mail_arrives_and_a_refused_one_is_tried_again(quickstart, database, mailbox):
    mail = {**MAIL, "port": mailbox.port, "to": ("lea@example.org", "len@example.org")}
    webhook = WebhookConfig(format="email", name="leads", email=mail, service_url=SERVICE)
    sender = sender_of(quickstart, database, webhook)
    case_id = resolved(database, group=".\r\nRSET\r\n.\r\n")
    mailbox.answer = "450 later"
    sender.send()
    assert (mailbox.mails, pending(database).waiting) == ([], 1)
    mailbox.answer = "250 fine"
    due_again(database)
    sender.send()
    assert pending(database).waiting == 0
    ((recipients, sent),) = mailbox.mails
    assert len(recipients) == 2
    read = email.message_from_bytes(sent, policy=email.policy.default)
    assert read["Subject"] == "demur: A case of digits is decided"
    assert f"{SERVICE}/review/cases/{case_id}" in read.get_content()
    assert "Group: . RSET ." in read.get_content()


def test_who_has_a_mail_does_not_get_it_again_because_another_address_is_wrong(quickstart, database, mailbox):
    mail = {**MAIL, "port": mailbox.port, "to": ("lea@example.org", "gone@example.org")}
    sender = sender_of(quickstart, database, WebhookConfig(format="email", name="leads", email=mail))
    resolved(database)
    mailbox.stranger = "gone@"
    for _ in range(2):
        sender.send()
        due_again(database)
    assert [len(recipients) for recipients, _ in mailbox.mails] == [1]
    with database.transaction() as connection:
        (dead,) = outbox.dead_letters(connection, limit=9)
    assert dead.last_error == "it was not taken for gone@example.org; the others have it"


def test_a_server_that_is_silent_is_given_up_in_time(quickstart, database):
    silent = socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler, bind_and_activate=True)
    try:
        mail = {**MAIL, "port": silent.server_address[1]}
        webhook = WebhookConfig(format="email", name="leads", email=mail, timeout_seconds=0.3, most_attempts=1)
        sender = sender_of(quickstart, database, webhook)
        resolved(database)
        sender.send()
        with database.transaction() as connection:
            (dead,) = outbox.dead_letters(connection, limit=9)
        assert "no answer within 0.3 s" in dead.last_error or "TimeoutError" in dead.last_error
    finally:
        silent.server_close()


# ---- the configuration ----

SLACK = {"format": "slack", "name": "a", "url_env": "CHANNEL"}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"format": "slack", "url": "https://hooks.slack.com/x"}, "name: a webhook of format `slack` needs"),
        ({**SLACK, "url": "https://hooks.slack.com/x"}, "url: a webhook of format `slack` has none"),
        ({**SLACK, "secret_env": "X"}, "secret_env: a webhook of format `slack` has none"),
        ({"url": "https://a.example", "secret_env": "X", "name": "a"}, "name: a webhook of format `json` has none"),
        ({"url": "https://a.example"}, "secret_env: a webhook of format `json` needs url, secret_env"),
        ({"format": "email", "name": "a"}, "email: a webhook of format `email` needs"),
        ({"format": "sms", "name": "a"}, "format"),
        ({**SLACK, "name": "a\nb"}, "name"),
        ({**SLACK, "service_url": "https://a.example/|x"}, "service_url"),
        ({**SLACK, "service_url": "javascript:alert(1)"}, "service_url"),
        ({"format": "email", "name": "a", "email": {**MAIL, "to": ["x@a.example\nBcc: y@a.example"]}}, "email"),
        ({"format": "email", "name": "a", "email": {**MAIL, "to": ["x@a.example, y@a.example"]}}, "email"),
        ({"format": "email", "name": "a", "email": {**MAIL, "sender": "a..b@a.example"}}, "email"),
        ({"format": "email", "name": "a", "email": {**MAIL, "sender": "a@.example"}}, "email"),
        ({"format": "email", "name": "a", "email": {**MAIL, "host": "mail.example.org"}}, "on this machine only"),
        ({"format": "email", "name": "a", "email": {**MAIL, "user": "me"}}, "user and password_env"),
    ],
)
def test_what_does_not_fit_is_refused(told, words):
    with pytest.raises(ValidationError, match=words):
        WebhookConfig.model_validate(told)


def test_secrets_that_are_missing_are_named_before_the_start(monkeypatch):
    slack = WebhookConfig.model_validate(SLACK)
    mail = WebhookConfig.model_validate(
        {"format": "email", "name": "b", "email": {**MAIL, "user": "me", "password_env": "MAIL_PASSWORD"}}
    )
    with pytest.raises(NoSecret, match="CHANNEL is not set"):
        check_secrets([slack])
    monkeypatch.setenv("CHANNEL", "hooks.slack.com/very-secret")
    with pytest.raises(NoSecret, match="CHANNEL is no address") as found:
        check_secrets([slack])
    assert "very-secret" not in str(found.value)
    with pytest.raises(NoSecret, match="MAIL_PASSWORD is not set"):
        check_secrets([mail])
    with pytest.raises(ValueError, match="a is there twice"):
        check_webhooks([slack, replace_name(slack, "a")], ["digits"])


def replace_name(webhook, name):
    return webhook.model_copy(update={"name": name})
